"""What went wrong with a request, as one of our failure classes. Decided by type and status, never by words.

│ rate limit, overloaded                       Overloaded, with the wait that was asked for
│ unavailable (503)                            Overloaded if it named a wait, else Transient
│ 5xx, connection, time-out, broken answer     Transient
│ 400, 401, 403, 404, no credit, redirect      Permanent
│ context overflow, request too large          Exhausted
│ anything else                                Crashed
"""

from __future__ import annotations

import json

import httpx2
from pydantic_ai import exceptions as theirs

from agent_worker.backends.models.providers import Route
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient

_LONGEST_MESSAGE = 500
_TOO_LARGE = 413
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425})


def failure(error: Exception, route: Route | None = None) -> BackendFailure:
    if ours := _ours_within(error):
        return ours
    message = _message(error, route)
    match error:
        case theirs.ModelAPIError():
            return _api_failure(error, message, route)
        case theirs.ContentFilterError() | theirs.UserError():
            return Permanent(message)
        case TimeoutError() | OSError() | httpx2.HTTPError() | httpx2.StreamError() | json.JSONDecodeError():
            return Transient(message)
        case _:
            return Crashed(f"{type(error).__name__}: {message}")


def _api_failure(error: theirs.ModelAPIError, message: str, route: Route | None) -> BackendFailure:
    status = error.status_code if isinstance(error, theirs.ModelHTTPError) else 0
    match error:
        case theirs.ModelRateLimitError() | theirs.ModelOverloadedError():
            return Overloaded(message, retry_after=error.retry_after)
        case theirs.ModelUnavailableError():
            if error.retry_after is None:
                return Transient(message)
            return Overloaded(message, retry_after=error.retry_after)
        case theirs.ModelQuotaExceededError():
            return Permanent(message, hint="add credit at the provider, or use another one")
        case theirs.ModelContextWindowExceededError():
            return Exhausted(message, hint="use a model with a larger context")
        case theirs.ModelAuthenticationError():
            return Permanent(message, hint=_key_hint(route))
        case theirs.ModelNotFoundError():
            return Permanent(message, hint=_name_hint(error))
        case theirs.ModelRequestRejectedError():
            return Permanent(message)
        case theirs.ModelHTTPError() if status == _TOO_LARGE:
            return Exhausted(message, hint="the conversation is too large for this provider")
        case theirs.ModelHTTPError() if 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY:
            return Permanent(message)
        case _:
            return Transient(message)


def _ours_within(error: BaseException | None) -> BackendFailure | None:
    """A failure raised by our own transport comes back wrapped as a failed connection."""
    while error is not None:
        if isinstance(error, BackendFailure):
            return error
        error = error.__cause__  # not __context__: that may be the failure which this very try follows
    return None


def _message(error: Exception, route: Route | None) -> str:
    text = _said(error) or str(error) or type(error).__name__
    # Some providers quote the key they did not like.
    if route and route.key:
        text = text.replace(route.key, "…")
    where = f"{route.provider}/{route.model}: " if route else ""
    status = f"{error.status_code} " if isinstance(error, theirs.ModelHTTPError) else ""
    return f"{where}{status}{text}"[:_LONGEST_MESSAGE]


def _said(error: Exception) -> str:
    """The sentence in the body of an error answer."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        said = inner.get("message") if isinstance(inner, dict) else inner
        return said if isinstance(said, str) else ""
    return ""


def _key_hint(route: Route | None) -> str:
    return f"check the key in {route.variable}" if route and route.variable else "check the key"


def _name_hint(error: theirs.ModelNotFoundError) -> str:
    suggested = error.suggested_model_id if isinstance(error, theirs.ModelHTTPError) else None
    return f"did you mean {suggested}?" if suggested else "check the model's name"
