"""What every operation works with: the runtime, the projects it serves, the workflow instances that run.

A project is loaded when it is first named and read again when its files change. After a restart the instances
that were running are opened again, with the members their files name now.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.waiting import Waiting
from agent_worker.core.address import TAG, Address, WorkspaceName, canonical, parse_address
from agent_worker.core.errors import BadInput, DefinitionError, InUse, NotFound, Refused, TooBusy, trouble_of
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched, Remote, is_remote, parse_remote
from agent_worker.database.database import ProjectDatabase, Row, Transaction, WholeTransaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.project import AGENTS, PROJECT_FILES, WORKFLOWS, ProjectFiles, find_project, load_project
from agent_worker.definitions.workflow import WorkflowDefinition, alone, together, with_model
from agent_worker.trust.project_keys import FILE as ENV_FILE
from agent_worker.work import agent_rows, inbox
from agent_worker.work.door_tokens import DoorTokens
from agent_worker.workflows import start as instances
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.summary import Summary
from agent_worker.workflows.values import MODEL
from agent_worker.workspaces import workspace_rows

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
SESSION = "agent:"  #: before the name of an agent: a workflow that no file describes, with it alone
TOGETHER = "team:"  #: before the names of agents: a workflow that no file describes, with these
TAKE_UP = 2.0  #: seconds between two tries to open a project that another runtime has
_Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
_PERSONAL = ("memory", "notes", "conversations", "todo", ".index")  # folders in that of an agent


@dataclass(slots=True)
class _Known:
    loaded: LoadedProject
    definitions: ProjectFiles  #: as they were read, also those that cannot be used
    stamp: _Stamp | None
    watched: tuple[Path, ...] = ()  #: beyond the folders of definitions
    values: ProjectValues = field(default_factory=lambda: ProjectValues())


@dataclass(frozen=True, slots=True)
class ProjectValues:
    """Agents and teams of a project that programs have handed over: they are in no file."""

    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowDefinition] = field(default_factory=dict)

    def beside(self, definitions: ProjectFiles) -> ProjectFiles:
        return definitions.with_values(self.agents, self.workflows)


@dataclass(frozen=True, slots=True)
class _ProjectLook:
    """What was seen of a project's files."""

    root: str  #: as it was asked for
    askers: int  #: who had asked when it began
    path: Path
    stamp: _Stamp | None


