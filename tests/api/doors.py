"""Both ways in, for tests that hold for each: agents in this process, and agents in a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.shells.served import Served, served

import agent_worker
from agent_worker import Workers

WAYS = ("local", "connect")


@contextmanager
def way_in(way: str, tmp: Path) -> Iterator[Callable[[], Workers]]:
    """Makes `Workers` on one project, as often as it is asked: a program that is run again."""
    if way == "local":
        yield lambda: agent_worker.local(tmp / "project", home=tmp / "home")
    else:
        with served(tmp) as daemon:
            yield lambda: connected(daemon)


def connected(daemon: Served) -> Workers:
    return agent_worker.connect(daemon.project, home=daemon.home, start=False)


@asynccontextmanager
async def opened(make: Callable[[], Workers]) -> AsyncIterator[Workers]:
    async with make() as workers:
        yield workers
