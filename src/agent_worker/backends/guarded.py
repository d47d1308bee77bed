"""A backend that is asked for leave before each run, and whose work is told to whoever must know that it went on.

Approvals hold for what lies in a project now; between two runs somebody may have changed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agent_worker.backends.backend import Backend, Outcome, StepSink, Turn
from agent_worker.core.errors import AgentWorkerError, Permanent


class Guarded:
    """`check` raises unless it may work, `worked` is told before it works and after each step. Both block."""

    def __init__(self, backend: Backend, check: Callable[[], None], worked: Callable[[], None]) -> None:
        self._backend = backend
        self._check = check
        self._worked = worked

    async def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        try:
            await asyncio.to_thread(self._check)
        except AgentWorkerError as error:
            raise Permanent(error.message, hint=error.hint) from None
        await asyncio.to_thread(self._worked)
        try:
            async with aclosing(self._backend.work(turn, sink)) as outcomes:
                async for outcome in outcomes:
                    # Again: it may have been approved anew while it worked.
                    await asyncio.to_thread(self._worked)
                    yield outcome
        finally:
            self._worked()

    async def close(self) -> None:
        await self._backend.close()
