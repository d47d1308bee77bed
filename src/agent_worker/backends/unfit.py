"""Stands in for a backend that could not be made, so that whoever writes to its agent is told why."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from agent_worker.backends.backend import Hands, Outcome, Turn
from agent_worker.errors import AgentWorkerError, Permanent


class Unfit:
    def __init__(self, why: AgentWorkerError) -> None:
        self._why = why

    async def work(self, turn: Turn, hands: Hands) -> AsyncGenerator[Outcome]:
        raise Permanent(self._why.message, hint=self._why.hint)
        yield

    async def close(self) -> None:
        pass
