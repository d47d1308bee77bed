"""Brings definitions to life: an id in the database, a worker in the registry, a schedule, a log.

What a project's files say is loaded here, again after each change; agents of a workflow are added to its
workspace, on top of what they are by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from agent_worker.agents import deletion
from agent_worker.agents.backend_factory import BackendFactory, Held
from agent_worker.agents.registry import AgentRuntime, Registry
from agent_worker.backends.backend import UnavailableBackend
from agent_worker.core.address import canonical
from agent_worker.core.clock import Clock
from agent_worker.core.errors import AgentWorkerError, BadInput, Problem, Refused, StorageFault, Untrusted, trouble_of
from agent_worker.core.ids import new_id
from agent_worker.database.database import Database, Transaction, WholeTransaction
from agent_worker.database.runtime_lock import ProjectLocks
from agent_worker.definitions.agent import AgentDefinition, split_model
from agent_worker.definitions.loading import shown
from agent_worker.definitions.project import ProjectFiles
from agent_worker.definitions.schedule import Schedule
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.files.root import Root
from agent_worker.memory.library import Library
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Ticker, Timer
from agent_worker.trust.allowances import Allowance, of_agent, of_project, of_workflow
from agent_worker.work import agent_rows, threads
from agent_worker.work.limits import WorkLimits
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


class Loader:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        registry: Registry,
        log_files: LogFiles,
        backends: BackendFactory,
        locks: ProjectLocks,
    ) -> None:
        self._locks = locks
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
        loaded = await self._database.write(_enrol_all, project, quick or {}, now=self._clock.micros())
        self._registry.keep_project(loaded.id, project)
        held = await asyncio.to_thread(self._backends.held_back, project, None)
        for name, definition in loaded.quick.items():
            id = loaded.agents[name]
            if not self._registry.knows(id):
                self._registry.add(await self._fitted(loaded, id, definition, held, has_home=False))
        unscheduled = []
        for name, definition in project.agents.items():
            if not again and self._registry.has(loaded.agents[name], definition):
                continue  # its backend, with script or session, goes on
            worker = await self._renewed(loaded, loaded.agents[name], definition, held)
            self._registry.add(worker)
            if not worker.definition.schedule:
                unscheduled.append(schedule.id_of(worker.agent))
        if unscheduled:  # at once: a commit for each of a thousand takes seconds
            await self._database.of(loaded.id).write(_clear_all, unscheduled)
        self._share_limit(loaded.id, _holds(of_project(project), held))
        await self._keep_workflow_schedules(loaded)
        return self._as_it_works(loaded)

    async def _renewed(
        self, loaded: LoadedProject, agent: str, definition: AgentDefinition, held: Held
    ) -> AgentRuntime:
        """The agent by this definition; by the last good one if that cannot be used, with what is wrong."""
        worker = await self._fitted(loaded, agent, definition, held)
        try:
            if worker.is_fit:
                await self._watch(worker)
                if definition.schedule:
                    await self._keep_schedule(worker, definition.schedule)
        except StorageFault:
            raise
        except Exception as error:  # boundary: what is wrong with one agent is its own trouble
            worker = _unfit(worker, trouble_with(definition.name, error))
        before = self._registry.own(agent)
        if worker.trouble and before is not None and not isinstance(before.backend, UnavailableBackend):
            return replace(before, trouble=worker.trouble)
        return worker

    def _as_it_works(self, loaded: LoadedProject) -> LoadedProject:
        """With the definitions that are in use, and what is wrong with those that could not be."""
        project = loaded.project
        workers = {name: self._registry.worker(loaded.agents[name]) for name in project.agents}
        wrong = [
            Problem(shown(project.agent_files[name], project.root), 1, 1, "", worker.trouble)
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
                worker = await self._as_member(loaded, member, workflow, held, working_copies.get(name))
            else:
                database = self._database.of(loaded.id)
                agent = await database.write(agent_rows.enrol, name=name, kind="inline", home=workspace)
                definition = member.as_agent(name)
                who, copy = f"{name}@{workflow.name}", working_copies.get(name)
                worker = await self._fitted(loaded, agent, definition, held, workflow, copy, has_home=False, who=who)
            self._registry.add(
                replace(worker, name=name, workspace_name=workspace_name, note=notes.get(name, "")), workspace=workspace
            )
            members_in[name] = worker.agent
            if member.schedule:
                await self._keep_schedule(
                    worker, member.schedule.model_copy(update={"workspace": workspace_name}), instance=workspace
                )
        return members_in

    async def _as_member(
        self, loaded: LoadedProject, member: RefMember, workflow: WorkflowDefinition, held: Held, checkout: Path | None
    ) -> AgentRuntime:
        """A project agent as it works in this workflow."""
        own = self._registry.worker(loaded.agents[loaded.named(member.ref)])
        definition = member.applied_to(own.definition)
        if member.backend or member.model or checkout or (member.script and definition.backend == "mock"):
            return await self._fitted(loaded, own.agent, definition, held, workflow, checkout)
        # The very backend it has by itself: its script or session goes on.
        return replace(own, definition=definition, limits=limits_of(definition, loaded.project, workflow, held))

    async def _fitted(
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
        """Ready to work, or able to say why not: the others work, and whoever writes to this one is told."""
        project = loaded.project
        worker = AgentRuntime(
            agent=agent,
            name=definition.name,
            project=loaded.id,
            definition=definition,
            backend=UnavailableBackend(BadInput("it is not ready yet")),
            limits=limits_of(definition, project, workflow, held),
            cwd=(checkout or project.root) / definition.cwd,
            own_copy=checkout is not None,
            credential=credential_of(definition),
        )
        try:
            home = Root(project.root).beneath(definition.personal_dir) if has_home else None
            worker = replace(worker, home=home, library=Library(home, definition.name))
            printed = project.printed_variables.union(workflow.env if workflow else ())
            make_kit = partial(self._backends.make_kit, has_home=has_home, who=who, printed=printed)
            kit = await asyncio.to_thread(make_kit, definition, project.root, worker.cwd)
        except Untrusted as error:  # nothing is wrong with it: it waits for a person
            return replace(worker, backend=UnavailableBackend(error))
        except Exception as error:  # boundary: what is wrong with one agent is its own trouble
            return _unfit(worker, trouble_with(who or definition.name, error))
        return replace(
            worker,
            backend=kit.backend,
            tools=kit.tools,
            more_tools=kit.more_tools,
            learner=kit.learner,
        )

    async def _watch(self, worker: AgentRuntime) -> None:
        """Keep its conversation file; a folder that came with a history of its own is gone on with."""
        if worker.home is None:
            return
        if worker.home.is_there:
            await asyncio.to_thread(self._tidy, worker, worker.home)
        seq = await asyncio.to_thread(last_seq, worker.home, CONVERSATIONS, dated=True)
        database = self._database.of(worker.project)
        if seq and seq > await database.read(threads.last_seq, worker.agent, threads.PERSONAL):
            talk = await asyncio.to_thread(last_talk, worker.home, CONVERSATIONS, RESTORED)
            await database.write(threads.restore, worker.agent, threads.PERSONAL, talk, seq=seq)
        self._log_files.watch(Target(worker.project, None, worker.agent), worker.home, CONVERSATIONS, written=seq)

    @staticmethod
    def _tidy(worker: AgentRuntime, home: Root) -> None:
        """What a crash left in its folder, such as a page of its memory that was half written."""
        for kept in home.sweep():
            log.warning("%s: a file was edited while it was written; the other version is %s", worker.name, kept)

    async def _keep_schedule(self, worker: AgentRuntime, wanted: Schedule, *, instance: str = "") -> None:
        timer = Timer(wanted, agent=worker.agent, instance=instance)
        await self._database.of(worker.project).write(schedule.keep, timer, now=self._clock.now())
        if self.ticker:
            self.ticker.look_again()

    async def _keep_workflow_schedules(self, loaded: LoadedProject) -> None:
        wanted = {name: flow.schedule for name, flow in loaded.project.workflows.items() if flow.schedule}
        await self._database.of(loaded.id).write(schedule.keep_workflows, wanted, now=self._clock.now())
        if wanted and self.ticker:
            self.ticker.look_again()


def _enrol_all(
    whole: WholeTransaction, project: ProjectFiles, quick: Mapping[str, AgentDefinition], *, now: int
) -> LoadedProject:
    id = agent_rows.enrol_project(whole, root=str(project.root), name=project.definition.name)
    tx = whole.of(id)
    quick = {name: definition for name, definition in quick.items() if name not in project.agents}
    for name in project.agents:
        before = agent_rows.known(tx, name)
        if before is not None and before["kind"] == "ephemeral":  # whoever has a file now is somebody else
            deletion.cancel_all(tx, before["id"], now=now)
            deletion.erase(tx, before, now=now)
    agents = {name: agent_rows.enrol(tx, name=name) for name in project.agents}
    agents |= {name: agent_rows.enrol(tx, name=name, kind="ephemeral") for name in quick}
    return LoadedProject(id, project, agents, quick)


def _clear_all(tx: Transaction, schedules: Iterable[str]) -> None:
    for id in schedules:
        schedule.clear(tx, id)


def trouble_with(name: str, error: Exception) -> AgentWorkerError:
    """What a person is told when an agent cannot be made ready. One that we did not expect is logged, with a number."""
    if isinstance(error, AgentWorkerError):
        return error
    if isinstance(error, OSError) and (told := trouble_of(error)):
        return told
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return Refused(f"{where}{error.strerror or error}", hint="agent-worker doctor")
    id = new_id("e")
    log.error("agent %s cannot be made ready: %s", name, id, exc_info=error)
    return Refused(f"this should not have happened: {id}", hint="agent-worker daemon logs")


def _unfit(worker: AgentRuntime, why: AgentWorkerError) -> AgentRuntime:
    trouble = f"{why.message} ({why.hint})" if why.hint else why.message
    return replace(
        worker, backend=UnavailableBackend(why), tools=(), more_tools=None, learner=None, trouble=trouble, is_fit=False
    )


def limits_of(
    agent: AgentDefinition,
    project: ProjectFiles,
    workflow: WorkflowDefinition | None = None,
    held: Held = MappingProxyType({}),
) -> WorkLimits:
    """The defaults, with what the three files say on top, where that is not held back."""
    limits = replace(
        WorkLimits(),
        usd_per_agent_day=_holds(of_agent(agent), held),
        usd_per_project_day=_holds(of_project(project), held),
    )
    if workflow is None:
        return limits
    holds = {(each.of, each.name): _holds(each, held) for each in of_workflow(workflow)}
    turns = holds[workflow.name, "turns"]
    return replace(
        limits,
        runs_per_root=None if turns is None else int(turns),
        usd_per_root=holds[workflow.name, "usd"],
        usd_per_agent_day=holds.get((f"{agent.name}@{workflow.name}", "usd_per_day"), limits.usd_per_agent_day),
    )


def _holds(allowance: Allowance, held: Held) -> float | None:
    """The number that holds for this limit; None when the limit is off."""
    value = held.get((allowance.of, allowance.name), allowance.value)
    return None if math.isinf(value) else value


def credential_of(definition: AgentDefinition) -> str:
    """Names the key of an agent: agents that share a key share its rate limit."""
    if definition.backend != "sdk":
        return ""
    provider = definition.provider
    if provider is not None:
        return f"{provider.name}|{provider.base_url or ''}|{provider.api_key or ''}"
    return split_model(definition.model or "")[0] or ""
