"""Work that several hosts share: what others have open is made known here, and taken up when one of them ends.

Only where the state is in PostgreSQL. A project can be worked on here when this host has a checkout of it: one that was
opened here before, or one that lies where another host has its own. Work in it opens it: what another host accepts,
and what is there when this one begins, or when another one ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec

from agent_worker.agents.hosting import HostGone
from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.project_identity import is_at
from agent_worker.core.errors import NotNow
from agent_worker.core.events import ApprovalsChanged, Event, HostChanged, Queued, TokensChanged, WorkspaceChanged
from agent_worker.database.database import Row
from agent_worker.database.patient import until_possible
from agent_worker.service.service import Service, with_work
from agent_worker.service.tokens import hold_tokens
from agent_worker.work import project_rows
from agent_worker.workflows import start as instances
from agent_worker.workflows.instance_files import forget_files
from agent_worker.workspaces import member_rows, workspace_rows

log = logging.getLogger(__name__)

P = ParamSpec("P")


class SharedWork:
    """Listens from when it is made."""

    def __init__(self, service: Service) -> None:
        hosting = service.runtime.supervisor.hosting
        assert hosting is not None
        self._service = service
        self._host = hosting.me.id
        self._gone = hosting.gone
        self._opening: set[str] = set()  # projects
        self._absent: set[str] = set()  # projects whose directory is not here
        hosting.refresh = self._refresh
        if personal := service.runtime.personal:
            hosting.can_run = lambda agent, node, alone: personal.can_run(agent, node, alone=alone)
        hosting.join = self._join
        service.opened = self._join_all
        service.open_shared = self._open_all
        service.listen(self._hear, HostChanged, WorkspaceChanged, Queued, TokensChanged, ApprovalsChanged)

    async def _join_all(self, loaded: LoadedProject) -> None:
        """Let this host work in the instances that other hosts have open, when a project is opened here."""
        if personal := self._service.runtime.personal:
            self._later(personal.bring_all, loaded.id)
        for workspace in await self._service.read(loaded, workspace_rows.running_elsewhere, self._host):
            await self._join_row(loaded, workspace)

    def _hear(self, event: Event) -> None:
        if isinstance(event, HostChanged):
            self._note(event)
        match event:
            case HostChanged(state="left" | "dead"):
                self._absent.clear()
                self._later(self._take_up)
            case Queued(project=project) if not self._is_open(project) and project not in self._opening | self._absent:
                self._opening.add(project)
                self._later(self._open, project)
            case ApprovalsChanged(project=project, host=host) if host != self._host and self._is_open(project):
                self._later(self._look_at_approvals, project, answered=event.answered)
            case TokensChanged():
                self._later(hold_tokens, self._service)
            case WorkspaceChanged(project=project, workspace=str(id), state="running") if self._is_open(project):
                self._later(self._join, project, id)
            case WorkspaceChanged(workspace=str(id), state="ending") if running := self._service.running(id):
                self._service.background(self._service.finish(running))
            case WorkspaceChanged(project=project, workspace=str(id), state="stopped" | "archived", reason=reason):
                self._later(self._ended, project, id, reason)

    def _later(self, look: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> None:
        """What was told is told once: it is looked at however long that takes."""
        self._service.background(until_possible(partial(look, *args, **kwargs), self._service.runtime.clock))

    def _note(self, event: HostChanged) -> None:
        """Tell the person which hosts were found dead, until they are there again."""
        if event.state == "dead":
            self._gone[event.host] = HostGone(event.node, self._service.now())
        else:
            self._gone.pop(event.host, None)

    def _is_open(self, project: str) -> bool:
        return self._service.runtime.registry.root(project) is not None

    async def _take_up(self) -> None:
        """A host is gone: its teams go on here, and work in projects that nobody had open here."""
        await self._service.take_up_left()
        await self._open_all()

    async def _open_all(self) -> None:
        """Open what there is work in, if it is here: nobody tells us of work that was accepted before we listened."""
        for project in await self._service.runtime.database.read(with_work):
            if not self._is_open(project) and project not in self._opening | self._absent:
                self._opening.add(project)
                await self._open(project)

    async def _open(self, project: str) -> None:
        try:
            root = await self._checkout(project)
            if root is None:
                self._absent.add(project)
                return
            await self._service.project(root)
            await self._service.runtime.supervisor.wake_all()
        except NotNow:
            raise  # whoever began it tries again
        except Exception as error:  # boundary: another host has it, and this one may try at the next message
            log.warning("project %s of another host is not opened here: %s", project, error)
        finally:
            self._opening.discard(project)

    async def _checkout(self, project: str) -> str | None:
        """Where the project is on this host: where it was opened before, or at the path another host has it at, if it
        is the same."""
        database = self._service.runtime.database.of(project)
        if root := await database.read(project_rows.root_here):
            return root if await asyncio.to_thread(os.path.isdir, root) else None
        identity, roots = await database.read(project_rows.roots_elsewhere)
        return await asyncio.to_thread(lambda: next((root for root in roots if is_at(root, identity)), None))

    async def _look_at_approvals(self, project: str, *, answered: bool) -> None:
        """Read the approvals of a project again, because another host changed them: what agents may do may be different
        now.
        """
        if shared := self._service.runtime.gate.shared:
            await shared.look_again(project)
        for loaded in self._service.projects():
            if answered and loaded.id == project:
                await self._service.remake_kit(loaded)
                await self._service.runtime.supervisor.wake_all()

    async def _refresh(self, project: str) -> None:
        """An agent is about to be claimed: by what its files say now, which another host may have seen change."""
        root = self._service.runtime.registry.root(project)
        if root is not None:
            try:
                await self._service.project(str(root))
            except Exception as error:  # boundary: what was known holds
                log.warning("project %s cannot be read again: %s", root, error)

    async def _join(self, project: str, workspace: str) -> None:
        loaded = next((each for each in self._service.projects() if each.id == project), None)
        row = await self._service.runtime.database.of(project).read(workspace_rows.get, workspace)
        is_elsewhere = row["state"] == "running" and row["owner"] not in (None, self._host)
        if loaded and self._service.running(workspace) is None and is_elsewhere:
            await self._join_row(loaded, row)

    async def _join_row(self, loaded: LoadedProject, workspace: Row) -> None:
        try:
            definition = await self._service.definition_of(loaded, workspace)
            await instances.join(self._service.runtime, loaded, definition, workspace)
            await self._service.runtime.supervisor.wake_all()
        except NotNow:
            raise  # whoever began it tries again
        except Exception as error:  # boundary: its own host goes on with it
            log.warning("workflow %s is not worked on here: %s", workspace_rows.name_of(workspace), error)

    async def _ended(self, project: str, workspace: str, reason: str) -> None:
        if self._service.running(workspace) is None:
            self._service.runtime.registry.detach(workspace)
            members = await self._service.runtime.database.of(project).read(member_rows.members, workspace)
            await self._service.runtime.log_files.flush()
            forget_files(self._service.runtime, project, workspace, [each["agent"] for each in members])
        else:
            await self._service.ended_elsewhere(workspace, reason)
