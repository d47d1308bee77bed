"""Turns definitions into agents that can run: an id in the database, an `AgentRuntime` in the registry, a schedule, a
log.

What a project's files say is loaded here, again after each change; agents of a workflow are added to its workspace, on
top of what they are by themselves.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from agent_worker.agents.backend_factory import BackendFactory, Held
from agent_worker.agents.enrolment import enrol
from agent_worker.agents.fitness import made_or_told, trouble_with, unfit
from agent_worker.agents.held_files import FilesOwner, put_back_after_kill
from agent_worker.agents.registry import AgentKit, AgentRuntime, LazyKit, Registry
from agent_worker.agents.terms import credential_of, holds, judge_of, limits_of
from agent_worker.core.address import WorkspaceName, canonical
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, Problem, Refused, StorageFault, Untrusted
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database, Transaction
from agent_worker.database.runtime_lock import ProjectLocks
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.guard import GuardModel
from agent_worker.definitions.loading import shown
from agent_worker.definitions.project_files import AGENTS, ProjectFiles
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.files.root import Root
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Ticker, Timer
from agent_worker.tools.toolbox import are_ours
from agent_worker.trust.allowances import of_project
from agent_worker.work import agent_rows, threads
from agent_worker.workspaces.log_files import CONVERSATIONS, LogFiles, Target, last_seq, last_talk

log = logging.getLogger(__name__)

RESTORED = 1000  # lines of a conversation that a new database takes from its files; older ones are only searched


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project whose agents can be written to."""

    id: str
    project: ProjectFiles
    agents: Mapping[str, str]  #: name → id
    quick: Mapping[str, AgentDefinition] = field(default_factory=dict)  #: agents without a file

    def definition(self, name: str) -> AgentDefinition:
        return self.quick[name] if name in self.quick else self.project.agents[name]

    def named(self, ref: str) -> str:
        """The agent that a workflow refers to, spelled as its own file spells it."""
        return canonical(ref, self.agents) or ref


@dataclass(frozen=True, slots=True)
class _Readied:
    """An agent that is being made ready, and how far the file of its conversation goes."""

    worker: AgentRuntime
    written: int = 0


