"""Brings definitions to life: an id in the database, a worker in the registry, a schedule, a log.

What a project's files say is admitted here, again after each change; agents of a workflow are seated in its
workspace, on top of what they are by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from agent_worker import identities, threads
from agent_worker.address import canonical
from agent_worker.agents import leaving, schedule
from agent_worker.agents.registry import MoreTools, Registry, Worker
from agent_worker.agents.schedule import Ticker, Timer
from agent_worker.backends.backend import Backend, Model
from agent_worker.backends.unfit import Unfit
from agent_worker.clock import Clock, micros
from agent_worker.definitions.agent import AgentDefinition, split_model
from agent_worker.definitions.loading import shown
from agent_worker.definitions.project import Project
from agent_worker.definitions.schedule import Schedule
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.errors import AgentWorkerError, BadInput, Problem, Refused, StorageFault, Untrusted
from agent_worker.guard.library import Library
from agent_worker.ids import new_id
from agent_worker.limits import Limits
from agent_worker.mirror import CONVERSATIONS, Mirror, Target, last_seq, last_talk
from agent_worker.storage.database import Database, Transaction
from agent_worker.storage.disk import trouble_of
from agent_worker.storage.engine_lock import ProjectLocks
from agent_worker.storage.files import Root
from agent_worker.tools.tool import Tool
from agent_worker.trust.allowances import Allowance, of_agent, of_project, of_workflow

log = logging.getLogger(__name__)

RESTORED = 1000  # lines of a conversation that a new database takes from its files; older ones are only searched


#: Limits that a file raised and nobody has approved: whose and which, and the number that holds instead.
Held = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Equipment:
    """What an agent works with."""

    backend: Backend
    tools: tuple[Tool, ...] = ()
    learner: Model | None = None  #: draws from a run what is worth remembering; None: nothing does
    more_tools: MoreTools | None = None


class Outfitter(Protocol):
    """Says what an agent may have. Both block."""

    def equip(
        self,
        definition: AgentDefinition,
        root: Path,
        cwd: Path,
        *,
        has_home: bool,
        who: str = "",
        printed: Collection[str] = (),
    ) -> Equipment:
        """`printed` are variables whose values are meant to be read: they are no secrets."""
        ...

    def held_back(self, project: Project, workflow: WorkflowDefinition | None) -> Held: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """A project whose agents can be written to."""

    id: str
    project: Project
    agents: Mapping[str, str]  #: name → id
    quick: Mapping[str, AgentDefinition] = field(default_factory=dict)  #: agents without a file

    def definition(self, name: str) -> AgentDefinition:
        return self.quick[name] if name in self.quick else self.project.agents[name]

    def named(self, ref: str) -> str:
        """The agent that a workflow refers to, as it writes itself."""
        return canonical(ref, self.agents) or ref


class Roster:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        registry: Registry,
        mirror: Mirror,
        outfitter: Outfitter,
        locks: ProjectLocks,
    ) -> None:
        self._locks = locks
        self._database = database
        self._clock = clock
        self._registry = registry
        self._mirror = mirror
        self._outfitter = outfitter
        self.ticker: Ticker | None = None

    async def admit(
        self, project: Project, quick: Mapping[str, AgentDefinition] | None = None, *, again: bool = False
    ) -> Admitted:
        """Everyone the files name, and the `quick` agents that only this process knows.

        Those whose definition is what it was are left alone, unless all are to be equipped `again`. Nothing of a
        project is touched before its lock is ours: raises InUse when another engine works on it.
        """
        await asyncio.to_thread(self._locks.take, project.root)
        admitted = await self._database.write(_enrol_all, project, quick or {}, now=micros(self._clock.now()))
        self._registry.keep_project(admitted.id, project)
        held = await asyncio.to_thread(self._outfitter.held_back, project, None)
        for name, definition in admitted.quick.items():
            id = admitted.agents[name]
            if not self._registry.knows(id):
                self._registry.add(await self._fitted(admitted, id, definition, held, has_home=False))
        unscheduled = []
        for name, definition in project.agents.items():
            if not again and self._registry.has(admitted.agents[name], definition):
                continue  # its backend, with script or session, goes on
            worker = await self._renewed(admitted, admitted.agents[name], definition, held)
            self._registry.add(worker)
            if not worker.definition.schedule:
                unscheduled.append(schedule.id_of(admitted.id, worker.agent))
        if unscheduled:  # at once: a commit for each of a thousand takes seconds
            await self._database.write(_clear_all, unscheduled)
        self._share_limit(admitted.id, _holds(of_project(project), held))
        await self._keep_workflow_schedules(admitted)
        return self._as_it_works(admitted)

    async def _renewed(self, admitted: Admitted, agent: str, definition: AgentDefinition, held: Held) -> Worker:
        """The agent by this definition; by the last good one if that cannot be used, with what is wrong."""
        worker = await self._fitted(admitted, agent, definition, held)
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
        if worker.trouble and before is not None and not isinstance(before.backend, Unfit):
            return replace(before, trouble=worker.trouble)
        return worker

    def _as_it_works(self, admitted: Admitted) -> Admitted:
        """With the definitions that are in use, and what is wrong with those that could not be."""
        project = admitted.project
        workers = {name: self._registry.worker(admitted.agents[name]) for name in project.agents}
        wrong = [
            Problem(shown(project.agent_files[name], project.root), 1, 1, "", worker.trouble)
            for name, worker in workers.items()
            if worker.trouble
        ]
        in_use = {name: worker.definition for name, worker in workers.items()}
        return replace(admitted, project=replace(project, agents=in_use, unusable=tuple(wrong)))

    def _share_limit(self, project: str, usd_per_day: float | None) -> None:
        """What a project may spend is written in its own file, and holds for everyone, also where they work now."""
        self._registry.change(
            project, lambda worker: replace(worker, limits=replace(worker.limits, usd_per_project_day=usd_per_day))
        )

    async def seat(
        self,
        admitted: Admitted,
        workflow: WorkflowDefinition,
        room: str,
        place: str,
        notes: Mapping[str, str],
        checkouts: Mapping[str, Path],
    ) -> dict[str, str]:
        """Attach the members of a workflow to its workspace, some with a checkout of their own. Name → id."""
        seated: dict[str, str] = {}
        held = await asyncio.to_thread(self._outfitter.held_back, admitted.project, workflow)
        for name, member in workflow.agents.items():
            if isinstance(member, RefMember):
                worker = await self._as_member(admitted, member, workflow, held, checkouts.get(name))
            else:
                agent = await self._database.write(
                    identities.enrol, project=admitted.id, name=name, kind="inline", home=room
                )
                definition = member.as_agent(name)
                who, copy = f"{name}@{workflow.name}", checkouts.get(name)
                worker = await self._fitted(admitted, agent, definition, held, workflow, copy, has_home=False, who=who)
            self._registry.add(replace(worker, name=name, place=place, note=notes.get(name, "")), workspace=room)
            seated[name] = worker.agent
            if member.schedule:
                await self._keep_schedule(worker, member.schedule.model_copy(update={"workspace": place}), room=room)
        return seated

    async def _as_member(
        self, admitted: Admitted, member: RefMember, workflow: WorkflowDefinition, held: Held, checkout: Path | None
    ) -> Worker:
        """A project agent as it works in this workflow."""
        own = self._registry.worker(admitted.agents[admitted.named(member.ref)])
        definition = member.applied_to(own.definition)
        if member.backend or member.model or checkout:
            return await self._fitted(admitted, own.agent, definition, held, workflow, checkout)
        # The very backend it has by itself: its script or session goes on.
        return replace(own, definition=definition, limits=limits_of(definition, admitted.project, workflow, held))

    async def _fitted(
        self,
        admitted: Admitted,
        agent: str,
        definition: AgentDefinition,
        held: Held,
        workflow: WorkflowDefinition | None = None,
        checkout: Path | None = None,
        *,
        has_home: bool = True,
        who: str = "",
    ) -> Worker:
        """Ready to work, or able to say why not: the others work, and whoever writes to this one is told."""
        project = admitted.project
        worker = Worker(
            agent=agent,
            name=definition.name,
            project=admitted.id,
            definition=definition,
            backend=Unfit(BadInput("it is not equipped yet")),
            limits=limits_of(definition, project, workflow, held),
            cwd=(checkout or project.root) / definition.cwd,
            own_copy=checkout is not None,
            credential=credential_of(definition),
        )
        try:
            home = Root(project.root).beneath(definition.personal_dir) if has_home else None
            worker = replace(worker, home=home, library=Library(home, definition.name))
            printed = project.printed_variables.union(workflow.env if workflow else ())
            equip = partial(self._outfitter.equip, has_home=has_home, who=who, printed=printed)
            equipment = await asyncio.to_thread(equip, definition, project.root, worker.cwd)
        except Untrusted as error:  # nothing is wrong with it: it waits for a person
            return replace(worker, backend=Unfit(error))
        except Exception as error:  # boundary: what is wrong with one agent is its own trouble
            return _unfit(worker, trouble_with(who or definition.name, error))
        return replace(
            worker,
            backend=equipment.backend,
            tools=equipment.tools,
            more_tools=equipment.more_tools,
            learner=equipment.learner,
        )

    async def _watch(self, worker: Worker) -> None:
        """Keep its conversation file; a folder that came with a history of its own is gone on with."""
        if worker.home is None:
            return
        if worker.home.is_there:
            await asyncio.to_thread(self._tidy, worker, worker.home)
        seq = await asyncio.to_thread(last_seq, worker.home, CONVERSATIONS, dated=True)
        if seq and seq > await self._database.read(threads.last_seq, worker.agent, threads.PERSONAL):
            talk = await asyncio.to_thread(last_talk, worker.home, CONVERSATIONS, RESTORED)
            await self._database.write(threads.restore, worker.agent, threads.PERSONAL, talk, seq=seq)
        self._mirror.watch(Target(None, worker.agent), worker.home, CONVERSATIONS, written=seq)

    @staticmethod
    def _tidy(worker: Worker, home: Root) -> None:
        """What a crash left in its folder, such as a page of its memory that was half written."""
        for kept in home.sweep():
            log.warning("%s: a file was edited while it was written; the other version is %s", worker.name, kept)

    async def _keep_schedule(self, worker: Worker, wanted: Schedule, *, room: str = "") -> None:
        timer = Timer(worker.project, wanted, agent=worker.agent, room=room)
        await self._database.write(schedule.keep, timer, now=self._clock.now())
        if self.ticker:
            self.ticker.look_again()

    async def _keep_workflow_schedules(self, admitted: Admitted) -> None:
        wanted = {name: flow.schedule for name, flow in admitted.project.workflows.items() if flow.schedule}
        await self._database.write(schedule.keep_workflows, admitted.id, wanted, now=self._clock.now())
        if wanted and self.ticker:
            self.ticker.look_again()


def _enrol_all(tx: Transaction, project: Project, quick: Mapping[str, AgentDefinition], *, now: int) -> Admitted:
    id = identities.enrol_project(tx, root=str(project.root), name=project.definition.name)
    quick = {name: definition for name, definition in quick.items() if name not in project.agents}
    for name in project.agents:
        before = identities.known(tx, project=id, name=name)
        if before is not None and before["kind"] == "ephemeral":  # whoever has a file now is somebody else
            leaving.cancel_all(tx, before["id"], now=now)
            leaving.erase(tx, before, now=now)
    agents = {name: identities.enrol(tx, project=id, name=name) for name in project.agents}
    agents |= {name: identities.enrol(tx, project=id, name=name, kind="ephemeral") for name in quick}
    return Admitted(id, project, agents, quick)


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


def _unfit(worker: Worker, why: AgentWorkerError) -> Worker:
    trouble = f"{why.message} ({why.hint})" if why.hint else why.message
    return replace(worker, backend=Unfit(why), tools=(), more_tools=None, learner=None, trouble=trouble, is_fit=False)


def limits_of(
    agent: AgentDefinition,
    project: Project,
    workflow: WorkflowDefinition | None = None,
    held: Held = MappingProxyType({}),
) -> Limits:
    """The defaults, with what the three files say on top, where that is not held back."""
    limits = replace(
        Limits(),
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
    """None: it is off."""
    value = held.get((allowance.of, allowance.name), allowance.value)
    return None if math.isinf(value) else value


def credential_of(definition: AgentDefinition) -> str:
    """Agents that share a key share its rate limit."""
    if definition.backend != "sdk":
        return ""
    provider = definition.provider
    if provider is not None:
        return f"{provider.name}|{provider.base_url or ''}|{provider.api_key or ''}"
    return split_model(definition.model or "")[0] or ""
