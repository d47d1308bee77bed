"""Taking back what agents were told, learned and wrote in runs that were poisoned, and everything that came of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, date, datetime, time
from functools import partial

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.observing import evolution_of
from agent_worker.agents.revert import Held, take_back
from agent_worker.core.clock import micros
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.later import dataclass
from agent_worker.database.database import ProjectDatabase
from agent_worker.memory import audit, containment
from agent_worker.memory.containment import Descent
from agent_worker.memory.revert import Reverted, revert, sources_before
from agent_worker.service.memory import note
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.rounds import ROUND, undo_round
from agent_worker.service.service import Service
from agent_worker.work import run_rows
from agent_worker.work.threads import PERSONAL
from agent_worker.workflows.archive import CHANNEL
from agent_worker.workspaces import member_rows, workspace_rows
from agent_worker.workspaces.documents import Documents
from agent_worker.workspaces.log_files import CONVERSATIONS, HISTORY, RESOURCES


@dataclass(frozen=True, slots=True)
class RunTakenBack:
    run: str
    agent: str  #: its name
    at: int  #: when it began
    saw: str | None  #: the run whose words it saw, which stands above it; None: it was named itself
    depth: int  #: in the tree: 0 for those that were named


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What was taken back, by name; what is another agent's has that agent's name before it."""

    runs: list[RunTakenBack]  #: the named ones, and below each those that saw its words: a tree, line by line
    memories: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    todos: list[str] = field(default_factory=list)
    proposals: list[str] = field(default_factory=list)  #: for the soul of an agent, that were open
    messages: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    for_you: list[str] = field(default_factory=list)  #: what could not be taken back, and is yours to judge


@operation("POST", "/agents/{name}/memory/revert")
async def memory_revert(
    service: Service,
    name: str,
    since: str | None = None,
    source: str | None = None,
    show: bool = False,
    project: str | None = None,
) -> TakenBack:
    """Take back everything that an agent's runs since a day (2026-01-31), or one run (`source`), led to.

    With them go the later runs, of any agent, that were shown their words. What they learned is held back in
    quarantine.yaml, what they replaced or forgot is there again; no prompt, tool or search returns what was said. A
    person still sees it, struck out. `show` only tells which runs that would be.
    A `source` may also be a round through its memory (g_…): then what that has changed is as it was.
    """
    if (since is None) == (source is None):
        raise BadInput(
            "say what to take back: a day or a run", hint=f"agent-worker agent revert {name} --since 2026-01-31"
        )
    loaded = await service.project(project)
    if source is not None and source.startswith(ROUND):
        return await _undo_round(service, loaded, name, source, show=show)
    if source is not None:
        _, source = await service.holding(source, "run")
    id, at = agent_id(loaded, name), micros(_day(since)) if since is not None else None
    database = service.database(loaded)
    if source is not None and not await database.read(run_rows.is_there, source):
        raise NotFound(f"there is no run {source}", hint="agent-worker runs")
    named = await database.read(containment.since, id, at) if at is not None else [source or ""]
    runs, taken = await database.read(containment.tree, named), TakenBack([])
    if show:
        return TakenBack(_in_tree(runs))
    await note(service, name, project, "reverted", since or source or "")
    await _take_back(service, loaded, runs, taken, agent=id, since=since)
    known = {run.run for run in runs}
    # Whoever looked while we took it back has seen it, and is taken back as well.
    while new := [run for run in await database.read(containment.tree, named) if run.run not in known]:
        await _take_back(service, loaded, new, taken, agent=id, since=since)
        runs += new
        known.update(run.run for run in new)
    await service.runtime.database.shed()
    return replace(taken, runs=_in_tree(runs))


async def _take_back(
    service: Service, loaded: LoadedProject, runs: Sequence[Descent], taken: TakenBack, *, agent: str, since: str | None
) -> None:
    """Take these runs back, with whatever the agent was told since a day, and add to `taken` what that was."""
    database, at = service.database(loaded), micros(_day(since)) if since is not None else None
    held = await database.write(take_back, runs, agent=agent, at=at, now=service.now())
    await _unindex(service, runs)
    await _strike_files(service, database, held)
    for each in dict.fromkeys([agent, *(run.agent for run in runs)]):
        await _unlearn(service, loaded, each, runs, taken, since=since if each == agent else None)
    await _undo_documents(service, database, held, taken)
    await _unindex(service, runs)  # again: whoever searched meanwhile took in what documents still said
    taken.messages.extend(await _places(database, held))
    taken.for_you.extend(held.decided)


async def _undo_round(service: Service, loaded: LoadedProject, name: str, id: str, *, show: bool) -> TakenBack:
    """Take back one round through an agent's memory: nobody saw words in it that they had not seen before."""
    done, stands = await undo_round(service, service.database(loaded), agent_id(loaded, name), id, show=show)
    taken = TakenBack([], restored=[f"{name}: {each.before.key}" for each in done])
    taken.for_you.extend(f"{each.after.key} ({each.what}) was changed since" for each in stands)
    return taken