class Loader:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        registry: Registry,
        log_files: LogFiles,
        backends: BackendFactory,
        locks: ProjectLocks,
        *,
        host: str = "",
    ) -> None:
        self._locks = locks
        self._host = host  # among those that share the database; '' when we are alone
        self._database = database
        self._clock = clock
        self._registry = registry
        self._log_files = log_files
        self._backends = backends
        self.ticker: Ticker | None = None

    async def load(
        self, project: ProjectFiles, quick: Mapping[str, AgentDefinition] | None = None, *, again: bool = False
    ) -> LoadedProject:
        """Everyone the files name, and the `quick` agents that only this process knows.

        Those whose definition is what it was are left alone, unless all are to be equipped `again`. Nothing of a
        project is touched before its lock is ours: raises InUse when another runtime works on it.
        """
        await asyncio.to_thread(self._locks.take, project.root)
        enrolled = await enrol(self._database, project, quick or {}, self._host, now=self._clock.micros())
        loaded = LoadedProject(enrolled.project, project, enrolled.agents, enrolled.quick)
        again = again or self._registry.root(loaded.id) not in (None, project.root)  # it was moved
        self._registry.keep_project(loaded.id, project)
        await self._backends.gate.look(project.root, loaded.id)
        left, held = await asyncio.to_thread(self._look_at, project)
        self._backends.keep_secret(project)
        await self._put_back_after_kill(loaded, left)
        for name, definition in loaded.quick.items():
            id = loaded.agents[name]
            if not self._registry.knows(id):
                self._registry.add(self._fitted(loaded, id, definition, held, has_home=False))
        changed = {
            name: definition
            for name, definition in project.agents.items()
            # Of one that is as it was, the backend, with script or session, goes on.
            if again or not self._registry.has(loaded.agents[name], definition)
        }
        unscheduled = await self._renew(loaded, changed, held)
        self._share_limit(loaded.id, holds(of_project(project), held))
        self._share_judge(loaded.id, project.definition.guard)
        await self._keep_workflow_schedules(loaded, unscheduled)
        return self._as_it_works(loaded)

    def _look_at(self, project: ProjectFiles) -> tuple[Collection[str], Held]:
        """The agents in whose run another process died, and limits that nobody has approved. Blocks."""
        self._backends.keys.look_at(project)
        return self._registry.journal.left(), self._backends.held_back(project, None)

    async def _put_back_after_kill(self, loaded: LoadedProject, left: Collection[str]) -> None:
        """Restore the files of agents in whose run another process died, before anybody reads them."""
        if left:
            root, agents = Root(loaded.project.root), loaded.project.agents
            owners = [
                FilesOwner(id, name, root.beneath(agents[name].personal_dir))
                for name, id in loaded.agents.items()
                if id in left and name in agents and not self._registry.knows(id)
            ]
            database = self._database.of(loaded.id)
            await put_back_after_kill(self._registry.journal, owners, database, now=self._clock.micros())

    async def _renew(self, loaded: LoadedProject, definitions: Mapping[str, AgentDefinition], held: Held) -> list[str]:
        """Register agents by these definitions. An agent that cannot be used by its new definition keeps the last good
        one, with what is wrong.

        Returns the schedules that they have no more. All together in each step, not one after the other: there may be
        thousands.
        """
        ready = await asyncio.to_thread(self._looked_at, loaded, definitions, held)
        ready = await self._with_conversations(loaded, ready)
        ready = await self._with_schedules(loaded, ready)
        unscheduled = []
        for each in ready:
            worker, before = each.worker, self._registry.own(each.worker.agent)
            if worker.trouble and before is not None and before.is_fit:
                worker = replace(before, trouble=worker.trouble, remedy=worker.remedy)
            self._registry.add(worker)
            if not worker.definition.schedule:
                unscheduled.append(schedule.id_of(worker.agent))
        return unscheduled

    def _looked_at(
        self, loaded: LoadedProject, definitions: Mapping[str, AgentDefinition], held: Held
    ) -> list[_Readied]:
        """Look at the folder and the tools of each agent, to see whether it can work. Blocks."""
        folders = _folders_in(loaded.project.root)
        found = []
        for name, definition in definitions.items():
            worker, written = self._fitted(loaded, loaded.agents[name], definition, held), 0
            try:
                if worker.is_fit and _may_be_there(definition, folders):
                    written = _look_into(worker)
                if worker.is_fit and not are_ours(definition):
                    with suppress(Untrusted):  # nothing is wrong with it: it waits for a person
                        worker.kit.get()
            except Exception as error:  # boundary: what is wrong with one agent is its own trouble
                worker = unfit(worker, trouble_with(name, error))
            found.append(_Readied(worker, written))
        return found

    async def _with_conversations(self, loaded: LoadedProject, ready: Iterable[_Readied]) -> list[_Readied]:
        """Keep the conversation files of these agents; one that its folder brought along is continued."""
        able = [(each, each.worker.home) for each in ready if each.worker.is_fit and each.worker.home is not None]
        for each, home in able:
            self._log_files.watch(Target(loaded.id, None, each.worker.agent), home, CONVERSATIONS, written=each.written)
        # After that: what is said from now on is heard.
        known = await self._database.of(loaded.id).read(threads.last_seqs, threads.PERSONAL) if able else {}
        for each, _ in able:
            said = known.get(each.worker.agent, 0)
            if said > each.written:
                self._log_files.catch_up(Target(loaded.id, None, each.worker.agent))
        return [
            await self._restored(each) if each.written > known.get(each.worker.agent, 0) else each for each in ready
        ]

    async def _restored(self, ready: _Readied) -> _Readied:
        worker = ready.worker
        try:
            assert worker.home is not None
            talk = await asyncio.to_thread(last_talk, worker.home, CONVERSATIONS, RESTORED)
            database = self._database.of(worker.project)
            await database.write(threads.restore, worker.agent, threads.PERSONAL, talk, seq=ready.written)
        except StorageFault:
            raise
        except Exception as error:  # boundary, as above
            return replace(ready, worker=unfit(worker, trouble_with(worker.name, error)))
        return ready

    async def _with_schedules(self, loaded: LoadedProject, ready: Iterable[_Readied]) -> list[_Readied]:
        keeping = {
            each.worker.agent: self._keep_schedule(each.worker, each.worker.definition.schedule)
            for each in ready
            if each.worker.is_fit and each.worker.definition.schedule
        }
        ended = dict(zip(keeping, await asyncio.gather(*keeping.values(), return_exceptions=True), strict=True))
        for wrong in ended.values():
            if isinstance(wrong, StorageFault) or (wrong is not None and not isinstance(wrong, Exception)):
                raise wrong
        return [
            replace(each, worker=unfit(each.worker, trouble_with(each.worker.name, wrong)))
            if isinstance(wrong := ended.get(each.worker.agent), Exception)
            else each
            for each in ready
        ]

    def _as_it_works(self, loaded: LoadedProject) -> LoadedProject:
        """The project with the definitions that are in use, and what is wrong with those that could not be used."""
        project = loaded.project
        workers = {name: self._registry.worker(loaded.agents[name]) for name in project.agents}
        wrong = [
            Problem(_written_in(project, name), 1, 1, "", worker.trouble)
            for name, worker in workers.items()
            if worker.trouble
        ]
        in_use = {name: worker.definition for name, worker in workers.items()}
        return replace(loaded, project=replace(project, agents=in_use, unusable=tuple(wrong)))

    def _share_limit(self, project: str, usd_per_day: float | None) -> None:
        """What a project may spend is in its own file, and holds for everyone, even where they are at work now."""
        self._registry.change(
            project, lambda worker: replace(worker, limits=replace(worker.limits, usd_per_project_day=usd_per_day))
        )

    def _share_judge(self, project: str, guard: GuardModel) -> None:
        """Tell each agent which model answers small questions for it outside of workflows; the file of a workflow may
        say so too."""
        self._registry.change(
            project,
            lambda worker: worker if worker.workspace_name else replace(worker, judge=judge_of(worker, guard)),
        )

    async def add_members(
        self,
        loaded: LoadedProject,
        workflow: WorkflowDefinition,
        workspace: str,
        workspace_name: str,
        notes: Mapping[str, str],
        working_copies: Mapping[str, Path],
    ) -> dict[str, str]:
        """Attach the members of a workflow to its workspace, some with a checkout of their own. Name → id."""
        members_in: dict[str, str] = {}
        held = await asyncio.to_thread(self._backends.held_back, loaded.project, workflow)
        for name, member in workflow.agents.items():
            if isinstance(member, RefMember):
                worker = self._as_member(loaded, member, workflow, held, working_copies.get(name))
            else:
                database = self._database.of(loaded.id)
                agent = await database.write(agent_rows.enrol, name=name, kind="inline", home=workspace)
                definition = member.as_agent(name)
                who, copy = f"{name}@{workflow.name}", working_copies.get(name)
                worker = self._fitted(loaded, agent, definition, held, workflow, copy, has_home=False, who=who)
            worker = replace(
                worker,
                name=name,
                workspace_name=workspace_name,
                knows_workspace=workflow.workspace is not False,
                note=notes.get(name, ""),
            )
            guard = workflow.guard if workflow.guard.model else loaded.project.definition.guard
            self._registry.add(replace(worker, judge=judge_of(worker, guard)), workspace=workspace)
            members_in[name] = worker.agent
        await self._database.of(loaded.id).write(
            schedule.give_members,
            workspace,
            WorkspaceName.parse(workspace_name),
            members_in,
            workflow.member_schedules,
            now=self._clock.now(),
        )
        if self.ticker:
            self.ticker.look_again()
        return members_in

    def _as_member(
        self, loaded: LoadedProject, member: RefMember, workflow: WorkflowDefinition, held: Held, checkout: Path | None
    ) -> AgentRuntime:
        """A project agent as it works in this workflow."""
        own = self._registry.worker(loaded.agents[loaded.named(member.ref)])
        guard = workflow.guard
        definition = member.applied_to(own.definition).within(
            guard.soul_evolution, learns=guard.auto_store, model=guard.model
        )
        if member.backend or member.model or checkout or (member.script and definition.backend == "mock"):
            return self._fitted(loaded, own.agent, definition, held, workflow, checkout)
        # The very backend it has by itself: its script or session goes on.
        limits = limits_of(definition, loaded.project, workflow, held)
        learning = definition.auto_memory.model if definition.auto_memory else None
        key = credential_of(definition, learning, own.root) or own.learning_credential
        return replace(own, definition=definition, limits=limits, learning_credential=key)

    def _fitted(
        self,
        loaded: LoadedProject,
        agent: str,
        definition: AgentDefinition,
        held: Held,
        workflow: WorkflowDefinition | None = None,
        checkout: Path | None = None,
        *,
        has_home: bool = True,
        who: str = "",
    ) -> AgentRuntime:
        """Make an agent ready to work, or able to say why it is not: the others work, and who writes to it is told."""
        project, cwd = loaded.project, (checkout or loaded.project.root) / definition.cwd

        def make() -> AgentKit:
            printed = project.printed_variables.union(workflow.env if workflow else ())
            return self._backends.make_kit(definition, project.root, cwd, has_home=has_home, who=who, printed=printed)

        own = definition.model if definition.backend == "sdk" else None
        learning = definition.auto_memory.model or own if definition.auto_memory else None
        worker = AgentRuntime(
            agent=agent,
            name=definition.name,
            project=loaded.id,
            definition=definition,
            kit=LazyKit(partial(made_or_told, who or definition.name, make)),
            limits=limits_of(definition, project, workflow, held),
            cwd=cwd,
            own_copy=checkout is not None,
            root=project.root,
            credential=credential_of(definition, own, project.root),
            learning_credential=credential_of(definition, learning, project.root),
            lacks_key=self._backends.lacks_key(definition, project.root),
        )
        if definition.requires and not self._host:
            told = f"{definition.name} requires {', '.join(definition.requires)}, and here agents work on one machine"
            return unfit(worker, Refused(told, hint="remove requires; or let several daemons share a PostgreSQL"))
        if definition.context.store == "database" and not self._host:
            told = f"{definition.name} keeps its folder in the database (context.store), which needs PostgreSQL"
            return unfit(worker, Refused(told, hint="remove store: the folder is files"))
        try:
            home = Root(project.root).beneath(definition.personal_dir) if has_home else None
            return replace(worker, home=home, library=self._registry.library_of(agent, definition.name, home))
        except AgentWorkerError as error:
            return unfit(worker, error)

    async def _keep_schedule(self, worker: AgentRuntime, wanted: Schedule) -> None:
        timer = Timer(wanted, agent=worker.agent)
        await self._database.of(worker.project).write(schedule.keep, timer, now=self._clock.now())
        if self.ticker:
            self.ticker.look_again()

    async def _keep_workflow_schedules(self, loaded: LoadedProject, others_gone: Sequence[str]) -> None:
        """Those of workflows as their files say; `others_gone` are schedules of agents that have none any more."""
        wanted = {name: flow.schedule for name, flow in loaded.project.workflows.items() if flow.schedule}
        await self._database.of(loaded.id).write(_keep_schedules, wanted, others_gone, now=self._clock.now())
        if wanted and self.ticker:
            self.ticker.look_again()


