"""A person's search through what was said and written in workspaces: the very one that its members have."""

from __future__ import annotations

import asyncio
from functools import partial

from agent_worker.core.clock import micros
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row
from agent_worker.memory.recall import Recalled, recall
from agent_worker.memory.workspace_library import DOCUMENT
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.tools.workspace_search import search_in
from agent_worker.workspaces import workspace_rows


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A message, or a paragraph of a document."""

    at: str  #: the workspace, as it is addressed
    text: str
    why: str  #: "matches 'deploy', 'friday'; said by bob; 3 days ago"
    who: str = ""  #: said it; '' for a document
    seq: int | None = None  #: of the message
    document: str = ""  #: '' for a message
    time: int | None = None  #: of the message, in microseconds since 1970


@operation("GET", "/search")
async def search(
    service: Service, query: str, at: str | None = None, limit: int = 10, project: str | None = None
) -> list[SearchResult]:
    """What answers a question best, of all that was said in the channels and stands in the documents of a project.

    `at` names one workspace. What was taken back is not found, nor what an agent keeps for itself.
    """
    loaded = await service.project(project)
    database, runtime = service.database(loaded), service.runtime
    if at:
        workspaces = [await database.read(workspace_rows.find, await service.workspace_name(loaded, at))]
    else:
        workspaces = [
            await database.read(workspace_rows.get, row["id"]) for row in await database.read(workspace_rows.of_project)
        ]
    find = partial(recall, query=query, now=runtime.clock.now(), limit=max(1, min(limit, 100)))
    found = await search_in(runtime.registry.libraries, database, runtime.clock, workspaces, find)
    named = {each["id"]: each for each in workspaces}
    return [_found(each, named[each.entry.scope]) for each in found]


@dataclass(frozen=True, slots=True)
class KeptResult:
    """Something that an agent keeps: a memory, or a paragraph of a note."""

    agent: str
    kind: str  #: memory | note
    label: str  #: the key, or the title of the note
    text: str
    why: str


@operation("GET", "/search/kept")
async def search_kept(service: Service, query: str, limit: int = 10, project: str | None = None) -> list[KeptResult]:
    """What answers a question best, of what the agents of a project remember and have noted. Only for the person."""
    loaded = await service.project(project)
    now, most = service.runtime.clock.now(), max(1, min(limit, 100))
    found: list[tuple[float, KeptResult]] = []
    for name, id in loaded.agents.items():
        worker = service.runtime.registry.own(id)
        if worker is None or worker.home is None:
            continue
        look = partial(worker.library.search, query, now=now, kinds=("memory", "note"), limit=most)
        for each in await asyncio.to_thread(look):
            entry = each.entry
            found.append((each.score, KeptResult(name, entry.kind, entry.label or entry.id, entry.text, each.why)))
    return [each for _, each in sorted(found, key=lambda pair: -pair[0])[:most]]


def _found(each: Recalled, workspace: Row) -> SearchResult:
    entry, at = each.entry, f"@{workspace_rows.name_of(workspace)}"
    if entry.source.startswith(DOCUMENT):
        return SearchResult(at, entry.text, each.why, document=entry.label)
    return SearchResult(
        at, entry.text, each.why, entry.author, int(entry.id), time=micros(entry.at) if entry.at else None
    )
