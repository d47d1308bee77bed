"""A person's search through a project: what was said and written in workspaces, by the very index that its members
have; what its agents keep for themselves; and runs. The command line and the page show the same."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Literal

from agent_worker.core.clock import micros
from agent_worker.core.later import dataclass
from agent_worker.core.states import told
from agent_worker.database.database import Row
from agent_worker.memory.index_tables import Kind as IndexedKind
from agent_worker.memory.recall import Recalled, recall
from agent_worker.memory.workspace_library import DOCUMENT
from agent_worker.service.operation import operation
from agent_worker.service.runs import Run, runs_list
from agent_worker.service.service import Service
from agent_worker.tools.workspace_search import search_in
from agent_worker.workspaces import workspace_rows
from agent_worker.workspaces.log_files import Target

RUNS = 500  #: that are looked through
_KEPT: tuple[IndexedKind, ...] = ("memory", "note", "history")
Kind = Literal["message", "document", "memory", "note", "conversation", "run"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Something that was said, written, remembered or done."""

    kind: Kind
    at: str  #: the workspace, as it is addressed, or the agent whose it is
    text: str
    why: str = ""  #: "matches 'deploy', 'friday'; said by bob; 3 days ago"
    sender: str = ""  #: of a message, and of what was said in a conversation
    seq: int | None = None  #: of the message
    document: str = ""
    label: str = ""  #: the key of a memory, the title of a note, the id of a run
    time: int | None = None  #: in microseconds since 1970


@operation("GET", "/search")
async def search(
    service: Service, query: str, at: str | None = None, limit: int = 10, project: str | None = None
) -> list[SearchResult]:
    """What answers a question best: of what was said and written in workspaces, then of what agents keep, then runs.

    So many of each, at most. `at` names one workspace. What was taken back is not found. Only for the person: an agent
    does not see what another keeps for itself.
    """
    most = max(1, min(limit, 100))
    said = await _in_workspaces(service, query, at, most, project)
    if at:
        return said
    kept = await _kept_by_agents(service, query, most, project)
    newest = await runs_list(service, project, limit=RUNS)
    done = [run for run in newest if not run.held and has_every_word(query, _words(run))]
    return [*said, *kept, *map(_run, done[:most])]


def has_every_word(query: str, text: str) -> bool:
    return all(word in text.lower() for word in query.lower().split())


async def _in_workspaces(
    service: Service, query: str, at: str | None, most: int, project: str | None
) -> list[SearchResult]:
    loaded = await service.project(project)
    database, runtime = service.database(loaded), service.runtime
    if at:
        workspaces = [await database.read(workspace_rows.find, await service.workspace_name(loaded, at))]
    else:
        workspaces = [
            await database.read(workspace_rows.get, row["id"]) for row in await database.read(workspace_rows.of_project)
        ]
    find = partial(recall, query=query, now=runtime.clock.now(), limit=most)
    libraries, copies = runtime.registry.libraries, runtime.look_at_copies
    found = await search_in(libraries, database, runtime.clock, workspaces, find, copies)
    named = {each["id"]: each for each in workspaces}
    return [_found(each, named[each.entry.scope]) for each in found]


async def _kept_by_agents(service: Service, query: str, most: int, project: str | None) -> list[SearchResult]:
    loaded = await service.project(project)
    await service.runtime.log_files.bring_up(Target(loaded.id, None, id) for id in loaded.agents.values())
    found: list[tuple[float, SearchResult]] = []
    for name, id in loaded.agents.items():
        worker = service.runtime.registry.own(id)
        if worker is None or worker.home is None:
            continue
        look = partial(worker.library.search, query, now=service.runtime.clock.now(), kinds=_KEPT, limit=most)
        found += [(each.score, _kept(each, name)) for each in await asyncio.to_thread(look)]
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])[:most]]


def _kept(each: Recalled, agent: str) -> SearchResult:
    entry = each.entry
    time = micros(entry.at) if entry.at else None
    if entry.kind == "history":
        return SearchResult("conversation", agent, entry.text, each.why, sender=entry.author, time=time)
    kind: Kind = "memory" if entry.kind == "memory" else "note"
    return SearchResult(kind, agent, entry.text, each.why, label=entry.label or entry.id)


def _words(run: Run) -> str:
    return f"{run.id} {run.agent} @{run.workspace} {told(run.state)} {run.model} {run.text} {run.reason}"


def _run(run: Run) -> SearchResult:
    where = f"{run.agent}@{run.workspace}" if run.workspace else run.agent
    return SearchResult("run", where, run.reason or run.text, told(run.state), label=run.id, time=run.started_at)


def _found(each: Recalled, workspace: Row) -> SearchResult:
    entry, at = each.entry, f"@{workspace_rows.name_of(workspace)}"
    if entry.source.startswith(DOCUMENT):
        return SearchResult("document", at, entry.text, each.why, document=entry.label)
    time = micros(entry.at) if entry.at else None
    return SearchResult("message", at, entry.text, each.why, entry.author, int(entry.id), time=time)
