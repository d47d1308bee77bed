"""How long the suite waits before it calls something a hang: one number, long enough for any machine.

A machine may be slow, or busy with other work; no test fails for that. So nothing here asks for speed: a test waits for
a condition, and what has not come to hold after PATIENCE seconds never will. A shorter limit is for what must run out.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 120.0  #: seconds; every test has more than twice as much (`timeout` in pyproject.toml)


def eventually(holds: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """What another process or thread does is waited for: it sends no event."""
    until = time.monotonic() + within
    while not (found := holds()) and time.monotonic() < until:
        time.sleep(0.02)
    return found


async def until(holds: Callable[[], Any]) -> None:
    """The same in an event loop that goes on meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 — other processes send no events
            await asyncio.sleep(0.01)


def tries(at_least: int, *, enough: Callable[[], Any]) -> Iterator[int]:
    """So many tries, and on until it is enough: how a race goes is the machine's choice, never a test's."""
    for number in itertools.count():
        if number >= at_least and enough():
            return
        yield number


def growing_limits(first: float) -> Iterator[float]:
    """Seconds for something that must get somewhere before its limit: little at first, which mostly is enough."""
    limit = first
    while limit < PATIENCE:
        yield limit
        limit *= 4