class _Finishing:
    """An instance that somebody waits for: it ends by itself, or by being stopped."""

    def __init__(self, work: asyncio.Task[Summary]) -> None:
        self.work = work
        self.outcome: asyncio.Future[Summary] = asyncio.get_running_loop().create_future()
        work.add_done_callback(self._done)

    def _done(self, work: asyncio.Task[Summary]) -> None:
        if work.cancelled() or self.outcome.done():
            return
        if (error := work.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(work.result())


@dataclass(frozen=True, slots=True)
class FoundWorkflow:
    """A workflow, and what it is read from again after a restart."""

    definition: WorkflowDefinition
    file: str
    fetched: Fetched | None = None


class Service:
    def __init__(self, runtime: Runtime, *, closing: asyncio.Event | None = None) -> None:
        self.runtime = runtime
        self.closing = closing or asyncio.Event()  #: set when the host is about to end: streams say goodbye
        self.door_tokens = DoorTokens()  #: that let programs of others in
        self._projects: dict[Path, _Known] = {}
        self._instances: dict[str, Instance] = {}
        self._finishing: dict[str, _Finishing] = {}
        self._admitting = asyncio.Lock()
        self._askers = 0  # for a project, ever
        self._looked = _ProjectLook("", 0, Path(), None)  # the last time
        self._opening = False  # nobody is woken yet
        self._all_known = False  # projects of former days were looked for
        self._tasks: set[asyncio.Task[Any]] = set()

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
        """What is stored of the project that holds this, for those who know an id, or how it begins, and nothing else.

        With the id in full; with what was typed, when there is nothing of these kinds.
        """
        project, whole = await self.runtime.database.read(_holding, kinds, id)
        return self.runtime.database.of(project), whole or id

    # --- projects -------------------------------------------------------------------------------------

    async def project(self, root: str | None) -> LoadedProject:
        """The project at this directory; the only one there is, when none is named."""
        if root is None:
            if len(self._projects) != 1:
                raise BadInput("say which project: its directory", hint="project=/path/to/it")
            root = str(next(iter(self._projects)))
        self._askers = asker = self._askers + 1
        async with self._admitting:
            path, stamp = await self._look(root, asker)
            known = self._projects.get(path)
            is_new = known is None
            if known is not None and stamp is None:
                return known.loaded  # it cannot be looked at just now: what was known holds
            if known is None or known.stamp != stamp:
                known = self._projects[path] = await self._read(path, known, stamp)
                if not self._opening:
                    await self.runtime.supervisor.wake_all()
        if is_new and not self._opening:  # another runtime had it when we began
            await self._open_workspaces(
                [workspace for workspace in await self._workspaces_left() if workspace["project"] == known.loaded.id]
            )
        return known.loaded

    async def _look(self, root: str, asker: int) -> tuple[Path, _Stamp | None]:
        """Where the project is, and how its files are now: no older than the question, or a change would be missed.

        Whoever asks while one looks is told by the next look, together with all the others who did.
        """
        if self._looked.root != root or self._looked.askers < asker:
            askers = self._askers
            self._looked = _ProjectLook(root, askers, *await asyncio.to_thread(self._look_at, root))
        return self._looked.path, self._looked.stamp

    def _look_at(self, root: str) -> tuple[Path, _Stamp | None]:
        path = _project_at(root)
        known = self._projects.get(path)
        # Before it is read: what changes meanwhile is seen the next time.
        return path, _stamp(path, known.watched if known else ())

    async def _read(self, path: Path, known: _Known | None, stamp: _Stamp | None) -> _Known:
        previous, quick = (known.loaded.project, known.loaded.quick) if known else (None, {})
        values = known.values if known else ProjectValues()
        definitions = await asyncio.to_thread(load_project, path, previous=previous)
        loaded = await self.runtime.loader.load(values.beside(definitions), quick)
        # The stamp does not know yet what else is to be watched: whatever of it is there is read once more.
        watched = (*definitions.elsewhere, *self._ailing(loaded, definitions))
        return _Known(loaded, definitions, stamp, watched, values)

    def _ailing(self, loaded: LoadedProject, definitions: ProjectFiles) -> Iterator[Path]:
        """What agents that cannot be used depend on beside their own file: any of it may be what is mended."""
        for name, definition in definitions.agents.items():
            worker = self.runtime.registry.own(loaded.agents[name])
            if worker is not None and worker.trouble:
                files = [tool.name.rpartition(":")[0] for tool in definition.tools if ".py:" in tool.name]
                folders = [definition.personal_dir, *(f"{definition.personal_dir}/{part}" for part in _PERSONAL)]
                yield from (definitions.root / each for each in (*files, *folders, definition.cwd, *definition.skills))

    async def add_quick(self, loaded: LoadedProject, definition: AgentDefinition) -> None:
        """An agent that lives only as long as this process."""
        async with self._admitting:
            known = self._projects[loaded.project.root]
            await self._load_again(known, {**known.loaded.quick, definition.name: definition})

    async def drop_quick(self, loaded: LoadedProject, name: str) -> None:
        """A quick agent has ended before this process does."""
        async with self._admitting:
            known = self._projects[loaded.project.root]
            quick = {other: each for other, each in known.loaded.quick.items() if other != name}
            await self._load_again(known, quick)

    async def add_values(self, loaded: LoadedProject, values: ProjectValues, *, again: bool) -> None:
        """Agents and teams that a program hands over. What was left of them by an earlier process goes on.

        `again`: their functions are others than they were.
        """
        async with self._admitting:
            known = self._projects[loaded.project.root]
            before = known.values
            known.values = ProjectValues({**before.agents, **values.agents}, {**before.workflows, **values.workflows})
            await self._load_again(known, known.loaded.quick, again=again)
        await self._open_workspaces(
            [
                workspace
                for workspace in await self._workspaces_left()
                if workspace["project"] == known.loaded.id and workspace["workflow"] in values.workflows
            ]
        )
        await self.runtime.supervisor.wake_all()

    async def _load_again(self, known: _Known, quick: Mapping[str, AgentDefinition], *, again: bool = False) -> None:
        known.loaded = await self.runtime.loader.load(known.values.beside(known.definitions), quick, again=again)

    async def remake_kit(self, loaded: LoadedProject) -> None:
        """The user has approved something: what was refused to agents may be theirs now."""
        async with self._admitting:
            known = self._projects[loaded.project.root]
            await self._load_again(known, known.loaded.quick, again=True)

    def projects(self) -> list[LoadedProject]:
        return [known.loaded for known in self._projects.values()]

    # --- instances ------------------------------------------------------------------------------------

    async def open_again(self) -> None:
        """After a restart: projects that have work, and the instances that were running.

        All are opened before anybody works, so that what was interrupted goes on first, whoever's it is.
        """
        self._opening = True
        try:
            await self._open_projects()
            await self._open_workspaces(await self._workspaces_left())
        finally:
            self._opening = False
        await self.runtime.supervisor.wake_all()

    async def open_known(self) -> None:
        """Open the projects that were worked in before this daemon began, if they are still there. Looked for once."""
        if self._all_known:
            return
        self._all_known = True
        for root in await self.runtime.database.read(_roots):
            if not await asyncio.to_thread(os.path.isdir, root):
                continue
            try:
                await self.project(root)
            except Exception as error:  # boundary: one that cannot be opened hides no other one
                log.warning("project %s is not shown: %s", root, error)

    async def _open_projects(self) -> None:
        for root in await self.runtime.database.read(_roots_with_work):
            try:
                await self.project(root)
            except InUse as error:
                log.warning("%s", error.message)
                self.background(self._take_up_later(root))
            except Exception:  # boundary: one that cannot be opened keeps no other one closed
                log.exception("project %s could not be opened again", root)

    async def _take_up_later(self, root: str) -> None:
        """Take a project up as soon as the other runtime lets go of it: nobody tells us when."""
        while True:
            await self.runtime.clock.sleep(TAKE_UP)
            try:
                await self.project(root)
            except InUse:
                continue
            except Exception:  # boundary, as above
                log.exception("project %s could not be opened again", root)
            return

    async def _workspaces_left(self) -> list[Row]:
        left = await self.runtime.database.read(workspace_rows.left)
        return [workspace for workspace in left if workspace["id"] not in self._instances]

    async def _open_workspaces(self, workspaces: list[Row]) -> None:
        for workspace in workspaces:
            try:
                await self._reopen(workspace)
            except InUse:
                continue  # with its project, later
            except Exception:  # boundary: one that cannot be opened keeps no other one closed
                log.exception("workflow %s:%s could not be opened again", workspace["workflow"], workspace["tag"])

    async def _reopen(self, workspace: Row) -> None:
        root = await self.runtime.database.of(workspace["project"]).read(_root_of)
        loaded = await self.project(root)
        if not workspace["file"] and workspace["workflow"] not in loaded.project.workflows:
            return  # a value of a program: it goes on when that hands it over again
        found = await self.workflow(loaded, workspace["file"] or workspace["workflow"])
        definition, model = found.definition, json.loads(workspace["given"]).get(MODEL)
        if model:
            definition = with_model(definition, loaded.project.agents, model)
        running = await instances.reopen(self.runtime, loaded, definition, workspace)
        self._instances[running.id] = running
        if workspace["ends"] == "quiet":
            self.background(self.finish(running))

    async def start(self, loaded: LoadedProject, wanted: instances.Start) -> Instance:
        running = await instances.start(self.runtime, loaded, wanted)
        self._instances[running.id] = running
        return running

    async def finish(self, running: Instance) -> Summary:
        """Work until quiet, then end. Stopped meanwhile, it gives what came of that.

        One that a limit or a person paused waits until it is resumed or stopped.
        """
        if (begun := self._finishing.get(running.id)) is not None:
            return await asyncio.shield(begun.outcome)  # somebody else waits for it too
        finishing = self._finishing[running.id] = _Finishing(asyncio.create_task(running.run(keeps=True)))
        try:
            return await finishing.outcome
        except BaseException:  # nobody will end it here any more
            running.leave()
            raise
        finally:
            finishing.work.cancel()
            del self._finishing[running.id]
            self._instances.pop(running.id, None)

    async def finish_or_rest(self, running: Instance) -> Summary:
        """The same, but where a limit pauses it there is an answer at once, and it goes on when it is resumed."""
        ends = self.background(self.finish(running))
        rests = asyncio.create_task(running.watch.at_limit.wait())
        try:
            await asyncio.wait({ends, rests}, return_when=asyncio.FIRST_COMPLETED)
            return ends.result() if ends.done() else await at_rest(running)
        finally:
            rests.cancel()

    async def stop(self, running: Instance, *, reason: str = "stopped") -> Summary:
        finishing = self._finishing.get(running.id)
        if finishing is not None:
            finishing.work.cancel()
        try:
            summary = await running.stop(reason=reason)
        except BaseException:  # the same
            running.leave()
            raise
        finally:
            self._instances.pop(running.id, None)
        if finishing is not None and not finishing.outcome.done():
            finishing.outcome.set_result(summary)
        return summary

    async def address(self, loaded: LoadedProject, text: str) -> Address:
        """An address as somebody typed it."""
        return await address_in(self.database(loaded), loaded, text)

    async def workspace_name(self, loaded: LoadedProject, text: str) -> WorkspaceName:
        """`workflow`, `workflow:tag` or only the tag, as somebody typed it, with or without an `@`."""
        tagged = await _tagged(self.database(loaded), loaded, text.removeprefix("@"))
        name = tagged or WorkspaceName.parse(text)
        await _check_known(self.database(loaded), loaded, name.workflow)
        return name

    async def instance(self, loaded: LoadedProject, name: str) -> Instance:
        """A running one, by `workflow` or `workflow:tag`."""
        found = await self.workspace_name(loaded, name)
        workspace = await self.read(loaded, workspace_rows.find_running, found)
        return self._instances[workspace["id"]]

    def running(self, workspace: str) -> Instance | None:
        """By the id of its workspace."""
        return self._instances.get(workspace)

    async def workflow(self, loaded: LoadedProject, name: str) -> FoundWorkflow:
        """A workflow by its name, by the path of its file, or by where it is fetched from."""
        project = loaded.project
        if name in project.workflows:
            return FoundWorkflow(project.workflows[name], str(project.workflow_files.get(name, "")))
        if name.startswith(SESSION):
            if (whose := name.removeprefix(SESSION)) not in loaded.agents:
                raise NotFound(f"there is no agent {whose} in this project", hint="agent-worker ls")
            return FoundWorkflow(alone(whose), name)
        if name.startswith(TOGETHER):
            return FoundWorkflow(_together(loaded, name.removeprefix(TOGETHER).split("+")), name)
        if is_remote(name):
            fetched = await self.remotes().get(workflow_source(name), now=self.runtime.clock.now())
            return await asyncio.to_thread(read_fetched, loaded, fetched)
        if name.endswith((".yaml", ".yml")):
            path = project.workflow_path(name)
            return FoundWorkflow(project.load_workflow(path), str(path))
        if agent := canonical(name, loaded.agents):
            told = f'ask it: agent-worker ask {agent} "…"; after a stop: agent-worker agent start {agent}'
            raise NotFound(f"{agent} is an agent, not a workflow", hint=told)
        raise project.no_workflow(name)

    def remotes(self) -> Remotes:
        if self.runtime.remotes is None:
            raise Refused("nothing is fetched here: there is no home to keep it in", hint="use the daemon")
        return self.runtime.remotes

    # --- tasks ----------------------------------------------------------------------------------------

    def background(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:  # also when we are cancelled while we wait
            for running in self._instances.values():
                running.leave()


async def at_rest(running: Instance) -> Summary:
    """What has come of an instance that waits at a limit, and how it goes on."""
    return replace(await running.so_far(), resume=f"agent-worker resume @{running.name}")


async def address_in(database: ProjectDatabase, loaded: LoadedProject, text: str) -> Address:
    """An address as somebody typed it. `@tag` and `alice@tag` lead to the only running instance with that tag."""
    agent, at, place = text.partition("@")
    tagged = await _tagged(database, loaded, place) if at else None
    address = parse_address(f"{agent}@{tagged.full}" if tagged else text)
    if address.workspace:
        await _check_known(database, loaded, address.workspace.workflow)
    return address


async def _check_known(database: ProjectDatabase, loaded: LoadedProject, workflow: str) -> None:
    """There is such a workflow, or was: else whoever named it is not told to start it."""
    is_ours = canonical(workflow, loaded.project.workflows) is not None
    if not is_ours and not await database.read(workspace_rows.was_here, workflow):
        raise loaded.project.no_workflow(workflow)


async def _tagged(database: ProjectDatabase, loaded: LoadedProject, tag: str) -> WorkspaceName | None:
    """The running instance that has this tag, if no workflow has that name."""
    if not TAG.fullmatch(tag) or canonical(tag, loaded.project.workflows):
        return None
    found = await database.read(workspace_rows.running_with_tag, tag)
    if len(found) > 1:
        raise BadInput(f"several instances have the tag {tag}", hint=f"say which: {', '.join(f'@{n}' for n in found)}")
    return found[0] if found else None


def _together(loaded: LoadedProject, names: Sequence[str]) -> WorkflowDefinition:
    known = {name: canonical(name, loaded.agents) for name in names}
    if missing := [name for name, found in known.items() if found is None]:
        told = f"there is no agent {missing[0][:100]} in this project"
        raise NotFound(told, hint=f"agents here: {', '.join(loaded.agents)}" if loaded.agents else "agent-worker init")
    return together(TOGETHER.removesuffix(":"), list(dict.fromkeys(filter(None, known.values()))))


def workflow_source(text: str) -> Remote:
    remote = parse_remote(text)
    if not remote.path.endswith((".yaml", ".yml")):
        raise BadInput(f"{text} does not lead to a workflow", hint="its path ends in .yaml")
    return remote


def read_fetched(loaded: LoadedProject, fetched: Fetched) -> FoundWorkflow:
    """The workflow for the agents of this project."""
    path = fetched.root / PurePosixPath(fetched.remote.path).name
    if not path.is_file():
        raise NotFound(f"there is no {fetched.remote.path} in {fetched.remote.url} at {fetched.commit}")
    try:
        return FoundWorkflow(loaded.project.load_workflow(path), fetched.pinned, fetched)
    except DefinitionError as error:  # whoever reads it knows the source, not where we keep it
        raise DefinitionError([replace(one, file=str(fetched.remote)) for one in error.problems]) from None


def _project_at(directory: str) -> Path:
    if not os.path.isabs(directory):  # ours is not the directory that the caller is in
        raise BadInput(f"{directory!r} is not a full path", hint="project=/path/to/it")
    if not os.path.isdir(directory):
        raise NotFound(f"there is no directory {directory}")
    return find_project(Path(directory))


def _stamp(root: Path, watched: Iterable[Path] = ()) -> _Stamp | None:
    """Changes whenever one of the files that define the project does. Asked at every request, of every file.

    None: the system has no descriptor left to look with.
    """
    found = []
    with suppress(OSError):
        status = os.stat(root)
        found.append(("", status.st_dev, status.st_ino))  # another directory may stand there now
    for path in (*(root / name for name in (*PROJECT_FILES, ENV_FILE)), *watched):
        with suppress(OSError, ValueError):
            status = os.stat(path)
            found.append((str(path), status.st_ctime_ns, status.st_size))  # by which a change of rights is seen too
    for folder in (AGENTS, WORKFLOWS):
        try:
            with os.scandir(root / folder) as entries:
                found += _stamps(entries)
        except OSError as error:
            if isinstance(trouble_of(error), TooBusy):
                return None
    return tuple(sorted(found))


def _stamps(entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, int, int]]:
    for entry in entries:
        if entry.name.endswith((".yaml", ".yml", ".md", ".txt")):
            try:
                status = entry.stat()
            except OSError:
                continue
            yield entry.path, status.st_ctime_ns, status.st_size


def _roots(tx: WholeTransaction) -> list[str]:
    return [_root_of(tx.of(project)) for project in agent_rows.projects(tx)]


def _roots_with_work(tx: WholeTransaction) -> list[str]:
    """The directories of projects in which something is to be done, now or by a schedule."""
    return [_root_of(tx.of(project)) for project in agent_rows.projects(tx) if _has_work(tx.of(project))]


def _has_work(tx: Transaction) -> bool:
    row = tx.one(
        """select 1 as one from project p where p.id = :project and (
             exists (select 1 from instruction i
                      where i.project = :project and i.state in ('queued', 'running', 'waiting'))
             or exists (select 1 from schedule s where s.project = :project and s.state = 'active')
             or exists (select 1 from workspace w where w.project = :project and w.state = 'left'))"""
    )
    return row is not None


def _root_of(tx: Transaction) -> str:
    row = tx.one("select root from project where id = :project")
    assert row is not None
    return str(row["root"])


_IDS = {  # of each kind, those that begin with what was typed
    "run": "select id from run where project = :project and id >= :id and id < :end",
    "inbox_item": """select id from inbox_item
                      where project = :project and id >= :id and id < :end and state = 'open'""",
    "message": """select distinct message as id from delivery
                   where project = :project and message >= :id and message < :end""",
    "work": "select id from instruction where project = :project and id >= :id and id < :end",
    "unheard": "select id from message where project = :project and id >= :id and id < :end",
    "instance": "select id from workspace where project = :project and id >= :id and id < :end",
}
Kind = Literal["run", "inbox_item", "message", "work", "unheard", "instance"]  #: a message that nobody got is `unheard`


def _holding(tx: WholeTransaction, kinds: Sequence[Kind], id: str) -> tuple[str, str]:
    """The project that has a row of one of these kinds with this id, or an id that begins so; and the whole id.

    Both are empty when there is none.
    """
    end = f"{id}\x7f"  # after every id that begins so
    for kind in kinds:
        found = [
            (project, str(row["id"]))
            for project in agent_rows.projects(tx)
            for row in tx.of(project).all(f"{_IDS[kind]} order by 1 limit 9", id=id, end=end)
        ]
        exactly = [each for each in found if each[1] == id] or found
        if len(exactly) > 1:
            ids = ", ".join(each for _, each in exactly[:3])
            raise BadInput(f"{id} may be any of {len(exactly)}: {ids} …", hint="type more of it")
        if exactly:
            return exactly[0]
    return "", ""
