"""Takes back what an agent learned since a time, or in one run: poison that was found out (A12).

What it wrote then is held back where only a person sees it; what it replaced or forgot then is put back. Memory says by
itself where it came from; for notes and todos the audit does. Files of conversations stay as they were: they are what
happened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agent_worker.personal import memory, notes, todos
from agent_worker.storage.database import Row
from agent_worker.storage.files import Root


@dataclass(frozen=True, slots=True)
class Reverted:
    """What was taken back, by name."""

    memories: list[str]
    restored: list[str]
    notes: list[str]
    todos: list[str]


def revert(root: Root, deeds: Sequence[Row], *, since: str | None, source: str | None, now: datetime) -> Reverted:
    """`since` is a day, `source` a run; `deeds` is what the audit says of that time or run, oldest first."""
    learned = [entry for entry in memory.load(root).entries if _is_meant(entry, since, source)]
    for entry in learned:
        memory.hold_back(root, entry, when=now)
    restored = [before.key for before in _replaced(deeds) if _restored(root, before)]
    written = [row["about"] for row in deeds if row["deed"] == "noted" and notes.hold_back(root, row["about"])]
    planned = {row["about"] for row in deeds if row["deed"] == "planned"}
    return Reverted([entry.key for entry in learned], restored, written, _tick_off(root, planned))


def _is_meant(entry: memory.Entry, since: str | None, source: str | None) -> bool:
    """Only what was learned; what a person wrote stays."""
    if not entry.source:
        return False
    return entry.source == source if source is not None else entry.updated >= (since or "")


def _replaced(deeds: Sequence[Row]) -> list[memory.Entry]:
    """What stood there before, by key: the first deed knows."""
    first: dict[str, str] = {}
    for row in deeds:
        if row["deed"] in ("remembered", "learned", "forgot"):
            first.setdefault(row["about"], row["before"])
    return [memory.Entry(**json.loads(before)) for before in first.values() if before]


def _restored(root: Root, before: memory.Entry) -> bool:
    if memory.find(root, before.key) is not None:
        return False  # somebody has written it anew
    memory.restore(root, before)
    return True


def _tick_off(root: Root, planned: set[str]) -> list[str]:
    done = [todo for todo in todos.open_items(root) if todo.text in planned]
    for todo in done:
        todos.finish(root, todo.number)
    return [todo.text for todo in done]
