"""Agents: who there is, what each is doing, and the files of the lasting ones."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from agent_worker.agents import commands, deletion
from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.waiting import Waiting, state_of
from agent_worker.backends.programs.program import owner_of
from agent_worker.backends.programs.sessions import forget_sessions
from agent_worker.core.address import canonical, check_name, check_no_secret
from agent_worker.core.errors import NotFound, Refused
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.loading import agent_in, agent_of
from agent_worker.definitions.project import AGENTS, PROJECT_FILES
from agent_worker.definitions.rewriting import rewritten
from agent_worker.definitions.source import parse_source
from agent_worker.files.root import Root
from agent_worker.files.swap import Conflict
from agent_worker.memory.edits import rewrite
from agent_worker.service.messages import agent_id, last_words
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.trust.powers import powers_of_agent
from agent_worker.work import agent_rows, limits
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.log_files import HISTORY, Target


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    state: str  #: idle | running | waiting | stopped | error | paused
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
class AgentDetail:
    agent: Agent
    soul: dict[str, Any]
    directory: str
    queue: list[Work]
    thread: list[str]


LANES = ("immediate", "normal", "background")


@operation("GET", "/agents", tool="agents_list")
async def agents_list(service: Service, project: str | None = None) -> list[Agent]:
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
    queue = await service.read(loaded, _queue, id)
    talk = await service.read(loaded, last_words, id, 10)
    definition = loaded.definition(row["name"])
    return AgentDetail(
        agent=_agent(service, loaded, row, await service.waits(loaded)),
        soul=definition.soul.record(),
        directory="" if row["name"] in loaded.quick else str(loaded.project.root / definition.personal_dir),
        queue=queue,
        thread=[f"{t.who}: {t.text}" for t in talk],
    )


@operation("POST", "/agents")
async def agent_create(
    service: Service,
    name: str | None = None,
    project: str | None = None,
    backend: str | None = None,
    model: str | None = None,
    system: str | None = None,
    lasting: bool = True,
    origin: str | None = None,
) -> Agent:
    """Make an agent: a lasting one is a file in the project, any other lives only in the daemon.

    `origin` names a quick agent that becomes a lasting one under the new name.
    """
    loaded = await service.project(project)
    name = check_name(name or await _free_name(service, loaded))
    check_no_secret(name, service.runtime.database.redact, of="an agent")
    if canonical(name, loaded.agents):
        raise Refused(f"there is an agent {name} already", hint=f"agent-worker agent info {name}")
    text = _written(loaded, name, origin, backend=backend, model=model, system=system)
    definition = agent_in(text, file=f"agent {name}")
    before = await service.read(loaded, agent_rows.known, name)
    found = ""
    if lasting:
        found = await asyncio.to_thread(_folder_of, Root(loaded.project.root), definition.personal_dir)
        if before is not None:  # its file was taken away by hand: who begins now is somebody else
            await _take_leave(service, loaded, before, definition)
        await _write_file(service, loaded, name, text)
    elif before is not None:
        raise Refused(
            f"there was a lasting agent {name} here, and what it did is kept",
            hint=f"choose another name, or let a new one take its place: agent-worker agent create {name}",
        )
    else:
        await service.add_quick(loaded, definition)
    return replace((await agent_info(service, name, project=str(loaded.project.root))).agent, found=found)


def _folder_of(root: Root, folder: str) -> str:
    """The folder of an earlier agent, if there is anything in it."""
    try:
        return str(root.location(folder)) if list(root.list(folder)) else ""
    except NotFound:
        return ""


def _written(loaded: LoadedProject, name: str, origin: str | None, **given: str | None) -> str:
    """The definition as its file says it."""
    values: dict[str, Any] = {"name": name}
    if origin is not None:
        known = canonical(origin, loaded.quick)
        if known is None:
            quick = ", ".join(loaded.quick) or "none"
            raise NotFound(f"there is no quick agent {origin}", hint=f"quick agents: {quick}")
        values |= loaded.quick[known].model_dump(mode="json", exclude_unset=True, exclude={"name", "soul"})
    values |= {key: value for key, value in given.items() if value is not None and key != "system"}
    if given["system"] or "prompt" not in values:
        values["prompt"] = {"system": given["system"] or f"You are {name}, a helpful colleague."}
    # JSON is YAML: quoting and special characters need no thought.
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())


async def _write_file(service: Service, loaded: LoadedProject, name: str, text: str) -> None:
    root, path = Root(loaded.project.root), f"{AGENTS}/{name}.yaml"
    definition = agent_in(text, file=path)
    # What our own command writes for the user is approved.
    powers = await asyncio.to_thread(powers_of_agent, definition, loaded.project.root)
    await asyncio.to_thread(service.runtime.gate.approve, loaded.project.root, powers)
    if isinstance(await asyncio.to_thread(root.swap, path, text, expected=None), Conflict):
        raise Refused(f"{path} is there already", hint=f"agent-worker agent info {name}")
    await service.project(str(loaded.project.root))


async def _free_name(service: Service, loaded: LoadedProject) -> str:
    """One that no agent has, or had when its file was last seen."""
    taken = set(loaded.agents) | {row["name"] for row in await service.read(loaded, _names)}
    return next(f"agent-{n}" for n in itertools.count(1) if f"agent-{n}" not in taken)


@operation("PATCH", "/agents/{name}")
async def agent_edit(service: Service, name: str, changes: dict[str, Any], project: str | None = None) -> Agent:
    """Set keys of an agent's definition, or take them out with null. All else in its file stays as it was written."""
    loaded = await service.project(project)
    found, file = _own_file(loaded, name)
    root, before = loaded.project.root, loaded.project.agents[found]
    if "name" in changes:
        raise Refused(
            "a name is who an agent is: it cannot be changed", hint=f"agent-worker agent create --from {found}"
        )

    def changed(text: str) -> str:
        after = rewritten(text, changes, file=file)
        _approve_new(service, root, before, agent_of(parse_source(after, file=file), root / file, root=root))
        return after

    await asyncio.to_thread(rewrite, Root(root), file, changed)
    return (await agent_info(service, found, project=str(root))).agent


