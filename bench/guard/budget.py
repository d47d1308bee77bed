"""Budget: of what a question needs, how much is in the prompt, within a number of tokens.

The natural talk of bench/data, written down as an agent would: one memory for every few turns, so that each holds more
than what is asked for. Chosen by what it is worth and cut to what is about the question, against the plain way: the
hits of the same search, whole, one after the other until the space is used.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import yaml

import recall
from agent_worker.files.root import Root
from agent_worker.memory import library, memory, selection
from agent_worker.memory.facts import sentences
from agent_worker.memory.library import OWN, Library
from agent_worker.memory.memory import MemoryEntry
from guard.promise import Bar, Promise

BUDGETS = (500, 1000, 2000)  # tokens
TURNS = (2, 6, 12, 24)  # in one memory, by turns
HITS = 50  # that are looked at, as for a prompt
GAIN = 5.0  # points above the plain way, at the smallest budget
CHARACTERS = 4  # of a token
TUNED, HELD = recall.HALVES

Relevance = Mapping[tuple[str, str], float]
ABOUT = (
    "The share of a question's evidence that stands in the prompt. The memories hold the natural talk of bench/data, "
    f"{', '.join(map(str, TURNS))} turns each; the plain way takes the hits of the same search whole, in their order. "
    "How sentences are chosen was tuned on one half of the questions; of the other the totals were looked at, and "
    "nothing else."
)


def measure() -> Promise:
    turns, questions = _both()
    known = library.embedding
    library.embedding = lambda: None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        home = _written(Path(folder) / "alice", turns)
        mine = Library(home, "alice")
        try:
            asked = [(each, _relevance(home, mine, each.ask)) for each in questions]
        finally:
            mine.close()
            library.embedding = known
        entries = memory.load(home).entries
    texts = {turn.id: turn.text for turn in turns}
    halves = {half: [each for each in asked if each[0].held == (half == HELD)] for half in (TUNED, HELD)}
    bars = [
        bar for half, some in halves.items() for budget in BUDGETS for bar in _bars(half, budget, entries, some, texts)
    ]
    return Promise("budget", ABOUT, bars)


def _both() -> tuple[list[recall.IndexEntry], list[recall.Question]]:
    """The natural talk has halves already; of the other set every second conversation is held out."""
    (talk, asked), (other, more) = recall.load(recall.TALK), recall.load()
    where = {turn.id: turn.source for turn in other}
    questions = [each for each in more if each.ask.isascii()]
    names = sorted({where[min(each.evidence)] for each in questions})
    rest = [replace(each, held=where[min(each.evidence)] in names[1::2]) for each in questions]
    return [*talk, *other], [*asked, *rest]


def _written(folder: Path, turns: Sequence[recall.IndexEntry]) -> Root:
    (folder / "memory").mkdir(parents=True)
    talks: dict[str, list[recall.IndexEntry]] = {}
    for turn in turns:
        talks.setdefault(turn.source, []).append(turn)
    notes = {
        f"{name} {number}": "\n".join(f"{turn.author}: {turn.text}" for turn in some)
        for name, said in talks.items()
        for number, some in enumerate(_in_parts(said))
    }
    (folder / "memory" / "working.yaml").write_text(yaml.safe_dump(notes, sort_keys=False))
    return Root(folder)


def _in_parts(said: Sequence[recall.IndexEntry]) -> Iterator[Sequence[recall.IndexEntry]]:
    first = 0
    for size in cycle(TURNS):
        if first >= len(said):
            return
        yield said[first : first + size]
        first += size


def _relevance(home: Root, mine: Library, question: str) -> Relevance:
    found = mine.search(question, now=recall.NOW, kinds={"memory"}, limit=HITS)
    files = {f"{OWN}{memory.path_of(file)}": file for file in memory.files(home)}
    best = max((each.score for each in found), default=1.0)
    return {(files[each.entry.source], each.entry.id): each.score / best for each in found}


def _bars(
    half: str,
    budget: int,
    entries: Sequence[MemoryEntry],
    asked: Sequence[tuple[recall.Question, Relevance]],
    texts: Mapping[str, str],
) -> list[Bar]:
    chosen, plain, overruns = [], [], 0
    for question, relevance in asked:
        choices = selection.choose(
            entries, relevance, question.ask, always=(), budget=budget, today=f"{recall.NOW:%Y-%m-%d}"
        )
        shown = "\n".join(f"- {each.line}" for each in choices if each.line)
        overruns += len(shown) > budget * CHARACTERS
        chosen.append(_share(shown, question, texts))
        plain.append(_share(_first_hits(entries, relevance, budget), question, texts))
    ours, theirs = (100 * sum(each) / len(asked) for each in (chosen, plain))
    more = GAIN if budget == min(BUDGETS) else 0
    wanted = f"≥ {theirs + more:.1f}, the plain way{f' + {GAIN:.0f}' if more else ''}"
    said = f"{ours:.1f} % (the plain way {theirs:.1f})"
    return [
        Bar(f"evidence within {budget:,} tokens, {half}", said, wanted, ours >= theirs + more),
        Bar(f"prompts beyond {budget:,} tokens, {half}", f"{overruns} of {len(asked)}", "0", overruns == 0),
    ]


def _first_hits(entries: Sequence[MemoryEntry], relevance: Relevance, budget: int) -> str:
    lines: list[str] = []
    for place in sorted(relevance, key=lambda one: -relevance[one]):
        entry = next(each for each in entries if (each.file, each.key) == place)
        line = f"- {entry.key}: {entry.value}"
        if len("\n".join([*lines, line])) > budget * CHARACTERS:
            break
        lines.append(line)
    return "\n".join(lines)


def _share(shown: str, question: recall.Question, texts: Mapping[str, str]) -> float:
    """Of the evidence: a turn is there if most of its sentences are."""
    there = 0
    for id in question.evidence:
        parts = sentences(texts[id])
        there += sum(part in shown for part in parts) > len(parts) / 2
    return there / len(question.evidence)


if __name__ == "__main__":
    print(measure().markdown())
