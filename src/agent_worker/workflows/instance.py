"""A running workflow: it works until it is quiet or told to stop, and ends with a summary. Who starts it: start.py."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import ParamSpec, TypeVar

from agent_worker.agents import commands
from agent_worker.agents.loader import LoadedProject
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.database.patient import until_possible
from agent_worker.proposals import minutes
from agent_worker.proposals.lifecycle import cancel_all
from agent_worker.schedules import schedule
from agent_worker.work import inbox
from agent_worker.workflows import archive
from agent_worker.workflows.instance_files import forget_files
from agent_worker.workflows.quiet import QuietWatch, close_if_quiet, kept_by
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.summary import Summary, summarise
from agent_worker.workflows.working_copies import WorkingCopies
from agent_worker.workspaces import workspace_rows, workspace_state

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Instance:
    """A running workflow. Made by `start`."""

    id: str
    name: str  #: workflow or workflow:tag
    loaded: LoadedProject
    members: Mapping[str, str]  #: name → agent id
    directory: Path | None
    started_at: int
    runtime: Runtime
    watch: QuietWatch = field(repr=False)
    inline: tuple[str, ...] = ()  #: agent ids that end with it
    alarm: asyncio.Task[None] | None = field(default=None, repr=False)  #: pauses it when its time is up
    working_copies: WorkingCopies | None = field(default=None, repr=False)  #: of members that work in a copy

    @property
    def database(self) -> ProjectDatabase:
        """What is stored of its project."""
        return self.runtime.database.of(self.loaded.id)

    async def quiet(self) -> str:
        """Wait until nobody has anything to do. Empty, or why work that is left does not go on."""
        return await self.watch.quiet()

    async def run(self, *, keeps: bool = False) -> Summary:
        """Work until quiet, then end. Nothing that came in the last moment is left behind.

        With `keeps` it does not end where a limit or a person paused it: it waits until it is resumed or stopped.
        """
        while True:
            await self._patiently(self.quiet)
            if keeps:
                await self._patiently(self.watch.resumed)
            if self.working_copies:
                await self.working_copies.settle()
            if await self._patiently(self._close_if_quiet, keeps):
                return await self._wind_up("")

    def _close_if_quiet(self, keeps: bool) -> Awaitable[bool]:
        return self.database.write(close_if_quiet, self.id, keeps=keeps, now=self.runtime.clock.micros())

    async def is_kept(self) -> bool:
        """Whether it is not over though nobody works in it: a limit or a person has paused it."""
        return bool(await self.database.read(kept_by, self.id))

    async def so_far(self) -> Summary:
        """The summary of what has come of it by now."""
        return await self.database.read(summarise, self.id, self.started_at, "")

    async def stop(self, *, reason: str = "stopped") -> Summary:
        """End the instance now: what is queued or running here is cancelled.

        Raises NotNow, and then it goes on as before.
        """
        if self.working_copies:
            await self.working_copies.settle()
        await self.database.write(end_now, self.id, reason, now=self.runtime.clock.micros())
        return await self._wind_up(reason)

    async def ended_elsewhere(self, reason: str) -> None:
        """Put away what this host keeps of an instance that another host has stopped."""
        await self._wind_up(reason)

    def leave(self) -> None:
        """Leave an instance whose host ends: nothing of it goes on here. It is opened again later."""
        self.watch.close()
        if self.alarm:
            self.alarm.cancel()
        if self.working_copies:
            self.working_copies.leave()

    async def _wind_up(self, reason: str) -> Summary:
        await self._patiently(minutes.file_pending, self.database, self.runtime.clock, self.id)
        summary = await self._patiently(self.database.read, summarise, self.id, self.started_at, reason)
        self.watch.close()
        if self.alarm:
            self.alarm.cancel()
        await self.runtime.log_files.flush()
        failpoint("detach")
        for agent in self.inline:
            await self.runtime.supervisor.dismiss(agent)
        if self.working_copies:
            workspace = await self._patiently(self.database.read, workspace_rows.get, self.id)
            await self.working_copies.close(remove=not workspace["bound"])
        self.runtime.registry.detach(self.id)
        forget_files(self.runtime, self.loaded.id, self.id, self.members.values())
        await self._patiently(self.database.write, _leave_no_trace, self.id)
        await self._patiently(self.database.write, schedule.clear_workspace, self.id)
        return summary

    async def _patiently(self, ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Nobody begins it again when it ends with an error, so it waits for a database that is away."""
        return await until_possible(lambda: ask(*args, **kwargs), self.runtime.clock)


# --- transactions -------------------------------------------------------------------------------------


def end_now(tx: Transaction, workspace: str, reason: str, *, now: int) -> None:
    for row in tx.all(
        """select id from instruction
            where project = :project and workspace = :workspace and state in ('queued', 'running', 'waiting')""",
        workspace=workspace,
    ):
        commands.cancel(tx, row["id"], reason=reason, now=now)
    inbox.close_limits(tx, workspace)
    cancel_all(tx, workspace, reason, now=now)
    workspace_state.close_workspace(tx, workspace, reason=reason, now=now)


def _leave_no_trace(tx: Transaction, workspace: str) -> None:
    """Erase the workspace of an instance that has ended, if its provider is `memory`."""
    if workspace_rows.get(tx, workspace)["provider"] == "memory":
        archive.erase(tx, workspace)
