"""Documents where several hosts share a database: their revisions are the truth, and each host has copies in files.

A team reads and writes revisions, on any host. What a person writes into a copy becomes a revision of theirs
(files/copies.py): before somebody reads or writes, and within a few seconds by itself. With one host nothing is copied.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, StorageFault
from agent_worker.core.events import Bus, DocumentChanged, Event, WorkspaceChanged
from agent_worker.database.database import Database, ProjectDatabase, Row, Transaction
from agent_worker.files.copies import Copies, CopyRecord, Stamps, texts_in
from agent_worker.files.copy_watch import CopyWatch
from agent_worker.files.jsonl import read_last
from agent_worker.files.root import Root
from agent_worker.workspaces import document_edits, workspace_rows
from agent_worker.workspaces.documents import COPIED, FOLDER

log = logging.getLogger(__name__)

CHANNEL = "channel.jsonl"
_RECENT = 100  # lines of a channel by which its workspace is recognised


class DocumentCopies:
    """The copies of documents that one host has."""

    def __init__(self, database: Database, bus: Bus, clock: Clock, home: Root | None) -> None:
        self._database = database
        self._clock = clock
        self._home = home
        self._copies: dict[str, Copies] = {}  # by workspace
        self._unlisten = bus.listen(self._hear, DocumentChanged, WorkspaceChanged)
        self._watch = CopyWatch(clock, self._agree, lambda: list(self._copies), self._copies.get)

    async def close(self) -> None:
        self._unlisten()
        await self._watch.close()

    async def keep(self, workspace: Row, files: Root) -> None:
        """Keep copies of its documents in its folder from now on."""
        if workspace["documents"] == COPIED:
            database = self._database.of(workspace["project"])
            keeper = _DocumentKeeper(database, self._clock, workspace["id"])
            record = CopyRecord(self._home, workspace["id"])
            self._copies[workspace["id"]] = Copies(files.beneath(FOLDER), self._listed, keeper, record)
            await self._agree(workspace["id"])

    async def look(self, workspace: Row) -> None:
        """Bring files and revisions together, before and after somebody reads or writes a document."""
        if workspace["id"] in self._copies:
            return await self._agree(workspace["id"])
        if workspace["documents"] == COPIED:  # it has ended, and what people do to its files counts still
            files = workspace_rows.files_of(workspace)
            if await is_of(self._database.of(workspace["project"]), workspace, files):
                await self.keep(workspace, files)

    async def _agree(self, workspace: str) -> None:
        if (copies := self._copies.get(workspace)) is None:
            return
        try:
            await copies.agree()
        except (AgentWorkerError, OSError) as error:
            if isinstance(error, StorageFault):
                raise
            log.warning("the documents of %s could not be brought together with their files: %s", workspace, error)

    def _listed(self, root: Root) -> Stamps:
        found = texts_in(root, deep=True)
        return {name: stamp for name, stamp in found.items() if self._database.redact(name) == name}

    def _hear(self, event: Event) -> None:
        match event:
            case DocumentChanged(workspace=str(id)) if id in self._copies:
                self._watch.soon(id)
            case WorkspaceChanged(workspace=str(id), state="archived") if self._copies.pop(id, None):
                CopyRecord(self._home, id).forget()


async def is_of(database: ProjectDatabase, workspace: Row, files: Root) -> bool:
    """Whether what lies in this folder is of this workspace, and not of an earlier one of its name."""
    if workspace["bound"]:  # it goes on with what it finds there
        return True
    recent = (await asyncio.to_thread(read_last, files, CHANNEL, _RECENT)).records
    said = {int(each["seq"]): str(each["id"]) for each in recent if isinstance(each.get("seq"), int) and "id" in each}
    return not said or await database.read(_was_said, workspace["id"], said)


def _was_said(tx: Transaction, workspace: str, said: Mapping[int, str]) -> bool:
    rows = tx.all(
        """select seq, id from message
            where project = :project and workspace = :workspace and seq >= :first and seq <= :last""",
        workspace=workspace,
        first=min(said),
        last=max(said),
    )
    return any(said.get(row["seq"]) == row["id"] for row in rows)


class _DocumentKeeper:
    """The documents of one workspace, in the database."""

    def __init__(self, database: ProjectDatabase, clock: Clock, workspace: str) -> None:
        self._database = database
        self._clock = clock
        self._workspace = workspace

    async def versions(self) -> Mapping[str, str]:
        return await self._database.read(document_edits.hashes, self._workspace)

    async def earlier(self, path: str) -> Sequence[str]:
        return await self._database.read(document_edits.earlier, self._workspace, path)

    async def text(self, path: str) -> tuple[str, str]:
        return await self._database.read(document_edits.last_text, self._workspace, path)

    async def put(self, path: str, text: str | None, *, seen: str) -> str | None:
        workspace = await self._database.read(workspace_rows.get, self._workspace)
        at = self._clock.micros()
        return await self._database.write(document_edits.take_edit, workspace, path, text, seen=seen, at=at)

    async def put_beside(self, path: str, text: str, *, beside: str) -> str:
        workspace = await self._database.read(workspace_rows.get, self._workspace)
        at = self._clock.micros()
        return await self._database.write(document_edits.take_beside, workspace, path, text, beside=beside, at=at)
