"""What went wrong with a request, as one of our failure classes. Decided by status and code, else by words.

│ rate limit, overloaded                       Overloaded, with the wait that was asked for
│ unavailable (503)                            Overloaded if it named a wait, else Transient
│ 5xx, and an answer that broke off            Transient
│ 400, 401, 403, 404, no credit                Permanent
│ context overflow, request too large          Exhausted
"""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime

from agent_worker.backends.models.model_client import ModelAnswer
from agent_worker.backends.models.protocol import mapping, words
from agent_worker.backends.models.providers import Route
from agent_worker.core.errors import BackendFailure, Exhausted, Overloaded, Permanent, Transient

_LONGEST_MESSAGE = 500
_WORTH_ANOTHER_TRY = frozenset({408, 409, 425})
#: An error in a stream has no status of its own, only the provider's word for it.
_STATUS = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
}
_NO_CREDIT = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
_TOO_LONG = frozenset({"context_length_exceeded", "request_too_large"})
#: Where a provider has no code for it, in the message of a 400.
_NO_CREDIT_SAID = ("credit balance is too low",)
_IN_ONE_PIECE = "it answered in one piece, though it was asked to stream"
_NO_API = "with a web page instead of an answer: does base_url point to a model API?"
_TOO_LONG_SAID = ("prompt is too long", "maximum context length", "context window", "input token count")


async def refused(answer: ModelAnswer, route: Route) -> BackendFailure:
    """The failure that an answer stands for which is no stream: an error, a page for people, or all of it at once."""
    body = await answer.beginning()
    if body.lstrip().startswith(b"<"):
        return _failure(answer.status, _NO_API, route, wait=_wait(answer))
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = {}
    error = mapping(said[0] if isinstance(said, list) and said else said).get("error")
    if answer.status >= 400:
        return _failure(answer.status, error or said, route, wait=_wait(answer))
    return told(error, route) if error else Permanent(in_words(_IN_ONE_PIECE, route))


def told(error: object, route: Route) -> BackendFailure:
    """The failure that an error stands for which came with no status of its own."""
    code = mapping(error).get("code")
    number = code if isinstance(code, int) else _number(words(code)) or 0
    status = int(number) if 400 <= number < 600 else next((_STATUS[c] for c in _codes(error) if c in _STATUS), 500)
    return _failure(status, error, route, wait=None)


def in_words(message: str, route: Route) -> str:
    """A message that names the model, and not the key, which some providers quote when they do not like it."""
    if route.key:
        message = message.replace(route.key, "…")
    return f"{route.provider}/{route.model}: {message}"[:_LONGEST_MESSAGE]


def _failure(status: int, error: object, route: Route, *, wait: float | None) -> BackendFailure:
    codes, said = _codes(error), _said(error)
    message = in_words(f"{status} {said}".strip(), route)
    if codes & _TOO_LONG or status == 413 or (status == 400 and _says(said, _TOO_LONG_SAID)):
        return Exhausted(message, hint="use a model with a larger context, or give it less to read")
    if codes & _NO_CREDIT or status == 402 or (status == 400 and _says(said, _NO_CREDIT_SAID)):
        return Permanent(message, hint="add credit at the provider, or use another one")
    if status in (429, 529) or (status == 503 and wait is not None):
        return Overloaded(message, retry_after=wait)
    if status in (401, 403):
        return Permanent(message, hint=f"check the key in {route.variable}" if route.variable else "check the key")
    if status == 404:
        return Permanent(message, hint="check the model's name")
    if 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY:
        return Permanent(message)
    return Transient(message)


def _codes(error: object) -> set[str]:
    """The provider's own words for what went wrong: each protocol has another field for them."""
    return {word for name in ("type", "code", "status") if (word := words(mapping(error).get(name)))}


def _said(error: object) -> str:
    """The sentence in an error. Some providers put an error of their own provider into it."""
    return words(error) or words(mapping(error).get("message")) or words(mapping(error).get("detail"))


def _says(message: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in message.lower() for phrase in phrases)


def _wait(answer: ModelAnswer) -> float | None:
    """Seconds until we may come back, as the provider says: as a number, or as a date."""
    if (ms := _number(answer.header("retry-after-ms"))) is not None:
        return ms / 1000
    text = answer.header("retry-after")
    if (seconds := _number(text)) is not None:
        return seconds
    try:  # counted from the provider's own time, not from ours
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(answer.header("date"))
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None
