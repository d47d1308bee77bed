"""Which memories enter a prompt: those that are worth most there, within a number of tokens. Pure.

What an entry is worth follows from how well it answers what is asked, from who said it, and from whether it still
holds. What says the same as another is left out, what is disputed is one line, and a long text is cut to the sentences
that are about the question. Of each entry it is told why it is there, or why not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent_worker.core.later import dataclass
from agent_worker.memory import memory
from agent_worker.memory.claims import COLLEAGUE
from agent_worker.memory.facts import facts, same, sentences
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.words import day_month

CHARACTERS_PER_TOKEN = 4
NEXT, AROUND = 0.7, 0.3  # what a sentence counts for the one before it, and for the one after it
LONG = 240  # characters that a text may always have, before it is cut to what is about the question
CALM = 4.0  # what a sentence of an entry that is about the question counts, whatever its words
SHARING = 12  # entries whose sentences compete for the space
_GAP = " … "
NO_SPACE = "no space left"
LEAST = 0.05  # worth of an entry that has nothing to do with the question

_TRUST = {memory.USER: 1.0, memory.SELF: 0.9, memory.IMPORT: 0.6, memory.OUTSIDE: 0.4}
_OF_COLLEAGUES = 0.7


@dataclass(frozen=True, slots=True)
class Choice:
    """An entry that was looked at: its line in the prompt, or why it has none."""

    entry: MemoryEntry
    line: str  #: '' when it is left out
    worth: float
    why: str


def choose(
    entries: Sequence[MemoryEntry],
    relevance: Mapping[tuple[str, str], float],
    question: str,
    *,
    always: Iterable[str],
    budget: int,
    today: str,
    summaries: Callable[[str], str] = lambda value: "",
) -> list[Choice]:
    """All entries, best first. `relevance` of (file, key) is at most 1; files that are `always` shown come first.

    `budget` is in tokens, `today` is a day. What is in the archive is not for prompts. Of a long entry for which there
    is no space its summary is shown, where there is one.
    """
    first = frozenset(always)
    disputing = {entry.disputes: entry for entry in entries if entry.disputes}
    there = {entry.key for entry in entries}
    held = [each for each in entries if each.tier != memory.ARCHIVE and each.disputes not in there]
    everything = all_fit(entries, budget)
    ranked = _by_worth(held, relevance, first, today)
    matter = [] if everything else [each for each in ranked if _why(each[1], relevance, first)]
    parts = _shares(matter, question, disputing, first, budget)
    left, found, shown = budget, list[Choice](), list[MemoryEntry]()
    for worth, entry in ranked:
        why = _why(entry, relevance, first)
        value = entry.value if everything or entry.file in first else parts.get((entry.file, entry.key), "")
        line = _line(entry, disputing.get(entry.key), value)
        size, why = _size(line), why or ("there was space" if everything else "")
        if why and (size > left or not value) and (short := summaries(entry.value)):
            line = _line(entry, disputing.get(entry.key), short)
            size, value, why = _size(line), short, f"{why}, in short"
        if not why:
            found.append(Choice(entry, "", worth, "not about it"))
        elif twin := next((each for each in shown if same(each.value, entry.value)), None):
            found.append(Choice(entry, "", worth, f"says the same as {twin.key}"))
        elif size > left or not value:
            found.append(Choice(entry, "", worth, NO_SPACE))
        else:
            found.append(Choice(entry, line, worth, why))
            shown.append(entry)
            left -= size
    return found


def _shares(
    ranked: Sequence[tuple[float, MemoryEntry]],
    question: str,
    disputing: Mapping[str, MemoryEntry],
    first: frozenset[str],
    budget: int,
) -> dict[tuple[str, str], str]:
    """What is shown of each entry, by file and key: of long ones the sentences that are worth most in this prompt.

    All sentences of all entries compete: one that is about the question, in an entry that is, comes first.
    """
    left = budget * CHARACTERS_PER_TOKEN
    for _, entry in ranked:
        if entry.file in first:
            left -= _size(_line(entry, disputing.get(entry.key), entry.value)) * CHARACTERS_PER_TOKEN
    some = _different([entry for _, entry in ranked if entry.file not in first])
    worth = {_place(entry): each for each, entry in ranked}
    said = {_place(entry): _in_sentences(entry.value) for entry in some}
    near = _nearness(said, question)
    frame = {_place(entry): _frame(entry, disputing.get(entry.key)) for entry in some}
    order = [(worth[place] * (CALM + each), -n, place) for place in said for n, each in enumerate(near[place])]
    kept: dict[tuple[str, str], set[int]] = {}
    for _, behind, place in sorted(order, key=lambda one: -one[0]):
        size = len(said[place][-behind]) + len(_GAP) + (0 if place in kept else frame[place])
        if size <= left:
            kept.setdefault(place, set()).add(-behind)
            left -= size
    return {
        place: _with_gaps([each if n in chosen else "" for n, each in enumerate(said[place])])
        for place, chosen in kept.items()
    }


def _different(entries: Sequence[MemoryEntry]) -> list[MemoryEntry]:
    """Those of these entries that say something else than all before them."""
    found = list[MemoryEntry]()
    for entry in entries:
        if len(found) < SHARING and not any(same(each.value, entry.value) for each in found):
            found.append(entry)
    return found


def _nearness(said: Mapping[tuple[str, str], Sequence[str]], question: str) -> dict[tuple[str, str], list[float]]:
    """How much each sentence is about the question: a word counts more, the fewer of these entries have it."""
    wanted = _speaks_of(question)
    words = {place: [_speaks_of(each) & wanted for each in some] for place, some in said.items()}
    spread = Counter(word for some in words.values() for word in frozenset[str]().union(*some))
    rare = {word: math.log(1 + (len(said) - spread[word] + 0.5) / (spread[word] + 0.5)) for word in wanted}
    found = {}
    for place, some in words.items():
        alike = [sum(rare[word] for word in each) for each in some]
        # What comes next is often the answer, and what stands around it is more often about it than the rest.
        around = zip(alike, [0.0, *alike[:-1]], [*alike[1:], 0.0], strict=True)
        found[place] = [own + NEXT * before + AROUND * after for own, before, after in around]
    return found


def _in_sentences(text: str) -> list[str]:
    """A short text is one: it is shown as a whole or not at all."""
    return [text] if len(text) <= LONG else sentences(text)


def _speaks_of(text: str) -> frozenset[str]:
    said = facts(text)
    return said.words | frozenset(map(str.lower, said.fixed))


def _place(entry: MemoryEntry) -> tuple[str, str]:
    return entry.file, entry.key


def _frame(entry: MemoryEntry, otherwise: MemoryEntry | None) -> int:
    """How many characters the line of an entry takes beside what the entry says; a line takes whole tokens."""
    return len(_line(entry, otherwise, "")) + len("- \n") + len(_GAP) + CHARACTERS_PER_TOKEN


def all_fit(entries: Sequence[MemoryEntry], budget: int) -> bool:
    """Whether there is nothing to choose: then nobody has to look which ones are about the question."""
    return sum(_size(f"{each.key}: {each.value}") for each in entries if each.tier != memory.ARCHIVE) <= budget


def _by_worth(
    entries: Sequence[MemoryEntry], relevance: Mapping[tuple[str, str], float], first: frozenset[str], today: str
) -> list[tuple[float, MemoryEntry]]:
    weighed = [(_worth(entry, relevance.get((entry.file, entry.key), 0.0), today), entry) for entry in entries]
    return sorted(weighed, key=lambda one: (one[1].file not in first, -one[0]))


def _worth(entry: MemoryEntry, relevance: float, today: str) -> float:
    trusted = _TRUST.get(entry.by, _OF_COLLEAGUES)
    holds = 0.2 if entry.until and entry.until[:10] <= today else 0.7 if _is_overdue(entry, today) else 1.0
    return round(max(relevance, LEAST) * trusted * holds * (1 + 0.1 * math.log2(entry.seen)), 4)


def _is_overdue(entry: MemoryEntry, today: str) -> bool:
    return bool(entry.check_after and entry.check_after[:10] <= today)


def _size(line: str) -> int:
    """The tokens that an entry takes, with the dash before it."""
    return (len(line) + 2) // CHARACTERS_PER_TOKEN + 1


def _why(entry: MemoryEntry, relevance: Mapping[tuple[str, str], float], first: frozenset[str]) -> str:
    if entry.file in first:
        return "always shown"
    return "is about it" if relevance.get((entry.file, entry.key)) else ""


def _line(entry: MemoryEntry, otherwise: MemoryEntry | None, value: str) -> str:
    disputed = f"; disputed: {otherwise.value} ({_origin(otherwise)})" if otherwise else ""
    origin = _origin(entry)
    return f"{entry.key}: {value}{f' ({origin})' if origin else ''}{disputed}"


def _origin(entry: MemoryEntry) -> str:
    """Who says so and when, in a few words; '' for what a person wrote into the file."""
    who = {memory.USER: "the person" if entry.source else "", memory.SELF: "yourself", memory.OUTSIDE: "from outside"}
    said = who.get(entry.by, entry.by.removeprefix(COLLEAGUE))
    return ", ".join(filter(None, (said, day_month(entry.day) if said else "")))


def _with_gaps(parts: Sequence[str]) -> str:
    said: list[str] = []
    for part in parts:
        if part or not said or said[-1] != "…":
            said.append(part or "…")
    return " ".join(said)
