"""When copies are brought together with what is kept: soon after a change was told, and when a person edited one.

Nobody tells us of a person's edit: the kernel's watches do not reach over a network disk. So folders are looked at in
turn, some of them every few seconds. Below: copies.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from agent_worker.core.clock import Clock
from agent_worker.core.errors import StorageFault
from agent_worker.files.copies import Copies

LOOK = 2.0  #: seconds between two looks
AT_ONCE = 200  #: folders that are looked at each time


class CopyWatch:
    """Works from when it is made until it is closed."""

    def __init__(
        self,
        clock: Clock,
        agree: Callable[[str], Awaitable[None]],
        ids: Callable[[], list[str]],
        copies: Callable[[str], Copies | None],
    ) -> None:
        """`agree` brings a folder together with what is kept; `ids` are all there are, and `copies` what each holds."""
        self._clock = clock
        self._agree = agree
        self._ids = ids
        self._copies = copies
        self._left: list[str] = []  # whose turn it is to be looked at
        self._due: set[str] = set()
        self._looking: set[str] = set()  # one look at a time: what it changes itself would call for another, and so on
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch = asyncio.create_task(self._look_round(), name="copies")

    def soon(self, id: str) -> None:
        """Look at a folder soon: something has changed there. While it is looked at, that is: once more afterwards."""
        if self._begins(id):
            task = asyncio.create_task(self._look(id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, *self._tasks, return_exceptions=True)

    def _begins(self, id: str) -> bool:
        """Whether a look has to begin: one that is under way is followed by another."""
        begins = id not in self._looking
        self._due.add(id)
        self._looking.add(id)
        return begins

    async def _look(self, id: str) -> None:
        try:
            while id in self._due:
                self._due.discard(id)
                with suppress(StorageFault):  # the next look sees the same
                    await self._agree(id)
        finally:
            self._looking.discard(id)

    async def _look_round(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            self._left = self._left or self._ids()
            ids, self._left = self._left[:AT_ONCE], self._left[AT_ONCE:]
            found = {id: copies for id in ids if (copies := self._copies(id)) is not None}
            for id in await asyncio.to_thread(_changed, found):
                if self._begins(id):
                    await self._look(id)


def _changed(found: Mapping[str, Copies]) -> list[str]:
    """The folders in which something is other than it was."""
    return [id for id, copies in found.items() if (copies.seen or {}) != copies.stamps()]
