"""The slots: how many runs there may be at once on this machine, and who has to wait for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.text import plural


class Slots:
    """How many runs there may be at once on this machine."""

    def __init__(self, *, runs: int = 8, programs: int = 4) -> None:
        self._count = runs
        self._runs = asyncio.Semaphore(runs)
        self._one_for_all = asyncio.Lock()
        self._alone = ""  # whose run must be the only one
        self._programs_count = programs
        self._programs = asyncio.Semaphore(programs)

    def all_taken(self, worker: AgentRuntime) -> str:
        """Why a worker would have to wait for a slot, as a sentence; empty when there is one."""
        if self._alone and self._runs.locked():
            return f"{self._alone} works alone for now, because the daemon has died during that work before"
        if worker.is_program and self._programs.locked():
            return f"the limit of {plural(self._programs_count, 'coding program')} at once is reached"
        return f"the limit of {plural(self._count, 'run')} at once is reached" if self._runs.locked() else ""

    @asynccontextmanager
    async def one(self, worker: AgentRuntime) -> AsyncIterator[None]:
        # A program waits for its turn before it takes a place: those that hang must not keep all the others out.
        async with self._programs if worker.is_program else contextlib.nullcontext(), self._runs:
            yield

    @asynccontextmanager
    async def all(self, worker: AgentRuntime) -> AsyncIterator[None]:
        """Take every slot for this one: nobody else runs meanwhile."""
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._one_for_all)  # two of these would wait for each other
            self._alone = worker.name
            try:
                for _ in range(self._count):
                    await held.enter_async_context(self._runs)
                yield
            finally:
                self._alone = ""
