"""What an agent makes public: a document `memory/<agent>.md` in each of its workspaces, made from its memory.

It follows the memory: what is withdrawn, forgotten or taken back is gone from the document as well. Nobody else writes
it. What may not be told to a colleague who asks (memory/sharing.py) does not stand in it either.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from agent_worker.agents.registry import AgentRuntime
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.database.database import Database, ProjectDatabase, Row
from agent_worker.files.root import Root
from agent_worker.memory import audit, memory, sharing
from agent_worker.memory.memory import MemoryEntry
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.document_rows import PUBLISHER, public_name
from agent_worker.workspaces.documents import Documents, LookAtCopies

log = logging.getLogger(__name__)

REMEMBERED = 1000  #: agents in workspaces, of whom it is known that nothing has changed
_Stamp = tuple[tuple[str, int, int], ...]


class PublicMemory:
    def __init__(self, database: Database, clock: Clock, copies: LookAtCopies | None = None) -> None:
        self._database = database
        self._clock = clock
        self._copies = copies
        # By agent and workspace: what its files were when it was written. Who was looked at last stands last.
        self._seen: dict[tuple[str, str], _Stamp] = {}

    async def follow(self, worker: AgentRuntime, workspace: str | None) -> None:
        """Look after a run of the agent in this workspace; costs a look at a folder when nothing has changed."""
        if worker.home is None or not worker.home.may_hold(memory.FOLDER):
            return
        stamp = await asyncio.to_thread(_stamp, worker.home)
        if self._seen.get((worker.agent, workspace or "")) != stamp:
            await self.publish(worker)
            self._note(worker.agent, workspace or "", stamp)

    async def publish(self, worker: AgentRuntime) -> None:
        """Bring the document up to date everywhere. It never fails what it is called after."""
        if worker.home is None or not worker.home.may_hold(memory.FOLDER):
            return
        database = self._database.of(worker.project)
        try:
            stamp = await asyncio.to_thread(_stamp, worker.home)
            entries = await asyncio.to_thread(public_entries, worker.home)
            for row in await database.read(workspace_rows.at_work_with, worker.agent):
                workspace = await database.read(workspace_rows.get, row["id"])
                await self._write(database, workspace, worker, entries)
                self._note(worker.agent, workspace["id"], stamp)
        except (AgentWorkerError, OSError) as error:
            log.warning("what %s makes public could not be written: %s", worker.name, error)

    @property
    def remembered(self) -> int:
        """In how many workspaces it is known, of some agent, that nothing has changed."""
        return len(self._seen)

    def _note(self, agent: str, workspace: str, stamp: _Stamp) -> None:
        self._seen.pop((agent, workspace), None)
        self._seen[agent, workspace] = stamp
        while len(self._seen) > REMEMBERED:  # workspaces come and go
            del self._seen[next(iter(self._seen))]

    async def _write(
        self, database: ProjectDatabase, workspace: Row, worker: AgentRuntime, entries: Sequence[MemoryEntry]
    ) -> None:
        documents, name = Documents(database, self._clock, workspace, self._copies), public_name(worker.name)
        text = rendered(worker.name, entries)
        try:
            now = await documents.read(name)
        except NotFound:
            now = None
        if (now.text if now else "") == database.redact(text):
            return
        await documents.write(name, text, base=now.revision if now else None, by=PUBLISHER)
        about = (
            f"{name} in @{workspace_rows.name_of(workspace)}: {', '.join(each.key for each in entries) or 'nothing'}"
        )
        done = audit.AuditEntry(worker.agent, worker.name, "published", about)
        await database.write(audit.note, done, now=self._clock.micros())


def public_entries(home: Root) -> list[MemoryEntry]:
    return [entry for entry in sharing.shareable(home).told if entry.visibility == "public"]


def rendered(name: str, entries: Sequence[MemoryEntry]) -> str:
    """The document; empty, and so not there, when nothing is public."""
    if not entries:
        return ""
    head = f"# What {name} lets everybody know\n\n"
    head += (
        f"Generated from the memory of {name}; nobody edits it here. To change it: agent-worker agent memory {name}\n\n"
    )
    return head + "\n".join(f"- {each.key}: {' '.join(each.value.split())}{_since(each)}" for each in entries) + "\n"


def _since(entry: MemoryEntry) -> str:
    return f" (since {entry.since[:10]})" if entry.since else ""


def _stamp(home: Root) -> _Stamp:
    """Changes whenever a file of the memory does."""
    try:
        with os.scandir(home.location(memory.FOLDER)) as found:
            return tuple(sorted((each.name, each.stat().st_mtime_ns, each.stat().st_size) for each in found))
    except OSError:
        return ()
