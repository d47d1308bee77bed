"""Time, handed in. Wall time (UTC) is for people and records, monotonic time for waiting.

Nothing else in the package asks the system what time it is or sleeps, but for a few places that deal with real
processes and sockets: tests/test_architecture.py lists them, each with its reason.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

EXACT = timedelta(milliseconds=100)  #: by which clocks of machines may differ, and count as one


class Clock(Protocol):
    def now(self) -> datetime:
        """The time of day, in UTC."""
        ...

    def micros(self) -> int:
        """Wall time in microseconds since 1970, as it is stored."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def micros(self) -> int:
        return micros(self.now())

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SharedClock:
    """The clock of a host that shares a database with others: wall time follows the database's clock, as it is told."""

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._ahead = timedelta()

    def follow(self, ahead: int) -> None:
        """Be told by how many microseconds the database's clock is ahead of our own. A trip there is not exact."""
        told = timedelta(microseconds=ahead)
        if abs(told - self._ahead) > EXACT:
            self._ahead = told

    def now(self) -> datetime:
        return self._own.now() + self._ahead

    def micros(self) -> int:
        return micros(self.now())

    def monotonic(self) -> float:
        return self._own.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._own.sleep(seconds)


class TestClock:
    """Stands still until told to advance; sleepers wake in the order of their times."""

    __test__ = False

    def __init__(self, start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._jumped = timedelta()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._start + self._jumped + timedelta(seconds=self._elapsed)

    def micros(self) -> int:
        return micros(self.now())

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return await asyncio.sleep(0)
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), waiting))
        await waiting

    def jump(self, by: timedelta) -> None:
        """Set the wall clock, as a person might; nobody who sleeps notices."""
        self._jumped += by

    def next_wake(self) -> float | None:
        """How many seconds until the first sleeper is due; None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] - self._elapsed if self._sleepers else None

    async def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Let time pass. Whoever is due wakes and may sleep again within the same span."""
        until = self._elapsed + seconds + 60 * minutes + 3600 * hours
        while (due := self.next_wake()) is not None and self._elapsed + due <= until:
            self._elapsed += max(due, 0.0)
            heapq.heappop(self._sleepers)[2].set_result(None)
            await settle()
        self._elapsed = until
        await settle()


async def settle(rounds: int = 20) -> None:
    """Let tasks that are ready run."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def sleep_until(clock: Clock, due: datetime | None, *, or_when: asyncio.Event) -> None:
    """Sleep until a time (None: for ever) or an event. May return early: look at the clock again."""
    # At most an hour: a wall clock that was set back or a machine that slept must not delay it for long.
    await sleep_unless(or_when, clock, None if due is None else min((due - clock.now()).total_seconds(), 3600.0))


async def sleep_unless(event: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Sleep for so many seconds (None: for ever), or until the event."""
    waits: set[asyncio.Task[object]] = {asyncio.create_task(event.wait())}
    if seconds is not None:
        waits.add(asyncio.create_task(clock.sleep(max(0.0, seconds))))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def micros(at: datetime) -> int:
    """A time as the database keeps it: microseconds since 1970, UTC."""
    return round(at.timestamp() * 1_000_000)


def from_micros(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1_000_000, UTC)
