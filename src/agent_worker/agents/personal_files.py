"""The files of agents where several hosts share a database: kept there, and copied to a folder on each host.

Everybody works on the folder, as with SQLite: tools, people, commands. Here it is brought together with what is kept
(files/copies.py): before a run of its agent, after each tool call that wrote something and before its result counts,
when another host has changed something, and every few seconds for what a person has edited by hand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent_worker.agents import shared_folder
from agent_worker.agents.registry import AgentRuntime, Registry
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, NotFound, StorageFault
from agent_worker.core.events import Bus, Event, PersonalFileChanged
from agent_worker.database.database import Database, ProjectDatabase
from agent_worker.files import root as files
from agent_worker.files.copies import Copies, CopyRecord, Stamps, texts_in
from agent_worker.files.copy_watch import CopyWatch
from agent_worker.files.root import Root
from agent_worker.memory import personal_rows
from agent_worker.memory.own_files import FILE, FOLDERS, HELD, OwnFiles
from agent_worker.workspaces.log_files import LogFiles, Target

log = logging.getLogger(__name__)

INDEXES = "agent-indexes"  #: in the home of a host: what its searches go by
SHARED_FOLDERS = (*FOLDERS, "notes", "todo")


class PersonalFiles:
    """The copies that one host has. Close them before the host hands over."""

    def __init__(
        self,
        database: Database,
        bus: Bus,
        clock: Clock,
        registry: Registry,
        log_files: LogFiles,
        *,
        host: str,
        home: Root | None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._registry = registry
        self._log_files = log_files
        self._host = host
        self._home = home
        self._copies: dict[str, Copies] = {}  # by agent
        self._places: dict[Path, str] = {}  # folder → agent
        self._written: dict[str, int] = {}  # agent → how often one of us has written in its folder
        self._kept: dict[str, int] = {}  # and how much of that is kept
        self._loop = asyncio.get_running_loop()
        self._unlisten = bus.listen(self._hear, PersonalFileChanged)
        files.listeners.append(self._note)
        self._watch = CopyWatch(clock, self.agree, self._agents, self._copies_of)

    async def close(self) -> None:
        """Stop following files, after what was written last is stored."""
        files.listeners.remove(self._note)
        self._unlisten()
        await self._watch.close()
        with suppress(StorageFault):
            await self.keep()

    def shares(self, worker: AgentRuntime) -> bool:
        """Whether the files of this agent are kept for all hosts."""
        return worker.home is not None and worker.definition.context.store != "files"

    async def agree(self, agent: str) -> None:
        """Bring the folder of an agent together with what is kept. A folder that cannot be used is told in the log."""
        if not self._registry.knows(agent) or not self.shares(worker := self._registry.worker(agent)):
            return
        if worker.definition.edits_freely and await self._database.of(worker.project).read(
            personal_rows.is_run_elsewhere, agent, self._host
        ):
            return  # where several hosts have one folder, a program's own words may stand there for a moment
        written = self._written.get(agent, 0)
        try:
            await self._of(worker).agree()
            self._kept[agent] = max(written, self._kept.get(agent, 0))
        except (AgentWorkerError, OSError) as error:
            if isinstance(error, StorageFault):
                raise
            log.warning("the files of %s could not be merged with those of other hosts: %s", agent, error)

    async def can_run(self, worker: AgentRuntime, node: str, *, alone: bool) -> bool:
        """Whether the folder of this agent is here: kept for all hosts, or where they all see it."""
        if worker.home is None or self.shares(worker):
            return True
        database = self._database.of(worker.project)
        return await shared_folder.is_seen(database, worker, node, alone=alone, now=self._clock.micros())

    async def begin(self, worker: AgentRuntime) -> None:
        """Bring an agent's files up to date before its run: it remembers what it learned on any host."""
        await self.agree(worker.agent)
        if worker.home is not None:
            self._log_files.catch_up(Target(worker.project, None, worker.agent))

    async def keep(self) -> None:
        """Store every file that was written on this host and is not in the database yet."""
        for agent in [agent for agent, written in list(self._written.items()) if written > self._kept.get(agent, 0)]:
            await self.agree(agent)

    async def bring_all(self, project: str) -> None:
        """Write the stored files of a project's agents to this host, when the project is opened."""
        for agent in await self._database.of(project).read(personal_rows.owners):
            await self.agree(agent)

    def forget(self, agent: str) -> None:
        """Stop keeping the files of an agent that was deleted. Its folder stays as it is."""
        if copies := self._copies.pop(agent, None):
            self._places.pop(copies.root.location(), None)
        self._written.pop(agent, None)
        CopyRecord(self._home, agent).forget()
        with suppress(NotFound):
            if self._home is not None:
                self._home.remove_tree(f"{INDEXES}/{agent}")

    def _agents(self) -> list[str]:
        return list(dict.fromkeys(worker.agent for worker in self._registry.workers()))

    def _copies_of(self, agent: str) -> Copies | None:
        worker = self._registry.worker(agent) if self._registry.knows(agent) else None
        return self._of(worker) if worker and self.shares(worker) else None

    def _of(self, worker: AgentRuntime) -> Copies:
        assert worker.home is not None
        known = self._copies.get(worker.agent)
        if known is None or known.root != worker.home:
            keeper = _AgentKeeper(self._database.of(worker.project), self._clock, worker.agent, worker.name)
            known = Copies(worker.home, self._listed, keeper, CopyRecord(self._home, worker.agent))
            self._copies[worker.agent] = known
            self._places[worker.home.location()] = worker.agent
        return known

    def _listed(self, home: Root) -> Stamps:
        OwnFiles.settle_in(home)
        return {path: stamp for path, stamp in own_texts(home).items() if self._database.redact(path) == path}

    # --- hearing --------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        if isinstance(event, PersonalFileChanged):
            self._watch.soon(event.agent)

    def _note(self, place: Path, content: bytes | None) -> None:
        """Note that a file was written here. Called in any thread."""
        for folder in place.parents:
            if agent := self._places.get(folder):
                self._written[agent] = self._written.get(agent, 0) + 1
                self._loop.call_soon_threadsafe(self._watch.soon, agent)
                return


def own_texts(home: Root) -> Stamps:
    """The files in the folder of an agent that are kept for all hosts."""
    found = {name: stamp for name, stamp in texts_in(home).items() if name.startswith(FILE)}
    for folder in SHARED_FOLDERS:
        found |= texts_in(home, folder)
    put_back = texts_in(home.beneath(HELD), deep=True)  # a person may take it over on any host
    return found | {f"{HELD}/{path}": stamp for path, stamp in put_back.items()}


class _AgentKeeper:
    """The files of one agent, in the database."""

    def __init__(self, database: ProjectDatabase, clock: Clock, agent: str, name: str) -> None:
        self._database = database
        self._clock = clock
        self._agent = agent
        self._name = name

    async def versions(self) -> Mapping[str, str]:
        return await self._database.read(personal_rows.versions, self._agent)

    async def earlier(self, path: str) -> Sequence[str]:
        return await self._database.read(personal_rows.earlier, self._agent, path)

    async def text(self, path: str) -> tuple[str, str]:
        return await self._database.read(personal_rows.text, self._agent, path)

    async def put(self, path: str, text: str | None, *, seen: str) -> str | None:
        now = self._clock.micros()
        return await self._database.write(personal_rows.put, self._agent, path, text, seen=seen, now=now)

    async def put_beside(self, path: str, text: str, *, beside: str) -> str:
        now, who = self._clock.micros(), self._name
        return await self._database.write(
            personal_rows.put_beside, self._agent, path, text, beside=beside, who=who, now=now
        )
