"""Stands in for a backend that could not be made, so that whoever writes to its agent is told why."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agent_worker.backends.backend import Outcome, StepSink, Turn
from agent_worker.core.errors import AgentWorkerError, Permanent


class UnavailableBackend:
    def __init__(self, why: AgentWorkerError) -> None:
        self._why = why

    async def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        raise Permanent(self._why.message, hint=self._why.hint)
        yield

    async def close(self) -> None:
        pass
