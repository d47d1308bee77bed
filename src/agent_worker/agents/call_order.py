"""In which order the calls of one run are made: side by side, except those that change what others look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import field

from agent_worker.backends.backend import Suspended
from agent_worker.core.later import dataclass


@dataclass(slots=True, eq=False)
class CallSlot:
    alone: bool
    before: list[CallSlot]  #: those that this one waits for
    over: asyncio.Event = field(default_factory=asyncio.Event)
    rests: bool = False  #: it waits for a person

    async def comes(self) -> None:
        """If one of those before waits for a person, so does this: it may build on what that one does."""
        for turn in self.before:
            await turn.over.wait()
            if turn.rests:
                raise Suspended


class CallOrder:
    def __init__(self) -> None:
        self._taken: list[CallSlot] = []

    @asynccontextmanager
    async def take(self, *, alone: bool) -> AsyncGenerator[CallSlot]:
        """A turn comes after all those taken before if it is `alone`, else after those that are."""
        mine = CallSlot(alone, [turn for turn in self._taken if alone or turn.alone])
        self._taken.append(mine)
        try:
            yield mine
        except Suspended:
            mine.rests = True
            raise
        finally:
            self._taken.remove(mine)
            mine.over.set()
