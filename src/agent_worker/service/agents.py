"""Agents: who there is, what each is doing, and whether it may work."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from agent_worker.agents import commands
from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.waiting import Waiting, state_of
from agent_worker.core.address import Address, canonical
from agent_worker.core.errors import AgentWorkerError, BadInput, Problem
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.problems import in_lines
from agent_worker.identity.soul import look
from agent_worker.memory import memory, notes, todos
from agent_worker.service.learned import Judged, Learned, judged_lately, learned_lately
from agent_worker.service.messages import agent_id, last_words
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import agent_rows, limits
from agent_worker.workspaces import member_rows, workspace_rows


@dataclass(frozen=True, slots=True)
class AgentView:
    name: str
    state: str  #: idle | running | waiting | stopped | error | paused | broken (its file)
    reason: str
    backend: str
    model: str
    queued: int
    usd_today: float
    estimated: bool = False  #: that money rests on a guess: of a price, or of how many tokens it were
    kind: str = "project"
    file: str = ""
    unsafe: str = ""  #: what it may do that nothing holds it back from
    found: str = ""  #: said once, when it was made: the folder of an earlier agent that it takes over
    label: str = ""  #: U reads what others wrote, S reaches what is sensitive, X changes things or reaches out
    waiting: Waiting | None = None  #: for what, if it has work and waits
    remedy: str = ""  #: what mends its reason: resume, approve, start, key NAME, install PROGRAM, edit FILE:LINE


@dataclass(frozen=True, slots=True)
class Work:
    """One instruction of an agent."""

    id: str
    lane: str
    state: str
    source: str
    text: str
    sender: str
    workspace: str | None
    queued_at: int = 0
    not_before: int | None = None  #: when it is tried again, after a failure


@dataclass(frozen=True, slots=True)
class Kept:
    """How much an agent keeps in its own files."""

    memories: dict[str, int] = field(default_factory=dict)  #: by file
    notes: int = 0
    todos: int = 0  #: that are open
    done: int = 0


@dataclass(frozen=True, slots=True)
class AgentDetail:
    agent: AgentView
    soul: dict[str, Any]
    directory: str
    queue: list[Work]
    thread: list[str]
    prompt: str = ""  #: who it is told to be
    works_in: list[str] = field(default_factory=list)  #: the workspaces it is a member of now, as @workflow:tag
    limits: dict[str, Any] = field(default_factory=dict)  #: those that its file sets
    keeps: Kept | None = None  #: in its folder; None if it has none
    learned: Learned | None = None  #: by itself, lately; None if it has no folder
    judged: Judged | None = None  #: about it by a model, lately; None where rules decide


LANES = ("immediate", "normal", "background")


@operation("GET", "/agents", tool="agents_list")
async def agents_list(service: Service, project: str | None = None) -> list[AgentView]:
    """Every agent of a project, with its state and what it spent today."""
    loaded = await service.project(project)
    rows = await service.read(loaded, _states, day=limits.day_of(service.now()))
    waits = await service.waits(loaded)
    found = [_agent(service, loaded, row, waits) for row in rows if row["name"] in loaded.agents]
    return sorted((*found, *(_broken(loaded, name) for name in loaded.project.broken)), key=lambda a: a.name)


@operation("GET", "/agents/{name}")
async def agent_info(service: Service, name: str, project: str | None = None) -> AgentDetail:
    """One agent: state, queue by lane, soul, last words."""
    loaded = await service.project(project)
    if canonical(name, loaded.agents) is None and (broken := canonical(name, loaded.project.broken)) is not None:
        return AgentDetail(_broken(loaded, broken), {}, "", [], [])
    id = agent_id(loaded, name)
    day = limits.day_of(service.now())
    row = next(r for r in await service.read(loaded, _states, day=day) if r["id"] == id)
    queue = await service.read(loaded, queue_of, id)
    talk = await service.read(loaded, last_words, id, 10)
    definition = loaded.definition(row["name"])
    return AgentDetail(
        agent=_agent(service, loaded, row, await service.waits(loaded)),
        soul=await asyncio.to_thread(_soul, service.runtime.registry.own(id), definition),
        directory="" if row["name"] in loaded.quick else str(loaded.project.root / definition.personal_dir),
        queue=queue,
        thread=[f"{t.who}: {t.text}" for t in talk],
        prompt=definition.system,
        works_in=[f"@{workspace_rows.name_of(w)}" for w in await service.read(loaded, workspace_rows.at_work_with, id)],
        limits=definition.limits.model_dump(mode="json", exclude_none=True),
        keeps=await asyncio.to_thread(_kept, service.runtime.registry.own(id)),
        learned=await learned_lately(service, loaded, service.runtime.registry.own(id)),
        judged=await judged_lately(service, loaded, service.runtime.registry.own(id)),
    )


def _soul(worker: AgentRuntime | None, definition: AgentDefinition) -> dict[str, Any]:
    """Who an agent is by now; if its own files cannot be read, who its definition says it is."""
    try:
        return look(worker.home, definition.soul).spoken if worker and worker.home else definition.soul.record()
    except (AgentWorkerError, OSError):
        return definition.soul.record()


def _kept(worker: AgentRuntime | None) -> Kept | None:
    if worker is None or worker.home is None:
        return None
    try:
        entries = memory.load(worker.home).entries
        items = todos.load(worker.home)
        done = sum(item.done for item in items)
        return Kept(dict(Counter(e.file for e in entries)), len(notes.names(worker.home)), len(items) - done, done)
    except (AgentWorkerError, OSError):  # a folder that cannot be read is told where it is used
        return None


@operation("POST", "/agents/{name}/{action}")
async def agent_set(
    service: Service, name: str, action: Literal["pause", "resume", "start", "stop"], project: str | None = None
) -> AgentView:
    """Pause or stop an agent; resume or start it, whatever held it, with a new allowance if a limit did.

    `name` may also be a member of a running workflow, `alice@review`: then it is about its work there.
    """
    loaded = await service.project(project)
    if "@" in name:
        return await _set_member(service, loaded, await service.address(loaded, name), action)
    id = agent_id(loaded, name)
    database = service.database(loaded)
    match action:
        case "pause":
            await database.write(agent_rows.pause, id, "paused by a person")
        case "resume" | "start":
            await database.write(_let_go_on, id, now=service.now())
        case "stop":
            await service.runtime.supervisor.dismiss(id)
            await database.write(agent_rows.set_state, id, "stopped", reason="stopped by a person")
    service.runtime.supervisor.wake(id)
    return (await agent_info(service, name, project=str(loaded.project.root))).agent


async def _set_member(service: Service, loaded: LoadedProject, member: Address, action: str) -> AgentView:
    """Stop or start one member of an instance: its work there waits, or goes on."""
    if member.agent is None or member.workspace is None:
        meant = str(member.workspace) if action == "start" else str(member)
        raise BadInput(f"{member} is a workflow, not an agent", hint=f"agent-worker {action} {meant}")
    database, supervisor = service.database(loaded), service.runtime.supervisor
    workspace = await database.read(workspace_rows.find_running, member.workspace)
    row = await database.read(member_rows.member_called, workspace["id"], member.agent)
    away: Literal["", "paused", "stopped"] = ""
    if action in ("pause", "stop"):
        away = "paused" if action == "pause" else "stopped"
    elif row["kind"] == "inline":  # it works nowhere else: whatever held it, it goes on
        await database.write(_let_go_on, row["agent"], now=service.now())
    await database.write(member_rows.set_away, workspace["id"], row["agent"], away)
    if action == "stop" and supervisor.works_in(row["agent"]) == workspace["id"]:
        await supervisor.dismiss(row["agent"])
    supervisor.wake(row["agent"])
    row = await database.read(member_rows.member_called, workspace["id"], member.agent)
    definition = service.runtime.registry.worker(row["agent"], workspace["id"]).definition
    name = str(replace(member, agent=row["name"], workflow=workspace["workflow"], tag=workspace["tag"]))
    wait = (await service.waits(loaded)).get(row["agent"])
    state, wait = state_of(row, wait)
    return AgentView(
        name, state, "", definition.backend, definition.model or "", 0, 0.0, kind=row["kind"], waiting=wait
    )


def _let_go_on(tx: Transaction, agent: str, *, now: int) -> None:
    commands.start_agent(tx, agent)
    commands.resume_agent(tx, agent, now=now)


def _broken(loaded: LoadedProject, name: str) -> AgentView:
    """The view of an agent whose file cannot be used, and could not since the daemon started."""
    wrong = loaded.project.wrong_with(name)
    why = in_lines(wrong)
    file = str(loaded.project.broken[name])
    return AgentView(
        name, "broken", why, backend="", model="", queued=0, usd_today=0.0, file=file, remedy=_to_edit(wrong)
    )


def _to_edit(wrong: Sequence[Problem]) -> str:
    return f"edit {wrong[0].file}:{wrong[0].line}" if wrong else ""


def _remedy(row: Row, wait: Waiting | None, worker: AgentRuntime | None, wrong: Sequence[Problem]) -> str:
    """The remedy for the reason that is shown for an agent, in the order in which reasons are shown."""
    if row["paused"]:
        return "resume" if row["limited"] else ""
    if wait is not None:
        missing = worker.lacks_key() if wait.what == "key" and worker and worker.lacks_key else None
        return missing.remedy if missing else ""
    return (worker.remedy if worker else "") or _to_edit(wrong)


def _agent(service: Service, loaded: LoadedProject, row: Row, waits: Mapping[str, Waiting]) -> AgentView:
    definition = loaded.definition(row["name"])
    worker = service.runtime.registry.own(row["id"])
    wrong = loaded.project.wrong_with(row["name"])
    trouble = "; ".join(map(str, wrong))
    state, wait = state_of(row, waits.get(row["id"]))
    if worker is not None and not worker.is_fit and state != "paused":
        state, wait = "error", None
    return AgentView(
        name=row["name"],
        state=state,
        reason=row["paused"] or (wait.reason if wait else row["reason"] or trouble),
        backend=definition.backend,
        model=definition.model or "",
        queued=row["queued"],
        usd_today=row["micros"] / 1e6,
        estimated=bool(row["estimated"]),
        kind=row["kind"],
        file=str(loaded.project.agent_files.get(row["name"], "")),
        unsafe=definition.unsafe,
        label=definition.label,
        waiting=wait,
        remedy=_remedy(row, wait, worker, wrong),
    )


def _states(tx: Transaction, *, day: str) -> list[Row]:
    rows = tx.all(
        """select a.*, coalesce(t.micros, 0) as micros, coalesce(t.estimated, 0) as estimated,
                  (select count(*) from instruction i
                    where i.project = :project and i.agent = a.id and i.state = 'queued') as queued,
                  (select count(*) from inbox_item t where t.project = :project and t.agent = a.id
                      and t.state = 'open' and t.kind = 'limit') as limited
             from agent a
             left join tally t on t.project = :project and t.scope = 'agent' and t.key = a.id and t.day = :day
            where a.project = :project and a.kind <> 'inline' and a.home = '' order by a.name""",
        day=day,
    )
    return rows


def queue_of(tx: Transaction, agent: str) -> list[Work]:
    rows = tx.all(
        """select * from instruction
            where project = :project and agent = :agent and state in ('queued', 'running', 'waiting')
            order by lane, ord limit 200""",
        agent=agent,
    )
    return [_work(row) for row in rows]


def _work(row: Row) -> Work:
    return Work(
        id=row["id"],
        lane=LANES[row["lane"]],
        state=row["state"],
        source=row["source"],
        text=row["text"][:500],
        sender=row["sender"],
        workspace=row["workspace"],
        queued_at=row["queued_at"],
        not_before=row["not_before"] or None,
    )