async def _unindex(service: Service, runs: Sequence[Descent]) -> None:
    for workspace in {run.workspace for run in runs if run.workspace}:
        await asyncio.to_thread(service.runtime.registry.libraries.drop, workspace)


def _in_tree(runs: Sequence[Descent]) -> list[RunTakenBack]:
    """The runs as a tree: each below the one whose words it saw, the oldest first."""
    children: dict[str | None, list[Descent]] = defaultdict(list)
    for run in runs:
        children[run.saw].append(run)
    listed: list[RunTakenBack] = []
    waiting = [(0, run) for run in reversed(children[None])]
    while waiting:
        depth, run = waiting.pop()
        listed.append(RunTakenBack(run.run, run.name, run.started_at, run.saw, depth))
        waiting += [(depth + 1, each) for each in reversed(children[run.run])]
    return listed


async def _unlearn(
    service: Service, loaded: LoadedProject, agent: str, runs: Sequence[Descent], taken: TakenBack, *, since: str | None
) -> None:
    """Take back what one agent learned in these runs, or since a day, and its index of what was said."""
    with suppress(NotFound):  # one that lives in a workflow has nothing of its own
        worker = service.runtime.registry.worker(agent)
        if worker.home is None:
            return
        await service.see_files(agent)
        sources = {run.run for run in runs if run.agent == agent}
        at = micros(_day(since)) if since is not None else None
        deeds = await service.read(loaded, audit.of_runs, agent, sources, at)
        evolution = evolution_of(worker, service.database(loaded), service.runtime.clock)
        if evolution is not None:
            withdrawn = await evolution.withdraw(sources)
            taken.proposals.extend(f"{worker.name}: {each}" for each in withdrawn)
        gone = await service.read(loaded, run_rows.held_among, sources_before(deeds))
        how = partial(revert, since=since, sources=sources, gone=gone, now=service.runtime.clock.now())
        _add(taken, await asyncio.to_thread(how, worker.home, deeds), worker.name)
        # Last: whoever searched meanwhile took in what the files still said.
        await asyncio.to_thread(worker.library.begin_anew)
        await service.runtime.public.publish(worker)


def _add(taken: TakenBack, found: Reverted, name: str) -> None:
    for all_of, some in (
        (taken.memories, found.memories),
        (taken.restored, found.restored),
        (taken.notes, found.notes),
        (taken.todos, found.todos),
    ):
        all_of.extend(f"{name}: {each}" for each in some)


async def _strike_files(service: Service, database: ProjectDatabase, held: Held) -> None:
    """Strike what was taken back out of the files in which people, and agents who may read files, would find it."""
    log_files, registry = service.runtime.log_files, service.runtime.registry
    await log_files.flush()
    for (agent, context), seqs in held.lines.items():
        if context == PERSONAL:
            with suppress(NotFound):
                if (home := registry.worker(agent).home) is not None:
                    await log_files.strike(home, CONVERSATIONS, seqs, dated=True)
            continue
        workspace = await database.read(workspace_rows.get, context)
        if workspace["directory"] and (name := await database.read(member_rows.name_in, context, agent)):
            await log_files.strike(workspace_rows.files_of(workspace), f"{HISTORY}/{name}.jsonl", seqs)
    for id, seqs in held.messages.items():
        workspace = await database.read(workspace_rows.get, id)
        if workspace["directory"]:
            await log_files.strike(workspace_rows.files_of(workspace), CHANNEL, seqs)
    for id, resource in held.resources:
        workspace = await database.read(workspace_rows.get, id)
        if workspace["directory"]:
            with suppress(NotFound):
                await asyncio.to_thread(workspace_rows.files_of(workspace).remove, f"{RESOURCES}/{resource}")


async def _undo_documents(service: Service, database: ProjectDatabase, held: Held, taken: TakenBack) -> None:
    for id, keys in held.keys.items():
        workspace = await database.read(workspace_rows.get, id)
        undone = await Documents(database, service.runtime.clock, workspace, service.runtime.look_at_copies).undo(keys)
        place = workspace_rows.name_of(workspace)
        taken.documents.extend(f"@{place}: {name}" for name in undone.taken)
        taken.for_you.extend(f"document {name} of @{place}: others have changed it since" for name in undone.stands)


async def _places(database: ProjectDatabase, held: Held) -> list[str]:
    found = []
    for id, seqs in held.messages.items():
        workspace = await database.read(workspace_rows.get, id)
        found += [f"@{workspace_rows.name_of(workspace)} #{seq}" for seq in sorted(seqs)]
    return found


def _day(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise BadInput(f"{text!r} is not a day", hint="write it as 2026-01-31") from None
