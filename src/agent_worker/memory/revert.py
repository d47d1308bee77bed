"""Takes back what an agent learned since a time, or in one run: poison that was found out.

What it wrote then is held back where only a person sees it; what it replaced or forgot then is put back. Memory says by
itself where it came from; for notes and todos the audit does. What was said is taken back by agents/revert.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from datetime import datetime

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row
from agent_worker.files.root import Root
from agent_worker.memory import memory, notes, todos
from agent_worker.memory.rounds import changes_of


@dataclass(frozen=True, slots=True)
class Reverted:
    """What was taken back, by name."""

    memories: list[str]
    restored: list[str]
    notes: list[str]
    todos: list[str]


def revert(
    root: Root, deeds: Sequence[Row], *, since: str | None, sources: Set[str], gone: Set[str], now: datetime
) -> Reverted:
    """`since` is a day, `sources` are runs; `deeds` is what the audit says of that time and those, oldest first.

    What is from runs that were taken back before, `gone`, is not put back.
    """
    learned = [entry for entry in memory.load(root).entries if _is_meant(entry, since, sources)]
    for entry in learned:
        memory.hold_back(root, entry, when=now)
    merged = _tidied(deeds, {(entry.key, entry.value) for entry in learned})
    good = [each for each in (*_replaced(deeds), *merged) if not _is_meant(each, since, sources | gone)]
    restored = [before.key for before in good if _restored(root, before)]
    written = [row["about"] for row in deeds if row["deed"] == "noted" and notes.hold_back(root, row["about"])]
    planned = {row["about"] for row in deeds if row["deed"] == "planned"}
    return Reverted([entry.key for entry in learned], restored, written, todos.hold_back(root, planned))


def sources_before(deeds: Sequence[Row]) -> set[str]:
    """The runs that what stood there before is from."""
    tidied = (each.before for row in deeds if row["deed"] == "tidied" for each in changes_of(row))
    return {run for entry in (*_replaced(deeds), *tidied) for run in entry.source}


def _is_meant(entry: memory.MemoryEntry, since: str | None, sources: Set[str]) -> bool:
    """Whether an entry was learned since that time or in these runs; what a person wrote stays."""
    if not entry.source:
        return False
    return bool(sources & set(entry.source)) or (since is not None and entry.learned >= since)


def _replaced(deeds: Sequence[Row]) -> list[memory.MemoryEntry]:
    """What stood there before, by key, as the first deed knows it."""
    first: dict[str, str] = {}
    for row in deeds:
        if row["deed"] in ("remembered", "learned", "forgot"):
            first.setdefault(row["about"], row["before"])
    return [memory.from_record(json.loads(before)) for before in first.values() if before]


def _tidied(deeds: Sequence[Row], gone: Set[tuple[str, str]]) -> Iterator[memory.MemoryEntry]:
    """What rounds have merged with something that is taken back now: as it stood before."""
    for row in deeds:
        for each in changes_of(row) if row["deed"] == "tidied" else ():
            if (
                each.what in ("merged", "replaced")
                and {(each.after.key, each.after.value), (each.after.replaced_by, each.before.value)} & gone
            ):
                yield each.before


def _restored(root: Root, before: memory.MemoryEntry) -> bool:
    if memory.find(root, before.key) is not None:
        return False  # somebody has written it anew
    memory.restore(root, before)
    for copy in memory.load(root, only=memory.ARCHIVE).entries:
        if copy.replaced_by and (copy.value, copy.source) == (before.value, before.source):
            memory.take_out(root, copy)  # it holds again
    return True
