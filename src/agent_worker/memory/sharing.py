"""What an agent shares with its colleagues: entries of its memory that are marked for it, and nothing beyond.

Private entries are gone before anything is compared, so no answer depends on them. An entry that gives away a private
one, in its words or nearly so, or by a rare token of it, spelled or encoded (spellings.py), is not told whatever
it is marked as, and its owner hears of that. Nor is what was learned from outside told until a person has released it,
nor what is disputed.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from threading import Lock

from agent_worker.core.later import dataclass, pattern
from agent_worker.files.root import Root
from agent_worker.memory import index_tables, memory
from agent_worker.memory.facts import content_of
from agent_worker.memory.index import Index
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.recall import SearchScope, recall
from agent_worker.memory.spellings import spellings, squeezed

OPEN = frozenset({"shareable", "public"})
MOST = 5
LONG_ENOUGH = 8  # characters; shorter private values are part of honest sentences
RARE = 6  # characters of a token that gives something away
_TOKEN = pattern(r"[^\s\"'`,;()<>{}\[\]]+")
PIECE = 3  # characters of such a token that are no chance, if another entry has the rest of it
NEARLY = 0.8  # share of what a private sentence speaks of, from which on another one gives it away
TELLING = 4  # words of content that such a sentence must have
REMEMBERED = 16  # memories of which it is remembered what may be told
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
    """All that may be told to somebody. Of a memory that has not changed it is known."""
    entries = tuple(entry for entry in memory.load(root).entries if entry.file != memory.ARCHIVE)
    place = (str(root.location()), asker)
    with _REMEMBERING:
        known = _KNOWN.get(place)
    if known is None or known[0] != entries:
        known = entries, _shareable(entries, asker)
        with _REMEMBERING:
            _KNOWN[place] = known
            _KNOWN.move_to_end(place)
            while len(_KNOWN) > REMEMBERED:
                _KNOWN.popitem(last=False)
    return known[1]


_KNOWN: OrderedDict[tuple[str, str], tuple[tuple[MemoryEntry, ...], Shared]] = OrderedDict()
_REMEMBERING = Lock()


def _shareable(entries: Sequence[MemoryEntry], asker: str) -> Shared:
    marked = [e for e in entries if is_open(e, asker) and not e.from_outside and not e.disputes]
    private = [entry for entry in entries if not is_open(entry, asker)]
    given_away = {entry.key: gives_away(said(entry), private) for entry in marked}
    given_away |= _in_pieces([entry for entry in marked if not given_away[entry.key]], private)
    return Shared(
        tuple(entry for entry in marked if not given_away[entry.key]),
        tuple((entry, key) for entry in marked if (key := given_away[entry.key])),
    )


def said(entry: MemoryEntry) -> str:
    """Everything that is told of an entry: whoever hears it hears its key."""
    return f"{entry.key}: {entry.value}"


def is_open(entry: MemoryEntry, asker: str = "") -> bool:
    """Whether an entry is meant for who asks; '' is anybody."""
    return entry.visibility in OPEN or asker in entry.share_with


def gives_away(text: str, private: Iterable[MemoryEntry]) -> str:
    """The key of a private entry that somebody would know who reads this; '' when there is none."""
    plain, spelled, speaks_of = _plain(text), spellings(text), content_of(text)
    for entry in private:
        value, tokens, words = _looked_for(entry.value)
        if value and value in plain:
            return entry.key
        if len(words) >= TELLING and len(words & speaks_of) >= NEARLY * len(words):
            return entry.key
        for token in tokens:
            if token in spelled:
                return entry.key
    return ""


@lru_cache(20_000)
def _looked_for(value: str) -> tuple[str, tuple[str, ...], frozenset[str]]:
    """The parts of a private text that nobody may be told: its words, if they are long enough, its rare tokens, its
    content.
    """
    plain = _plain(value)
    return plain if len(plain) >= LONG_ENOUGH else "", _rare(value), content_of(value)


def _in_pieces(marked: Sequence[MemoryEntry], private: Iterable[MemoryEntry]) -> dict[str, str]:
    """Which entries together tell a rare token, a piece each, and the key of what they give away."""
    whose: dict[str, set[str]] = {}
    for entry in marked:
        for token in _TOKEN.findall(said(entry)):
            whose.setdefault(squeezed(token), set()).add(entry.key)
    found = dict[str, str]()
    for entry in private:
        for token in _looked_for(entry.value)[1]:
            for cut in range(PIECE, len(token) - PIECE + 1):
                first, rest = whose.get(token[:cut]), whose.get(token[cut:])
                if first and rest and not token[:cut].isalpha() | token[cut:].isalpha():
                    found |= dict.fromkeys(first | rest, entry.key)
    return found


def _rare(text: str) -> tuple[str, ...]:
    """Tokens that nobody would say by chance: numbers, codes, names of machines, keys."""
    return tuple(squeezed(token) for token in _TOKEN.findall(text) if _is_rare(token.strip(".:!?")))


def _is_rare(token: str) -> bool:
    if len(squeezed(token)) < RARE:
        return False
    mixed = token[1:] != token[1:].lower() and token[1:] != token[1:].upper()
    return any(map(str.isdigit, token)) or mixed or (len(token) >= 12 and _entropy(token) >= _ENTROPY)


def _entropy(token: str) -> float:
    return -sum(n / len(token) * math.log2(n / len(token)) for n in Counter(token).values())


def _indexed(id: str, entry: MemoryEntry) -> index_tables.IndexEntry:
    return index_tables.IndexEntry(id=id, kind="memory", source="shared", text=entry.value, label=entry.key)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def names(colleagues: Iterable[str]) -> tuple[str, ...]:
    """The names of colleagues as they are written in a file, each once."""
    return tuple(dict.fromkeys(each.removeprefix("@") for each in colleagues))
