"""What an agent shares with its colleagues: entries of its memory that are marked for it, and nothing beyond.

Private entries are gone before anything is compared, so no answer depends on them. An entry that repeats a private one
is private too, whatever it is marked as, and so is what was learned from outside until a person has released it.
"""

from __future__ import annotations

from datetime import datetime

from agent_worker.files.root import Root
from agent_worker.memory import index_tables, memory
from agent_worker.memory.index import Index
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.recall import SearchScope, recall

OPEN = frozenset({"shareable", "public"})
MOST = 5
LONG_ENOUGH = 8  # characters; shorter private values are part of honest sentences


def shared(root: Root, question: str, *, now: datetime) -> tuple[MemoryEntry, ...]:
    """What answers the question best, of what may be said. Reads files: call it in a thread."""
    allowed = {f"{n}": entry for n, entry in enumerate(shareable(root))}
    index = Index()
    try:
        index.append("shared", [_indexed(id, entry) for id, entry in allowed.items()], stamp="1")
        found = recall([SearchScope(index, None, None)], question, now=now, kinds={"memory"}, limit=MOST)
    finally:
        index.close()
    return tuple(allowed[each.entry.id] for each in found)


def shareable(root: Root) -> tuple[MemoryEntry, ...]:
    entries = [entry for entry in memory.load(root).entries if entry.file != memory.ARCHIVE]
    return tuple(
        entry
        for entry in entries
        if entry.visibility in OPEN
        and not entry.from_outside
        and not entry.disputes
        and not repeats(entry.value, entries)
    )


def repeats(text: str, entries: list[MemoryEntry]) -> str:
    """The key of a private entry whose text is in this one; '' when there is none."""
    plain = _plain(text)
    private = ((entry.key, _plain(entry.value)) for entry in entries if entry.visibility not in OPEN)
    return next((key for key, value in private if len(value) >= LONG_ENOUGH and value in plain), "")


def _indexed(id: str, entry: MemoryEntry) -> index_tables.IndexEntry:
    return index_tables.IndexEntry(id=id, kind="memory", source="shared", text=entry.value, label=entry.key)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


__all__ = ["MemoryEntry", "repeats", "shareable", "shared"]
