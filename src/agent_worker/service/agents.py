"""Agents: who there is, what each is doing, and the files of the lasting ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any, Literal

from agent_worker import identities, limits, threads
from agent_worker.address import check_name
from agent_worker.agents import assignments
from agent_worker.agents.roster import Admitted
from agent_worker.definitions.project import AGENTS
from agent_worker.errors import BadInput, NotFound, Refused
from agent_worker.service.messages import agent_id
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Row, Transaction
from agent_worker.storage.files import Root


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    state: str  #: idle | running | stopped | error | paused
    reason: str
    backend: str
    model: str
    queued: int
    usd_today: float
    kind: str = "project"
    file: str = ""


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


@dataclass(frozen=True, slots=True)
class AgentDetail:
    agent: Agent
    soul: dict[str, Any]
    directory: str
    queue: list[Work]
    thread: list[str]


LANES = ("immediate", "normal", "background")


@operation("GET", "/agents", tool=True)
async def agents_list(office: Office, project: str | None = None) -> list[Agent]:
    """Every agent of a project, with its state and what it spent today."""
    admitted = await office.project(project)
    rows = await office.stage.database.read(_states, admitted.id, day=limits.day_of(office.now()))
    return [_agent(admitted, row) for row in rows]


@operation("GET", "/agents/{name}")
async def agent_info(office: Office, name: str, project: str | None = None) -> AgentDetail:
    """One agent: state, queue by lane, soul, last words."""
    admitted = await office.project(project)
    id = agent_id(admitted, name)
    day = limits.day_of(office.now())
    row = next(r for r in await office.stage.database.read(_states, admitted.id, day=day) if r["id"] == id)
    queue = await office.stage.database.read(_queue, id)
    talk = await office.stage.database.read(threads.recent, id, threads.PERSONAL, 10)
    definition = admitted.project.agents[row["name"]]
    return AgentDetail(
        agent=_agent(admitted, row),
        soul=definition.soul.record(),
        directory=str(admitted.project.root / definition.personal_dir),
        queue=queue,
        thread=[f"{t.who}: {t.text}" for t in talk],
    )


@operation("POST", "/agents")
async def agent_create(
    office: Office,
    name: str,
    project: str | None = None,
    backend: str = "sdk",
    model: str | None = None,
    system: str | None = None,
) -> Agent:
    """Make a lasting agent: its file is written into the project."""
    admitted = await office.project(project)
    name = check_name(name)
    path = f"{AGENTS}/{name}.yaml"
    root = Root(admitted.project.root)
    if name in admitted.agents or await asyncio.to_thread(root.exists, path):
        raise Refused(f"there is an agent {name} already", hint=f"agent-worker agent info {name}")
    text = _definition(name, backend, model, system)
    await asyncio.to_thread(root.swap, path, text, expected=None)
    admitted = await office.project(str(admitted.project.root))
    broken = [p for p in admitted.project.problems if p.file.endswith(f"{name}.yaml")]
    if broken:
        await asyncio.to_thread(root.remove, path)
        raise BadInput("; ".join(f"{p.field}: {p.message}" for p in broken), hint=broken[0].hint)
    return (await agent_info(office, name, project=str(admitted.project.root))).agent


@operation("DELETE", "/agents/{name}")
async def agent_delete(office: Office, name: str, project: str | None = None, files: bool = False) -> str:
    """Remove an agent's definition; with `files`, its memory, notes and conversations too."""
    admitted = await office.project(project)
    id = agent_id(admitted, name)
    found = next(n for n, i in admitted.agents.items() if i == id)
    definition = admitted.project.agents[found]
    root = Root(admitted.project.root)
    file = admitted.project.agent_files[found].relative_to(admitted.project.root)
    await office.stage.database.write(_cancel_all, id, now=office.now())
    office.stage.registry.remove(id)
    await asyncio.to_thread(root.remove, str(file))
    if files:
        await asyncio.to_thread(_remove_folder, root, definition.personal_dir)
    await office.project(str(admitted.project.root))
    return f"{found} was deleted{' with its files' if files else '; its files are still there'}"


@operation("POST", "/agents/{name}/{action}")
async def agent_set(
    office: Office, name: str, action: Literal["pause", "resume", "start", "stop"], project: str | None = None
) -> Agent:
    """Pause or resume an agent (with a new allowance), stop it, or start it again after an error."""
    admitted = await office.project(project)
    id = agent_id(admitted, name)
    database = office.stage.database
    match action:
        case "pause":
            await database.write(identities.pause, id, "paused by a person")
        case "resume":
            await database.write(assignments.resume_agent, id, now=office.now())
        case "stop":
            await office.stage.supervisor.dismiss(id)
            await database.write(identities.set_state, id, "stopped", reason="stopped by a person")
        case "start":
            await database.write(identities.set_state, id, "idle")
    office.stage.supervisor.wake(id)
    return (await agent_info(office, name, project=str(admitted.project.root))).agent


def _definition(name: str, backend: str, model: str | None, system: str | None) -> str:
    lines = [f"name: {name}", f"backend: {backend}"]
    if model:
        lines.append(f"model: {json.dumps(model)}")
    prompt = system or f"You are {name}, a helpful colleague."
    lines.append(f"prompt: {{ system: {json.dumps(prompt, ensure_ascii=False)} }}")
    return "\n".join(lines) + "\n"


def _remove_folder(root: Root, folder: str) -> None:
    with contextlib.suppress(NotFound):
        root.remove_tree(folder)


def _agent(admitted: Admitted, row: Row) -> Agent:
    definition = admitted.project.agents[row["name"]]
    return Agent(
        name=row["name"],
        state="paused" if row["paused"] else row["state"],
        reason=row["paused"] or row["reason"],
        backend=definition.backend,
        model=definition.model or "",
        queued=row["queued"],
        usd_today=row["micros"] / 1e6,
        file=str(admitted.project.agent_files[row["name"]]),
    )


def _states(tx: Transaction, project: str, *, day: str) -> list[Row]:
    rows = tx.all(
        """select a.*, coalesce(t.micros, 0) as micros,
                  (select count(*) from instruction i where i.agent = a.id and i.state = 'queued') as queued
             from agent a left join tally t on t.scope = 'agent' and t.key = a.id and t.day = :day
            where a.project = :project and a.kind <> 'inline' and a.home = '' order by a.name""",
        project=project,
        day=day,
    )
    return rows


def _queue(tx: Transaction, agent: str) -> list[Work]:
    rows = tx.all(
        """select * from instruction where agent = :agent and state in ('queued', 'running', 'waiting')
            order by lane, ord limit 200""",
        agent=agent,
    )
    return [
        Work(r["id"], LANES[r["lane"]], r["state"], r["source"], r["text"][:500], r["sender"], r["workspace"])
        for r in rows
    ]


def _cancel_all(tx: Transaction, agent: str, *, now: int) -> None:
    for row in tx.all(
        "select id from instruction where agent = :agent and state in ('queued', 'running', 'waiting')", agent=agent
    ):
        assignments.cancel(tx, row["id"], reason="its agent was deleted", now=now)
