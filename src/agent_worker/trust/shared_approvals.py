"""Approvals that several hosts share: rows of a project, by content, of which this process keeps what it read last.

Whoever asks is answered from that, on any thread, and never waits for the server; the answer of a person counts once it
is committed. Another host's is heard of and read again (service/shared_work.py): until then what was read last holds,
and of a project that was not looked at nothing is approved. Keys stay in each home.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from agent_worker.core.errors import AgentWorkerError, Refused
from agent_worker.database.database import Database, Transaction
from agent_worker.trust import approval_rows
from agent_worker.trust.approval_rows import ApprovalRecord
from agent_worker.trust.approvals import Approvals

log = logging.getLogger(__name__)

Change = Callable[[Approvals], object]
Note = tuple[Path, Change]  #: where an agent has worked, and what that changes


class SharedApprovals:
    """Made in the event loop of the database."""

    def __init__(self, database: Database) -> None:
        self.host = ""  #: by which others know who has answered
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._projects: dict[Path, str] = {}
        self._records: dict[str, ApprovalRecord] = {}
        self._notes: dict[str, list[Note]] = {}  # of a project: noted here, and not seen in the database yet
        self._looking = asyncio.Lock()  # what was read last is what was asked for last
        self._settling: set[asyncio.Task[None]] = set()
        self._version = 0

    async def look(self, root: Path, project: str) -> None:
        """Read what was approved of the project in this directory."""
        self._projects[root] = project
        await self.look_again(project)

    async def look_again(self, project: str) -> None:
        async with self._looking:
            self._keep(project, await self._database.of(project).read(approval_rows.stored))

    def of(self, root: Path) -> InDatabase:
        return InDatabase(self, root)

    def read(self, root: Path) -> Approvals:
        record = self._records.get(self._projects.get(root, ""))
        return Approvals.read(record, self._place(root)) if record else Approvals(place=self._place(root))

    def stamp(self) -> object:
        return self._version

    def change(self, root: Path, change: Change) -> None:
        project = self._projects.get(root)
        if project is None:
            raise Refused(f"the project in {root} is not open here", hint="agent-worker ls, there")
        try:
            is_ours = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_ours = False
        if not is_ours:
            asyncio.run_coroutine_threadsafe(self._write(project, root, change), self._loop).result()
            return
        # Nobody may wait here: what an agent has done is noted at once, and stored as soon as it can be. Until it is
        # seen there it is part of whatever is read: a look that was under way knows nothing of it.
        note = root, change
        self._notes.setdefault(project, []).append(note)
        self._keep(project, self.read(root).written())
        task = asyncio.create_task(self._settle(project, note), name="approvals")
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _settle(self, project: str, note: Note) -> None:
        """Store a note, and drop it once it was read back. One that cannot be stored holds as long as this process."""
        try:
            await self._database.of(project).write(self._changed, *note)
            await self.look_again(project)
        except AgentWorkerError as error:
            log.error("what needs another approval in %s could not be stored: %s", note[0], error)
        else:
            self._notes[project].remove(note)

    async def _write(self, project: str, root: Path, change: Change) -> None:
        self._keep(project, await self._database.of(project).write(self._changed, root, change))

    def _changed(self, tx: Transaction, root: Path, change: Change) -> ApprovalRecord:
        approvals = Approvals.read(approval_rows.stored(tx), self._place(root))
        change(approvals)
        return approval_rows.store(tx, approvals.written(), self.host)

    def _keep(self, project: str, record: ApprovalRecord) -> None:
        for root, change in self._notes.get(project, ()):
            noted = Approvals.read(record, self._place(root))
            change(noted)
            record = noted.written()
        self._records[project] = record
        self._version += 1

    def _place(self, root: Path) -> str:
        return place_of(self._database.here, str(root))


class InDatabase:
    """Approvals of the project in one directory, beside those that other hosts gave."""

    def __init__(self, shared: SharedApprovals, root: Path) -> None:
        self._shared = shared
        self._root = root

    def read(self) -> Approvals:
        return self._shared.read(self._root)

    def change(self, change: Change) -> None:
        self._shared.change(self._root, change)

    def stamp(self) -> object:
        return self._shared.stamp()


def place_of(host: str, root: str) -> str:
    """A checkout, among those of all hosts."""
    return f"{host} {root}"
