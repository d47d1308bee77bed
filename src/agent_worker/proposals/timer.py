"""The timer of proposals: ends those whose time is up, and sees to it that decisions get into their
file (minutes.py).
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from agent_worker.core.clock import Clock, from_micros, micros, sleep_until
from agent_worker.core.events import Bus, Decided, Event, Proposed, WorkspaceChanged
from agent_worker.database.database import Database
from agent_worker.proposals import minutes, store
from agent_worker.proposals.lifecycle import expire
from agent_worker.work import project_rows

log = logging.getLogger(__name__)

AGAIN = timedelta(minutes=1)  # after something could not be done


class ProposalTimer:
    """Sleeps until the first open proposal is due, or until one is made or ends. What is due is in the database."""

    def __init__(self, database: Database, clock: Clock, bus: Bus) -> None:
        self._database = database
        self._clock = clock
        self._changed = asyncio.Event()
        self._unlisten = bus.listen(self._hear, WorkspaceChanged, Proposed, Decided)
        self._task = asyncio.create_task(self._preside(), name="proposals")

    async def close(self) -> None:
        self._unlisten()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, event: Event) -> None:
        opened = isinstance(event, WorkspaceChanged) and event.state == "running"
        if opened or isinstance(event, Proposed | Decided):
            self._changed.set()

    async def _preside(self) -> None:
        while True:
            self._changed.clear()
            try:
                due = await self._look()
            except Exception:  # boundary: they are looked at again
                log.exception("proposals could not be looked at")
                due = self._clock.now() + AGAIN
            await sleep_until(self._clock, due, or_when=self._changed)

    async def _look(self) -> datetime | None:
        now = self._clock.now()
        await self._expire(micros(now))
        for project in await self._database.read(project_rows.ids):
            await minutes.file_pending(self._database.of(project), self._clock)
        first = await self._database.read(store.first_due)
        if first is None:
            return None
        return from_micros(first) if first > micros(now) else now + AGAIN  # it could not be ended

    async def _expire(self, now: int) -> None:
        for proposal in await self._database.read(store.due, now=now):
            try:
                await self._database.of(proposal.project).write(expire, proposal.id, now=now)
            except Exception:  # boundary: the others do not wait for it
                log.exception("proposal %s could not be ended", proposal.id)