def _written_in(project: ProjectFiles, agent: str) -> str:
    """The file of an agent, as messages name it; an agent that a program passed in has none."""
    return shown(project.agent_files[agent], project.root) if agent in project.agent_files else f"agent {agent}"


def _folders_in(root: Path) -> set[str] | None:
    """What there is where agents have their folders, in small letters; None when that cannot be seen."""
    try:
        return {entry.name.lower() for entry in Root(root).list(AGENTS)}
    except (AgentWorkerError, OSError):
        return None


def _may_be_there(definition: AgentDefinition, folders: Collection[str] | None) -> bool:
    """Could the agent have a folder, by what there is? Most of many have never worked, and have none."""
    return definition.context.dir is not None or folders is None or definition.name.lower() in folders


def _look_into(worker: AgentRuntime) -> int:
    """Tidy up what a crash left in an agent's folder, such as half a memory file; how far its conversation goes."""
    assert worker.home is not None
    if worker.home.is_there:
        for kept in worker.home.sweep():
            log.warning("%s: a file was edited while it was written; the other version is %s", worker.name, kept)
    return last_seq(worker.home, CONVERSATIONS, dated=True)


def _keep_schedules(
    tx: Transaction, wanted: Mapping[str, WorkflowSchedule], gone: Iterable[str], *, now: datetime
) -> None:
    for id in gone:
        schedule.clear(tx, id)
    schedule.keep_workflows(tx, wanted, now=now)
