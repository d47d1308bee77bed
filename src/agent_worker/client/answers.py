"""What an answer of the daemon means: its JSON, or the error that it raised, as that error."""

from __future__ import annotations

import json
from typing import Any

from agent_worker.core.errors import AgentWorkerError, BadInput, DefinitionError, NotFound, Refused

LOGS = "agent-worker daemon logs"  #: what to type when it was not as it should be


def json_of(content: bytes, status: int) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise AgentWorkerError(f"the daemon answered with status {status} and no JSON", hint=LOGS) from None


def json_object(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def error_of(status: int, answer: dict[str, Any]) -> AgentWorkerError:
    """The error the daemon raised: of its class if we know it, of the nearest if not."""
    match answer.get("error"):
        case {"message": str(message), **rest}:
            kind = _classes().get(str(rest.get("code"))) or _by_status(status)
            return kind(message, hint=str(rest.get("hint") or ""))
    return AgentWorkerError(f"the daemon answered with status {status} and no explanation", hint=LOGS)


def _classes() -> dict[str, type[AgentWorkerError]]:
    known, waiting = dict[str, type[AgentWorkerError]](), [AgentWorkerError]
    while waiting:
        kind = waiting.pop()
        known.setdefault(kind.code, kind)  # a finer one of the same code may be made of more than a sentence
        waiting += kind.__subclasses__()
    return known | {DefinitionError.code: BadInput}  # that one is made of problems, and we have a sentence


def _by_status(status: int) -> type[AgentWorkerError]:
    return {400: BadInput, 422: BadInput, 404: NotFound, 401: Refused, 403: Refused, 409: Refused}.get(
        status, AgentWorkerError
    )
