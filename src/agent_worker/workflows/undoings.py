"""What was begun of an instance while the database went away: it is undone when that is back.

Whoever asked for the instance is answered at once. Whoever asks for one later waits until all of it is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agent_worker.core.clock import Clock
from agent_worker.core.errors import StorageFault
from agent_worker.database.patient import until_possible

Undo = Callable[[], asyncio.Future[None]]


class Undoings:
    def __init__(self) -> None:
        self._tried: dict[Undo, asyncio.Future[None] | None] = {}  # what is left to undo, and its last attempt
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, undo: Undo, clock: Clock) -> None:
        """Undo this as soon as that is possible."""
        self._tried[undo] = None
        task = asyncio.create_task(self._patiently(undo, clock), name="undoing")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Have everything undone. Raises NotNow where that is not possible yet."""
        for undo in list(self._tried):
            await self._once(undo)

    async def _patiently(self, undo: Undo, clock: Clock) -> None:
        with suppress(StorageFault):  # we are ending, and the next process goes on with it
            await until_possible(lambda: self._once(undo), clock)

    async def _once(self, undo: Undo) -> None:
        """Not again when it was undone: what that would undo may be somebody else's by now."""
        if undo not in self._tried:
            return
        attempt = self._tried[undo]
        if attempt is None or (attempt.done() and attempt.exception()):
            attempt = self._tried[undo] = undo()
        await asyncio.shield(attempt)
        self._tried.pop(undo, None)
