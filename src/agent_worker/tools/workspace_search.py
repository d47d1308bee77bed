"""The one search over what was said and written in a workspace, for its members and for people.

Brings the index up to date first: with the messages that came since, and the documents that changed, by whoever's hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from agent_worker.core.clock import Clock
from agent_worker.core.errors import NotFound
from agent_worker.database.database import ProjectDatabase, Row
from agent_worker.memory.index import IndexClosed, IndexedSource
from agent_worker.memory.recall import Recalled, SearchScope
from agent_worker.memory.workspace_library import (
    CHANNEL,
    DOCUMENT,
    WorkspaceLibraries,
    WorkspaceLibrary,
    document_entries,
    message_entry,
)
from agent_worker.workspaces import channel
from agent_worker.workspaces.channel import Message
from agent_worker.workspaces.documents import Documents, LookAtCopies

MOST_MESSAGES = 100_000  # taken in at once


Find = Callable[[Sequence[SearchScope]], list[Recalled]]  # what is to be found in such places; called in a thread


async def search_in(
    libraries: WorkspaceLibraries,
    database: ProjectDatabase,
    clock: Clock,
    workspaces: Sequence[Row],
    find: Find,
    copies: LookAtCopies | None = None,
) -> list[Recalled]:
    """Look in these workspaces as they are now; again, if something was taken out of one while we looked."""
    while True:
        try:
            places = [await _searchable(libraries, database, clock, each, copies) for each in workspaces]
            return await asyncio.to_thread(find, places)
        except IndexClosed:
            continue


async def _searchable(
    libraries: WorkspaceLibraries,
    database: ProjectDatabase,
    clock: Clock,
    workspace: Row,
    copies: LookAtCopies | None,
) -> SearchScope:
    """A workspace as it is now, to look in."""
    id, documents = workspace["id"], Documents(database, clock, workspace, copies)
    library = await asyncio.to_thread(libraries.of, id, kept=workspace["provider"] != "memory")
    known = await asyncio.to_thread(library.stamps)
    said = await database.read(channel.read, id, since=int(known.get(CHANNEL, "0")), limit=MOST_MESSAGES)
    stamps = await documents.stamps()
    texts: dict[str, str] = {}
    for name, stamp in stamps.items():
        if known.get(f"{DOCUMENT}{name}") != stamp:
            try:
                texts[name] = (await documents.read(name)).text
            except NotFound:  # somebody took it away since it was listed
                texts[name] = ""
    if said or texts or any(name.removeprefix(DOCUMENT) not in stamps for name in known if name != CHANNEL):
        await asyncio.to_thread(_take_in, library, id, said, stamps, texts)
    return library.scope


def _take_in(
    library: WorkspaceLibrary,
    workspace: str,
    said: Sequence[Message],
    stamps: Mapping[str, str],
    texts: Mapping[str, str],
) -> None:
    library.hear(message_entry(workspace, each.seq, each.sender, each.text, each.at) for each in said)
    library.read(
        IndexedSource(f"{DOCUMENT}{name}", partial(document_entries, workspace, name, texts.get(name, "")), stamp)
        for name, stamp in stamps.items()
    )
