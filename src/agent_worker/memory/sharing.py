"""What an agent shares with its colleagues: entries of its memory that are marked for it, and nothing beyond.

Private entries are gone before anything is compared, so no answer depends on them. An entry that gives away a private
one, word for word or by a rare token in it, is not told whatever it is marked as, and its owner hears of that. Nor is
what was learned from outside told until a person has released it, nor what is disputed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from agent_worker.core.later import dataclass, pattern
from agent_worker.files.root import Root
from agent_worker.memory import index_tables, memory
from agent_worker.memory.index import Index
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.recall import SearchScope, recall

OPEN = frozenset({"shareable", "public"})
MOST = 5
LONG_ENOUGH = 8  # characters; shorter private values are part of honest sentences
RARE = 6  # characters of a token that gives something away
_TOKEN = pattern(r"[^\s\"'`,;()<>{}\[\]]+")
_ENTROPY = 3.3  # bits a character, of a token that nobody would say by chance


@dataclass(frozen=True, slots=True)
class Shared:
    """What may be told, and what is marked for it and is not, each with the key of what it would give away."""

    told: tuple[MemoryEntry, ...]
    withheld: tuple[tuple[MemoryEntry, str], ...] = ()


def shared(root: Root, question: str, *, asker: str, now: datetime) -> Shared:
    """What answers the question best, of what may be told to who asks. Reads files: call it in a thread."""
    may = shareable(root, asker=asker)
    allowed = {f"{n}": entry for n, entry in enumerate(may.told)}
    index = Index()
    try:
        index.append("shared", [_indexed(id, entry) for id, entry in allowed.items()], stamp="1")
        found = recall([SearchScope(index, None, None)], question, now=now, kinds={"memory"}, limit=MOST)
    finally:
        index.close()
    return Shared(tuple(allowed[each.entry.id] for each in found), may.withheld)


def shareable(root: Root, *, asker: str = "") -> Shared:
    """All that may be told to somebody."""
    entries = [entry for entry in memory.load(root).entries if entry.file != memory.ARCHIVE]
    marked = [e for e in entries if is_open(e, asker) and not e.from_outside and not e.disputes]
    given_away = [(entry, gives_away(entry.value, entries, asker=asker)) for entry in marked]
    return Shared(
        tuple(entry for entry, key in given_away if not key), tuple((entry, key) for entry, key in given_away if key)
    )


def is_open(entry: MemoryEntry, asker: str = "") -> bool:
    """Whether an entry is meant for who asks; '' is anybody."""
    return entry.visibility in OPEN or asker in entry.share_with


def gives_away(text: str, entries: Sequence[MemoryEntry], *, asker: str = "") -> str:
    """The key of a private entry that somebody would know who reads this; '' when there is none."""
    plain, squeezed = _plain(text), _squeezed(text)
    for entry in entries:
        if is_open(entry, asker):
            continue
        value = _plain(entry.value)
        if len(value) >= LONG_ENOUGH and value in plain:
            return entry.key
        if any(token in squeezed for token in _rare(entry.value)):
            return entry.key
    return ""


def _rare(text: str) -> Iterator[str]:
    """Tokens that nobody would say by chance: numbers, codes, names of machines, keys."""
    return (_squeezed(token) for token in _TOKEN.findall(text) if _is_rare(token.strip(".:!?")))


def _is_rare(token: str) -> bool:
    if len(_squeezed(token)) < RARE:
        return False
    mixed = token[1:] != token[1:].lower() and token[1:] != token[1:].upper()
    return any(map(str.isdigit, token)) or mixed or (len(token) >= 12 and _entropy(token) >= _ENTROPY)


def _entropy(token: str) -> float:
    return -sum(n / len(token) * math.log2(n / len(token)) for n in Counter(token).values())


def _squeezed(text: str) -> str:
    """Letters and digits only: whoever spells a code in pieces has told it."""
    return "".join(filter(str.isalnum, text.casefold()))


def _indexed(id: str, entry: MemoryEntry) -> index_tables.IndexEntry:
    return index_tables.IndexEntry(id=id, kind="memory", source="shared", text=entry.value, label=entry.key)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def names(colleagues: Iterable[str]) -> tuple[str, ...]:
    """As they are kept in a file."""
    return tuple(dict.fromkeys(each.removeprefix("@") for each in colleagues))
