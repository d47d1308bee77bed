"""The working copies of one instance: made when it opens, their changes offered as runs end, removed when it ends.

What an agent changed is put into the channel as a resource, and kept in the project's repository under a ref of its
own, each time a run of it ends with something new. Where another member has changed the same paths in its own copy, the
team is told (overlap.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC

from agent_worker.core.clock import Clock, from_micros
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.events import Bus, Ended
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.workflows.overlap import Overlaps
from agent_worker.workflows.working_copy import REFS, CopyChanges, WorkingCopy, listed
from agent_worker.workspaces import channel, resources

log = logging.getLogger(__name__)


#: The agent and the workspace it worked in → when nothing that it started is left there.
Leaves = Callable[[str, str], Awaitable[None]]


class WorkingCopies:
    def __init__(self, database: ProjectDatabase, bus: Bus, clock: Clock, leaves: Leaves) -> None:
        self._database = database
        self._bus = bus
        self._clock = clock
        self._leaves = leaves
        self._copies: dict[str, WorkingCopy] = {}  # by agent id
        self._told: dict[str, CopyChanges] = {}
        self._overlaps = Overlaps()
        self._offering: set[asyncio.Task[None]] = set()
        self._unlisten: Callable[[], None] = lambda: None
        self._workspace = self._name = ""

    async def open(self, workspace: str, name: str, copies: Mapping[str, WorkingCopy], *, began: int) -> None:
        """Make copies, which are given by agent id; `name` is the workspace's."""
        stamp = from_micros(began).astimezone(UTC)
        self._workspace, self._name = workspace, f"{name.replace(':', '/')}/{stamp:%Y%m%dT%H%M%S}"
        self._copies = dict(copies)
        for copy in copies.values():
            await copy.prepare()
        if copies:
            self._unlisten = self._bus.listen(self._hear, Ended)

    def overlaps(self) -> list[str]:
        """A sentence for each two members who have changed the same paths and not settled it."""
        return self._overlaps.now()

    async def settle(self) -> None:
        """Wait until everything there is to offer is in the channel."""
        while self._offering:
            await asyncio.wait(set(self._offering))

    def leave(self) -> None:
        """Stop offering changes; the copies stay."""
        self._unlisten()
        for task in self._offering:
            task.cancel()

    async def close(self, *, remove: bool) -> None:
        await self.settle()
        self._unlisten()
        for copy in self._copies.values() if remove else ():
            try:
                await copy.keep(await copy.changes(), self._ref(copy))
            except (AgentWorkerError, OSError) as error:  # then it stays where it is: better twice than lost
                log.warning("the working copy of %s is left in place: %s", copy.agent, error)
                continue
            await copy.remove()

    def _hear(self, event: Ended) -> None:
        if event.workspace == self._workspace and event.agent in self._copies:
            task = asyncio.create_task(self._offer(event.agent, event.run), name=f"changes of {event.name}")
            self._offering.add(task)
            task.add_done_callback(self._offering.discard)

    async def _offer(self, agent: str, run: str) -> None:
        copy = self._copies[agent]
        await self._leaves(agent, self._workspace)
        try:
            changes = await copy.changes()
            if changes == self._told.get(agent, CopyChanges((), "")):
                return
            kept = await copy.keep(changes, self._ref(copy))
            self._told[agent] = changes
            now = self._clock.micros()
            await self._database.write(
                _tell, self._workspace, _sentence(copy.agent, changes, kept), changes.patch, run=run, now=now
            )
            await self._tell_overlaps(agent)
        except (AgentWorkerError, OSError) as error:
            log.warning("the changes of %s could not be offered: %s", copy.agent, error)

    async def _tell_overlaps(self, agent: str) -> None:
        """Tell members that have changed the same paths, unless they were told before."""
        mine = (self._copies[agent], self._told[agent])
        for other, changes in list(self._told.items()):
            if other == agent:
                continue
            told = await self._overlaps.between(mine, (self._copies[other], changes))
            if told:
                await self._database.write(_tell_once, self._workspace, told, now=self._clock.micros())

    def _ref(self, copy: WorkingCopy) -> str:
        return f"{self._name}/{copy.agent}"


def _sentence(agent: str, changes: CopyChanges, kept: str) -> str:
    count = len(changes.files)
    changed = f"changed {count} file{'s' if count > 1 else ''} in its own copy: {listed(changes.files)}"
    said = [f"{agent} {changed if count else 'changed nothing in its own copy that can be kept'}."]
    if changes.notes:
        said.append(f"{listed(changes.notes, '; ')}.")
    if kept:
        said.append(f"To merge it: {'git merge' if kept.startswith(REFS) else 'git apply'} {kept}")
    return " ".join(said)


def _tell(tx: Transaction, workspace: str, text: str, patch: str, *, run: str, now: int) -> None:
    resource = resources.store(tx, workspace, patch).id if patch else None
    draft = channel.Draft(workspace=workspace, sender="system", text=text, kind="system", resource=resource, run=run)
    channel.post(tx, draft, now=now)


def _tell_once(tx: Transaction, workspace: str, text: str, *, now: int) -> None:
    """Post a notice, unless another process has posted the same before."""
    if not channel.was_told(tx, workspace, text):
        channel.post(tx, channel.Draft(workspace=workspace, sender="system", text=text, kind="system"), now=now)
