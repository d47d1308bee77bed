"""What follows a failure: pure functions beside the loop, not branches inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_worker.core.errors import BackendFailure, BadInput, Exhausted, Overloaded
from agent_worker.definitions.fields import parse_duration
from agent_worker.work.queue import End

LONGEST_WAIT = 15 * 60.0  # seconds that work waits for its model before we call it a failure, unless the user says else
LONGEST_GUESS = 60.0  # seconds, when nobody says how long


LONGEST_WAIT_VARIABLE = "AGENT_WORKER_LONGEST_WAIT"  #: of the daemon's environment


def longest_wait(environ: Mapping[str, str]) -> float:
    """Seconds that work waits for its model before it has failed, as the user has said. Raises BadInput."""
    text = environ.get(LONGEST_WAIT_VARIABLE)
    try:
        seconds = parse_duration(text) if text else LONGEST_WAIT
    except ValueError:
        seconds = 0.0
    if not seconds:
        hint = f"export {LONGEST_WAIT_VARIABLE}=30m"
        raise BadInput(f"{LONGEST_WAIT_VARIABLE}={text!r} is not a time to wait", hint=hint)
    return seconds


@dataclass(frozen=True, slots=True)
class Retry:
    wait: float  #: seconds
    counts: bool = True  #: uses up a try


@dataclass(frozen=True, slots=True)
class GiveUp:
    state: End


def after(
    failure: BackendFailure, *, failures: int, waited: float = 0.0, longest: float = LONGEST_WAIT
) -> Retry | GiveUp:
    """What to do when this happened, after `failures` earlier ones and `waited` of the `longest` seconds in line."""
    if isinstance(failure, Exhausted):
        return GiveUp("incomplete")
    if isinstance(failure, Overloaded) and waited < longest:
        guess = min(waited + 1, LONGEST_GUESS)  # 1, 2, 4 …: as long again as it has taken so far
        return Retry(min(failure.retry_after or guess, longest), counts=False)
    if isinstance(failure, Overloaded):
        return GiveUp("failed")
    # `retries` counts tries in all for what may pass by itself: three means the first and two more.
    tries = failure.retries if failure.kind == "transient" else failure.retries + 1
    if failures + 1 < tries:
        return Retry(wait_before(failures + 1))
    return GiveUp("failed")


def wait_before(retry: int) -> float:
    """Seconds before this retry, counted from 1: 1, 2, 4 … 60."""
    return float(min(2 ** (retry - 1), LONGEST_GUESS))


def restart_wait(restarts: int) -> float:
    """Seconds before a crashed loop starts again, counted from 1: 1, 2, 4 … 30."""
    return float(min(2 ** (restarts - 1), 30))


RESTART_WINDOW = 600.0  # seconds
RESTARTS_ALLOWED = 5  # within the window; one more and the agent stays in error


def too_many(crashes: list[float], now: float) -> bool:
    """Crashes at these monotonic times: is it time to stop trying? The window slides."""
    return sum(1 for at in crashes if now - at < RESTART_WINDOW) > RESTARTS_ALLOWED