def _approve_new(service: Service, root: Path, before: AgentDefinition, after: AgentDefinition) -> None:
    """What the user's own command adds is approved; what was in the file before is not approved by the way."""
    known = {power.digest for power in powers_of_agent(before, root)}
    service.runtime.gate.approve(root, [power for power in powers_of_agent(after, root) if power.digest not in known])


def _own_file(loaded: LoadedProject, name: str) -> tuple[str, str]:
    """Name and file of an agent that has a file to itself."""
    id = agent_id(loaded, name)
    found = next(n for n, i in loaded.agents.items() if i == id)
    if found in loaded.quick:
        raise Refused(f"{found} has no file: it ends with the daemon", hint=f"agent-worker stop {found}")
    file = loaded.project.agent_files[found].relative_to(loaded.project.root)
    if str(file) in PROJECT_FILES:
        raise Refused(f"{found} is written in {file}, with the rest of the project", hint=f"edit {file}")
    return found, str(file)


@operation("DELETE", "/agents/{name}")
async def agent_delete(service: Service, name: str, project: str | None = None, files: bool = False) -> str:
    """Remove an agent: its definition, its queue, its conversations and runs in the database.

    With `files` its folder goes too: memory, notes, todos and conversations. What it said in a team's channel and wrote
    into a team's documents is the team's, and stays; so do its costs, and backups that were made before.
    """
    loaded = await service.project(project)
    found, file = _own_file(loaded, name)
    id, definition, root = loaded.agents[found], loaded.project.agents[found], Root(loaded.project.root)
    if workspaces := await service.read(loaded, workspace_rows.at_work_with, id):
        at = " and ".join(f"@{workspace_rows.name_of(workspace)}" for workspace in workspaces)
        raise Refused(f"{found} takes part in {at}", hint=f"agent-worker stop @{workspace_rows.name_of(workspaces[0])}")
    me = await service.read(loaded, agent_rows.identity, id)
    logs = await service.read(loaded, workspace_rows.workspaces_of, id) if files else []
    await asyncio.to_thread(root.remove, file)
    await _take_leave(service, loaded, me, definition)
    if files:
        await asyncio.to_thread(_remove_files, root, definition.personal_dir, logs)
    await service.project(str(loaded.project.root))
    left = await asyncio.to_thread(_folder_of, root, definition.personal_dir)
    return f"{found} was deleted" + (" with its files" if files else f"; its files are still in {left}" if left else "")


