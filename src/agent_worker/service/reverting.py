"""Taking back what agents were told, learned and wrote in runs that were poisoned, and everything that came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import partial
from pathlib import Path

from agent_worker.agents.roster import Admitted
from agent_worker.agents.taking_back import Held, take_back
from agent_worker.clock import micros
from agent_worker.errors import BadInput, NotFound
from agent_worker.guard import audit, containment
from agent_worker.guard.containment import Descent
from agent_worker.guard.reverting import Reverted, revert
from agent_worker.mirror import CONVERSATIONS, HISTORY, RESOURCES
from agent_worker.service.messages import agent_id
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.service.personal import note
from agent_worker.storage.files import Root
from agent_worker.threads import PERSONAL
from agent_worker.workflows.archive import CHANNEL
from agent_worker.workspaces import workspace
from agent_worker.workspaces.documents import Documents


@dataclass(frozen=True, slots=True)
class TakenBack:
    """By name. Of other agents than the one that was asked about, with theirs before it."""

    runs: list[str]  #: the named ones, and those that saw what came of them
    memories: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    todos: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    for_you: list[str] = field(default_factory=list)  #: what could not be taken back, and is yours to judge


@operation("POST", "/agents/{name}/memory/revert")
async def memory_revert(
    office: Office,
    name: str,
    since: str | None = None,
    source: str | None = None,
    show: bool = False,
    project: str | None = None,
) -> TakenBack:
    """Take back what came of an agent's runs since a day (2026-01-31), or of one run, its `source`.

    With them go the later runs, of any agent, that were shown their words. What they learned is held back in
    quarantine.yaml, what they replaced or forgot is there again; no prompt, tool or search returns what was said. A
    person still sees it, struck out. `show` only tells which runs that would be.
    """
    if (since is None) == (source is None):
        raise BadInput("either a day or a run says what is taken back", hint="since 2026-01-31, or source r_…")
    admitted = await office.project(project)
    id, at = agent_id(admitted, name), micros(_day(since)) if since is not None else None
    database = office.stage.database
    named = await database.read(containment.since, id, at) if at is not None else [source or ""]
    runs = await database.read(containment.tree, admitted.id, named)
    taken = TakenBack([_told(admitted, run) for run in runs])
    if show:
        return taken
    await note(office, name, project, "reverted", since or source or "")
    held = await database.write(take_back, runs, agent=id, at=at, now=office.now())
    await _strike_files(office, held)
    for agent in dict.fromkeys([id, *(run.agent for run in runs)]):
        await _unlearn(office, admitted, agent, runs, taken, since=since if agent == id else None)
    await _undo_documents(office, held, taken)
    taken.messages.extend(await _places(office, held))
    taken.for_you.extend(held.decided)
    await database.shed()
    return taken


def _told(admitted: Admitted, run: Descent) -> str:
    return f"{run.run} ({_name(admitted, run.agent)}{'' if run.named else ', saw it'})"


def _name(admitted: Admitted, agent: str) -> str:
    return next((name for name, id in admitted.agents.items() if id == agent), agent)


async def _unlearn(
    office: Office, admitted: Admitted, agent: str, runs: Sequence[Descent], taken: TakenBack, *, since: str | None
) -> None:
    """What one agent learned in these runs, or since a day, and its index of what was said."""
    with suppress(NotFound):  # one that lives in a workflow has nothing of its own
        worker = office.stage.registry.worker(agent)
        await asyncio.to_thread(worker.library.begin_anew)
        if worker.home is None:
            return
        sources = {run.run for run in runs if run.agent == agent}
        at = micros(_day(since)) if since is not None else None
        deeds = await office.stage.database.read(audit.of_runs, agent, sources, at)
        how = partial(revert, since=since, sources=sources, now=office.stage.clock.now())
        _add(taken, await asyncio.to_thread(how, worker.home, deeds), worker.name)


def _add(taken: TakenBack, found: Reverted, name: str) -> None:
    for all_of, some in (
        (taken.memories, found.memories),
        (taken.restored, found.restored),
        (taken.notes, found.notes),
        (taken.todos, found.todos),
    ):
        all_of.extend(f"{name}: {each}" for each in some)


async def _strike_files(office: Office, held: Held) -> None:
    """The files that people, and agents who may read files, would still find it in."""
    mirror, database, registry = office.stage.mirror, office.stage.database, office.stage.registry
    await mirror.flush()
    for (agent, context), seqs in held.lines.items():
        if context == PERSONAL:
            with suppress(NotFound):
                if (home := registry.worker(agent).home) is not None:
                    await mirror.strike(home, CONVERSATIONS, seqs, dated=True)
            continue
        room = await database.read(workspace.get, context)
        if room["directory"] and (name := await database.read(workspace.name_in, context, agent)):
            await mirror.strike(Root(Path(room["directory"])), f"{HISTORY}/{name}.jsonl", seqs)
    for id, seqs in held.messages.items():
        room = await database.read(workspace.get, id)
        if room["directory"]:
            await mirror.strike(Root(Path(room["directory"])), CHANNEL, seqs)
    for id, resource in held.resources:
        room = await database.read(workspace.get, id)
        if room["directory"]:
            with suppress(NotFound):
                await asyncio.to_thread(Root(Path(room["directory"])).remove, f"{RESOURCES}/{resource}")


async def _undo_documents(office: Office, held: Held, taken: TakenBack) -> None:
    for id, keys in held.keys.items():
        room = await office.stage.database.read(workspace.get, id)
        undone = await Documents(office.stage.database, office.stage.clock, room).undo(keys)
        place = workspace.name_of(room)
        taken.documents.extend(f"@{place}: {name}" for name in undone.taken)
        taken.for_you.extend(f"document {name} of @{place}: others have written on it since" for name in undone.stands)


async def _places(office: Office, held: Held) -> list[str]:
    found = []
    for id, seqs in held.messages.items():
        room = await office.stage.database.read(workspace.get, id)
        found += [f"@{workspace.name_of(room)} #{seq}" for seq in sorted(seqs)]
    return found


def _day(text: str) -> datetime:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        raise BadInput(f"{text!r} is not a day", hint="write it as 2026-01-31") from None
