"""What follows a failure: pure functions beside the loop, not branches inside it."""

from __future__ import annotations

from agent_worker.core.errors import BackendFailure, Exhausted, Overloaded, Transient
from agent_worker.core.later import dataclass
from agent_worker.definitions.settings import WAITS_AT_MOST
from agent_worker.work.queue import End

LONGEST_WAIT = WAITS_AT_MOST  # seconds that work waits for its model before it has failed, by default
LONGEST_GUESS = 60.0  # seconds, when nobody says how long


@dataclass(frozen=True, slots=True)
class Retry:
    wait: float  #: seconds
    counts: bool = True  #: uses up a try


@dataclass(frozen=True, slots=True)
class GiveUp:
    state: End


def after(
    failure: BackendFailure,
    *,
    failures: int,
    waited: float = 0.0,
    longest: float = LONGEST_WAIT,
    tries: int = Transient.retries,
) -> Retry | GiveUp:
    """What to do after a failure, given `failures` earlier ones and `waited` of the `longest` seconds spent waiting for
    the model.

    `tries` is how often something is tried in all that may pass by itself and does not set its own number.
    """
    if isinstance(failure, Exhausted):
        return GiveUp("incomplete")
    if isinstance(failure, Overloaded) and waited < longest:
        guess = min(waited + 1, LONGEST_GUESS)  # 1, 2, 4 …: as long again as it has taken so far
        return Retry(min(failure.retry_after or guess, longest), counts=False)
    if isinstance(failure, Overloaded):
        return GiveUp("failed")
    # `retries` counts tries in all for what may pass by itself: three means the first and two more.
    most = failure.retries if failure.kind == "transient" else failure.retries + 1
    if failure.retries == Transient.retries:
        most = tries
    if failures + 1 < most:
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
    """Whether a loop that crashed at these monotonic times has crashed too often to be started again. The window
    slides.
    """
    return sum(1 for at in crashes if now - at < RESTART_WINDOW) > RESTARTS_ALLOWED
