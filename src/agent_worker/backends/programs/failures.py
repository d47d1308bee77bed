"""What a program's model service answered, as one of our failure classes, by its HTTP status."""

from __future__ import annotations

from agent_worker.core.errors import BackendFailure, Exhausted, Overloaded, Permanent, Transient

_LONGEST = 500  # characters
_BUSY = (429, 529)
_TOO_LARGE = 413
_WORTH_ANOTHER_TRY = (408, 409, 425)


def by_status(program: str, status: int | None, message: str) -> BackendFailure:
    """The failure that an HTTP status means; None is no answer at all: the connection failed."""
    told = f"{program}: {message}"[:_LONGEST]
    if status in _BUSY:
        return Overloaded(told)
    if status == _TOO_LARGE:
        return Exhausted(told, hint="the conversation is too large for its model")
    if status in (401, 403):
        return Permanent(told, hint=f"check the key, or log in with {program} itself")
    if status is not None and 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY:
        return Permanent(told)
    return Transient(told)
