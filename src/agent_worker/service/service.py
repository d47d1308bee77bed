"""What every operation works with: the runtime, the projects it serves, the workflow instances that run.

After a restart the instances that were running are opened again, with the members their files name now.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.waiting import Waiting
from agent_worker.core.address import Address, WorkspaceName
from agent_worker.core.errors import InUse, NotFound, NotNow, NotRunning
from agent_worker.core.events import Event
from agent_worker.database.database import ProjectDatabase, Row, Transaction, WholeTransaction
from agent_worker.database.patient import until_possible
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.service.addresses import address_in, workspace_name_in
from agent_worker.service.found_workflow import FoundWorkflow, as_started, find_workflow, remotes_of
from agent_worker.service.open_projects import OpenProjects, ProjectValues
from agent_worker.service.running_instances import RunningInstances, at_rest
from agent_worker.service.typed_ids import Kind, holding
from agent_worker.work import inbox, project_rows
from agent_worker.work.door_tokens import DoorTokens
from agent_worker.workflows import start as instances
from agent_worker.workflows.instance import Instance, end_now
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.summary import Summary, summarise
from agent_worker.workspaces import workspace_rows, workspace_state

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
TAKE_UP = 2.0  #: seconds between two tries to open a project that another runtime has


class Service:
    def __init__(self, runtime: Runtime, *, closing: asyncio.Event | None = None) -> None:
        self.runtime = runtime
        self.closing = closing or asyncio.Event()  #: set when the host is about to end: streams say goodbye
        self.door_tokens = DoorTokens()  #: that let programs of others in
        self.holding_tokens = asyncio.Lock()
        self._projects = OpenProjects(runtime)
        self._instances = RunningInstances(runtime)
        self._opening_known: asyncio.Task[None] | None = None  # projects of former days
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._unlisten: list[Callable[[], None]] = []
        self.opened: Callable[[LoadedProject], Awaitable[None]] | None = None  #: told of each project that was opened
        #: Opens what other hosts have work in, where it is here too.
        self.open_shared: Callable[[], Awaitable[None]] | None = None
        self.opening_session = asyncio.Lock()  #: of two first questions in a session, one starts it

    def now(self) -> int:
        return self.runtime.clock.micros()

    def database(self, loaded: LoadedProject) -> ProjectDatabase:
        """What is stored of a project."""
        return self.runtime.database.of(loaded.id)

    async def read(
        self,
        loaded: LoadedProject,
        query: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self.database(loaded).read(query, *args, **kwargs)

    async def waits(self, loaded: LoadedProject) -> dict[str, Waiting]:
        """Which agents of a project wait, and for what, by id."""
        return self.runtime.supervisor.waits.shown(await self.read(loaded, inbox.asked_by_agents))

    def write(
        self,
        loaded: LoadedProject,
        change: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> asyncio.Future[T]:
        return self.database(loaded).write(change, *args, **kwargs)

    async def holding(self, id: str, *kinds: Kind) -> tuple[ProjectDatabase, str]:
        """The rows of the project that has this id, or an id that begins so, for those who know nothing else; and the
        whole id.

        Where nothing of these kinds is found, the id comes back as it was typed.
        """
        project, whole = await self.runtime.database.read(holding, kinds, id)
        return self.runtime.database.of(project), whole or id

    # --- projects -------------------------------------------------------------------------------------

    async def project(self, root: str | None) -> LoadedProject:
        """The project at this directory; the only one there is, when none is named."""
        loaded, is_new = await self._projects.at(root)
        if is_new:
            try:
                await self._begin_in(loaded)
            except NotNow:  # it is open all the same, and for nobody else it is new
                self.background(until_possible(partial(self._begin_in, loaded), self.runtime.clock))
        return loaded

    async def _begin_in(self, loaded: LoadedProject) -> None:
        """Take part in what goes on in a project that was opened just now."""
        if not self._projects.opening:  # another runtime had it when we began
            await self._open_workspaces(
                [workspace for workspace in await self._workspaces_left() if workspace["project"] == loaded.id]
            )
        if self.opened:
            await self.opened(loaded)

    async def project_of(self, database: ProjectDatabase) -> LoadedProject:
        """The project that these rows are of, opened. Raises NotFound: this host has no checkout of it."""
        if root := await database.read(project_rows.root_here):
            return await self.project(root)
        elsewhere = [f"{row['node']}: {row['root']}" for row in await database.read(project_rows.checkouts)]
        told = "this host has no checkout of that project"
        raise NotFound(told, hint=f"it is on {', '.join(elsewhere)}" if elsewhere else "agent-worker status")

    async def files_of(self, root: str | None) -> tuple[ProjectFiles, LoadedProject | None]:
        """What stands in the files of a project, which is not opened for it: another runtime may have it."""
        alone = self.runtime.supervisor.host is None  # else what was approved is found by the project's id
        unopened = await self._projects.unopened_at(root) if root is not None and alone else None
        if unopened is not None:
            return unopened, None
        loaded = await self.project(root)
        return loaded.project, loaded

    def projects(self) -> list[LoadedProject]:
        return self._projects.all()

    async def add_quick(self, loaded: LoadedProject, definition: AgentDefinition) -> None:
        """Add an agent that lives only as long as this process."""
        await self._projects.add_quick(loaded, definition)

    async def drop_quick(self, loaded: LoadedProject, name: str) -> None:
        """Remove a quick agent that ends before this process does."""
        await self._projects.drop_quick(loaded, name)

    async def add_values(self, loaded: LoadedProject, values: ProjectValues, *, again: bool) -> None:
        """Add agents and teams that a program hands over. What an earlier process left of their work goes on.

        `again`: their functions are others than they were.
        """
        await self._projects.add_values(loaded, values, again=again)
        await self._open_workspaces(
            [
                workspace
                for workspace in await self._workspaces_left()
                if workspace["project"] == loaded.id and workspace["workflow"] in values.workflows
            ]
        )
        await self.runtime.supervisor.wake_all()

    async def remake_kit(self, loaded: LoadedProject) -> None:
        """Make the tools and backends of a project anew: what was refused to agents may be approved now."""
        await self._projects.remake_kit(loaded)

    # --- after a restart --------------------------------------------------------------------------------

    async def open_again(self) -> None:
        """Open projects that have work, and the instances that were running, after a restart.

        All are opened before anybody works, so that what was interrupted goes on first, whoever's it is.
        """
        self._projects.opening = True
        try:
            await self._open_projects()
            await self._open_workspaces(await self._workspaces_left())
        finally:
            self._projects.opening = False
        await self.runtime.supervisor.wake_all()

    async def open_known(self) -> None:
        """Open the projects that were worked in before this daemon began, if they are still there.

        They are looked for once: whoever asks meanwhile waits for it, and whoever leaves keeps it from nobody.
        """
        opening = self._opening_known
        if opening is None or (opening.done() and (opening.cancelled() or opening.exception())):
            opening = self._opening_known = self.background(self._open_known())
        await asyncio.shield(opening)

    async def _open_known(self) -> None:
        for root in await self.runtime.database.read(_roots):
            if not await asyncio.to_thread(os.path.isdir, root):
                continue
            try:
                await self.project(root)
            except Exception as error:  # boundary: one that cannot be opened hides no other one
                log.warning("project %s is not shown: %s", root, error)
        if self.open_shared:
            await self.open_shared()

    async def _open_projects(self) -> None:
        for root in await self.runtime.database.read(_roots_with_work):
            try:
                await self.project(root)
            except (InUse, NotNow) as error:
                log.warning("%s", error.message)
                self.background(self._take_up_later(root))
            except Exception:  # boundary: one that cannot be opened keeps no other one closed
                log.exception("project %s could not be opened again", root)

    async def _take_up_later(self, root: str) -> None:
        """Open a project as soon as another runtime lets go of it, or it can be read: nobody tells us when, so we look
        again and again."""
        while True:
            await self.runtime.clock.sleep(TAKE_UP)
            try:
                await self.project(root)
            except (InUse, NotNow):
                continue
            except Exception:  # boundary, as above
                log.exception("project %s could not be opened again", root)
            return

    async def take_up_left(self) -> None:
        """Open the instances of a host that is gone, unless another host is faster."""
        open_here = {loaded.id for loaded in self.projects()}
        await self._open_workspaces([each for each in await self._workspaces_left() if each["project"] in open_here])

    async def _workspaces_left(self) -> list[Row]:
        left = await self.runtime.database.read(workspace_rows.left)
        return [workspace for workspace in left if self.running(workspace["id"]) is None]

    async def _open_workspaces(self, workspaces: list[Row]) -> None:
        for workspace in workspaces:
            try:
                await self._reopen_if_possible(workspace)
            except NotNow as error:
                log.warning("workflow %s:%s: %s", workspace["workflow"], workspace["tag"], error.message)
                again = partial(self._reopen_if_possible, workspace)
                self.background(until_possible(again, self.runtime.clock))

    async def _reopen_if_possible(self, workspace: Row) -> None:
        """Raises NotNow: then it can be later."""
        try:
            await self._reopen(workspace)
        except NotNow:
            raise
        except InUse:
            pass  # with its project, later
        except Exception:  # boundary: one that cannot be opened keeps no other one closed
            log.exception("workflow %s:%s could not be opened again", workspace["workflow"], workspace["tag"])

    async def _reopen(self, workspace: Row) -> None:
        root = await self.runtime.database.of(workspace["project"]).read(project_rows.root_here)
        if not root:
            return  # a host that has the project takes it up
        loaded = await self.project(root)
        if not workspace["file"] and workspace["workflow"] not in loaded.project.workflows:
            return  # a value of a program: it goes on when that hands it over again
        definition = await self.definition_of(loaded, workspace)
        await self.runtime.undoings.finish()  # else an earlier try of ours has it
        if (host := self.runtime.supervisor.host) and not await self.write(
            loaded, workspace_state.take_up, workspace["id"], host
        ):
            return
        running = await instances.reopen(self.runtime, loaded, definition, workspace)
        self._instances.add(running)
        if workspace["ends"] == "quiet":
            self.background(self.finish(running))

    async def definition_of(self, loaded: LoadedProject, workspace: Row) -> WorkflowDefinition:
        """The workflow of an instance, as its file says now, with the model that it was started with."""
        found = await self.workflow(loaded, workspace["file"] or workspace["workflow"])
        return as_started(found, loaded, workspace)

    # --- instances ------------------------------------------------------------------------------------

    async def start(self, loaded: LoadedProject, wanted: instances.Start) -> Instance:
        return await self._instances.start(loaded, wanted)

    async def finish(self, running: Instance) -> Summary:
        """Work until quiet, then end."""
        return await self._instances.finish(running)

    async def finish_or_rest(self, running: Instance) -> Summary:
        """Let an instance finish; where a limit pauses it there is an answer at once, and it goes on when it is
        resumed."""
        ends = self.background(self.finish(running))
        rests = asyncio.create_task(running.watch.at_limit.wait())
        try:
            await asyncio.wait({ends, rests}, return_when=asyncio.FIRST_COMPLETED)
            return ends.result() if ends.done() else await at_rest(running)
        finally:
            rests.cancel()

    async def stop(self, running: Instance, *, reason: str = "stopped") -> Summary:
        return await self._instances.stop(running, reason=reason)

    def running(self, workspace: str) -> Instance | None:
        """The running instance that has this workspace (by its id); None when it is not open here."""
        return self._instances.get(workspace)

    async def instance(self, loaded: LoadedProject, name: str) -> Instance:
        """A running instance, by `workflow` or `workflow:tag`."""
        found = await self.workspace_name(loaded, name)
        workspace = await self.read(loaded, workspace_rows.find_running, found)
        if (running := self.running(workspace["id"])) is None:
            if workspace["owner"] not in (None, self.runtime.supervisor.host):
                raise await self._instances.elsewhere(found, workspace)
            told = f'workflow "{found}" is not open here yet: it is being started, or could not be opened again'
            raise NotRunning(told, hint="agent-worker daemon logs")
        return running

    async def running_row(self, loaded: LoadedProject, name: str) -> Row:
        """The workspace of a running instance, whichever host has it open."""
        workspace = await self.read(loaded, workspace_rows.find_running, await self.workspace_name(loaded, name))
        if workspace["owner"] in (None, self.runtime.supervisor.host):
            await self.instance(loaded, name)  # raises when it is not
        return workspace

    async def stop_named(self, loaded: LoadedProject, name: str) -> Summary:
        """Stop an instance, whichever host has it open."""
        workspace = await self.running_row(loaded, name)
        if (running := self.running(workspace["id"])) is not None:
            return await self.stop(running)
        await self.write(loaded, end_now, workspace["id"], "stopped", now=self.now())
        return await self.read(loaded, summarise, workspace["id"], workspace["started_at"], "stopped")

    async def ended_elsewhere(self, workspace: str, reason: str) -> None:
        await self._instances.ended_elsewhere(workspace, reason)

    # --- names that somebody typed --------------------------------------------------------------------

    async def address(self, loaded: LoadedProject, text: str) -> Address:
        """An address as somebody typed it."""
        return await address_in(self.database(loaded), loaded, text)

    async def workspace_name(self, loaded: LoadedProject, text: str) -> WorkspaceName:
        """`workflow`, `workflow:tag` or only the tag, as somebody typed it, with or without an `@`."""
        return await workspace_name_in(self.database(loaded), loaded, text)

    async def workflow(self, loaded: LoadedProject, name: str) -> FoundWorkflow:
        """A workflow by its name, by the path of its file, or by where it is fetched from."""
        return await find_workflow(self.runtime, loaded, name)

    def remotes(self) -> Remotes:
        return remotes_of(self.runtime)

    async def see_files(self, agent: str) -> None:
        """Bring the files of an agent up to date before they are looked at, where several hosts write them."""
        if self.runtime.personal:
            await self.runtime.personal.agree(agent)

    async def keep_files(self) -> None:
        """Wait until what was written into the files of agents is stored, where several hosts share it."""
        if self.runtime.personal:
            await self.runtime.personal.keep()

    # --- tasks ----------------------------------------------------------------------------------------

    def background(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run work that ends with the service. What is begun after the service's end is not run."""
        task = asyncio.create_task(work)
        if self._closed:
            task.cancel()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def listen(self, listener: Callable[[Event], None], *kinds: type[Event]) -> None:
        """Call `listener` with events of these kinds until the service is closed."""
        self._unlisten.append(self.runtime.bus.listen(listener, *kinds))

    async def close(self) -> None:
        self._closed = True
        while self._unlisten:
            self._unlisten.pop()()
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:  # also when we are cancelled while we wait
            self._instances.leave_all()


def _roots(tx: WholeTransaction) -> list[str]:
    """The directories of all projects that are here."""
    return [root for project in project_rows.ids(tx) if (root := project_rows.root_here(tx.of(project)))]


def _roots_with_work(tx: WholeTransaction) -> list[str]:
    """The directories here of projects in which something is to be done, now or by a schedule."""
    return [root for project in with_work(tx) if (root := project_rows.root_here(tx.of(project)))]


def with_work(tx: WholeTransaction) -> list[str]:
    """The ids of projects in which something is to be done, on whichever host."""
    return [project for project in project_rows.ids(tx) if _has_work(tx.of(project))]


def _has_work(tx: Transaction) -> bool:
    row = tx.one(
        """select 1 as one from project p where p.id = :project and (
             exists (select 1 from instruction i
                      where i.project = :project and i.state in ('queued', 'running', 'waiting'))
             or exists (select 1 from schedule s where s.project = :project and s.state = 'active')
             or exists (select 1 from workspace w
                         where w.project = :project and w.state in ('running', 'left')))"""
    )
    return row is not None
