"""Asking a database until it can answer: for work that nobody begins again when it ends with an error.

A person who asks is refused after a while, with a sentence (NotNow). What the process does by itself has nobody who
would read that and ask again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_worker.core.clock import Clock
from agent_worker.core.errors import NotNow

T = TypeVar("T")

AGAIN = 1.0  #: seconds


async def until_possible(ask: Callable[[], Awaitable[T]], clock: Clock, *, unless: Callable[[], bool] = bool) -> T:
    """What is answered in the end; nobody tells us when it can be. `unless`: then what it raises is raised."""
    while True:
        try:
            return await ask()
        except NotNow:
            if unless():
                raise
        await clock.sleep(AGAIN)