async def _take_leave(service: Service, loaded: LoadedProject, me: Row, definition: AgentDefinition) -> None:
    """Whatever of an agent is in this process, in the database, and with coding programs."""
    runtime, id = service.runtime, me["id"]
    await service.write(loaded, deletion.cancel_all, id, now=service.now())
    await runtime.supervisor.dismiss(id)
    await runtime.log_files.flush()
    runtime.log_files.forget(Target(loaded.id, None, id))
    for library in runtime.registry.remove_all(id):
        await asyncio.to_thread(library.close)
    await service.write(loaded, deletion.erase, me, now=service.now())
    await runtime.database.shed()
    root = loaded.project.root
    await asyncio.to_thread(lambda: runtime.gate.withdraw(root, powers_of_agent(definition, root)))
    await asyncio.to_thread(forget_sessions, runtime.programs, owner_of(me["name"], root, me["name"]))


@operation("POST", "/agents/{name}/{action}")
async def agent_set(
    service: Service, name: str, action: Literal["pause", "resume", "start", "stop"], project: str | None = None
) -> Agent:
    """Pause or resume an agent (with a new allowance), stop it, or start it again after an error."""
    loaded = await service.project(project)
    id = agent_id(loaded, name)
    database = service.database(loaded)
    match action:
        case "pause":
            await database.write(agent_rows.pause, id, "paused by a person")
        case "resume":
            await database.write(commands.resume_agent, id, now=service.now())
        case "stop":
            await service.runtime.supervisor.dismiss(id)
            await database.write(agent_rows.set_state, id, "stopped", reason="stopped by a person")
        case "start":
            await database.write(commands.start_agent, id)
    service.runtime.supervisor.wake(id)
    return (await agent_info(service, name, project=str(loaded.project.root))).agent


def _remove_files(root: Root, folder: str, logs: list[Row]) -> None:
    with contextlib.suppress(NotFound):
        root.remove_tree(folder)
    for log in logs:
        with contextlib.suppress(NotFound):
            Root(Path(log["directory"])).remove(f"{HISTORY}/{log['name']}.jsonl")


def _names(tx: Transaction) -> list[Row]:
    return tx.all("select name from agent where project = :project and home = ''")


def _broken(loaded: LoadedProject, name: str) -> Agent:
    """One whose file cannot be used, and never could since we know it."""
    why = "; ".join(map(str, loaded.project.wrong_with(name)))
    file = str(loaded.project.broken[name])
    return Agent(name, "error", why, backend="", model="", queued=0, usd_today=0.0, file=file)


def _agent(service: Service, loaded: LoadedProject, row: Row, waits: Mapping[str, Waiting]) -> Agent:
    definition = loaded.definition(row["name"])
    worker = service.runtime.registry.own(row["id"])
    trouble = "; ".join(map(str, loaded.project.wrong_with(row["name"])))
    state, wait = state_of(row, waits.get(row["id"]))
    if worker is not None and not worker.is_fit and state != "paused":
        state, wait = "error", None
    return Agent(
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
    )


def _states(tx: Transaction, *, day: str) -> list[Row]:
    rows = tx.all(
        """select a.*, coalesce(t.micros, 0) as micros, coalesce(t.estimated, 0) as estimated,
                  (select count(*) from instruction i
                    where i.project = :project and i.agent = a.id and i.state = 'queued') as queued
             from agent a
             left join tally t on t.project = :project and t.scope = 'agent' and t.key = a.id and t.day = :day
            where a.project = :project and a.kind <> 'inline' and a.home = '' order by a.name""",
        day=day,
    )
    return rows


def _queue(tx: Transaction, agent: str) -> list[Work]:
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
