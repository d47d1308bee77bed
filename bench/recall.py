"""How much of what was said is found again, and how fast. Prints Markdown.

    uv run python bench/recall.py [--write docs/figures/recall.md] [--against COMMIT]

Recall@k is the share of a question's evidence among the first k results, averaged over the questions of a set:
data/conversations.yaml asks in other words than were said, data/talk.yaml is natural talk, one half of which nobody
tunes on. `--against` sets the ranking of an earlier commit beside today's, in the same run. Speed is measured on
invented talk of the same words, in a real file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path

import apsw
import yaml

from agent_worker.memory.index import Index, IndexedSource
from agent_worker.memory.index_tables import IndexEntry
from agent_worker.memory.meaning import Meaning, load_embedding
from agent_worker.memory.recall import SearchScope, recall
from agent_worker.memory.words import STOP_WORDS
from measures import earlier, plot

DATA = Path(__file__).parent / "data" / "conversations.yaml"
TALK = Path(__file__).parent / "data" / "talk.yaml"
HALVES = ("tuned", "held out")
NOW = datetime(2026, 6, 1, 9, 0, tzinfo=UTC)
DEPTHS = (5, 10, 20)
HAYSTACK = 100_000  # invented entries among which the real ones are looked for
SIZES = (10_000, 100_000)  # of what is searched for its speed
BEFORE = "817bc61"  # ranked each turn by its own words and age alone
WRITTEN = "Written by `uv run python bench/recall.py --write docs/figures/recall.md`.\n\n"

Search = Callable[[str], Sequence[str]]  # a query → the ids found, best first


@dataclass(frozen=True, slots=True)
class Question:
    ask: str
    evidence: frozenset[str]
    held: bool = False  #: out: of the half that nobody tunes on


def load(path: Path = DATA) -> tuple[list[IndexEntry], list[Question]]:
    data = yaml.safe_load(path.read_text())
    turns: list[IndexEntry] = []
    questions = [Question(item["ask"], frozenset(item["evidence"])) for item in data.get("questions", ())]
    for conversation in data["conversations"]:
        name = conversation["name"]
        for session in conversation["sessions"]:
            begin = datetime.fromisoformat(session["at"]).replace(tzinfo=UTC)
            for minute, turn in enumerate(session["turns"]):
                ((who, text),) = turn.items()
                number, author = who.split()
                at = begin + timedelta(minutes=minute)
                turns.append(IndexEntry(f"{name}/{number}", "history", name, text, author, at, int(number)))
        for item in conversation.get("questions", ()):
            evidence = frozenset(f"{name}/{number}" for number in item["evidence"])
            questions.append(Question(item["ask"], evidence, conversation.get("held", False)))
    return turns, questions


def recall_at(questions: Sequence[Question], search: Search) -> list[float]:
    found = [(question, list(search(question.ask))) for question in questions]
    return [
        statistics.mean(len(question.evidence & set(ids[:depth])) / len(question.evidence) for question, ids in found)
        for depth in DEPTHS
    ]


def plain_fts(turns: Sequence[IndexEntry], tokenizer: str, match: Callable[[str], str]) -> Search:
    """FTS5 as one would first use it, to compare with."""
    db = apsw.Connection(":memory:")
    db.execute(f"create virtual table turn using fts5 (id unindexed, text, tokenize = '{tokenizer}')")
    db.executemany("insert into turn values (?, ?)", [(turn.id, turn.text) for turn in turns])

    def search(query: str) -> list[str]:
        try:
            found = db.execute("select id from turn where turn match ? order by rank limit 20", (match(query),))
            return [id for (id,) in found]
        except apsw.SQLError:  # it was syntax
            return []

    return search


def any_word(query: str) -> str:
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query.lower()))


def any_telling_word(query: str) -> str:
    words = re.findall(r"\w+", query.lower())
    return " OR ".join(f'"{word}"' for word in words if word not in STOP_WORDS)


def ours(index: Index, meaning: Meaning | None = None) -> Search:
    return lambda query: [
        found.entry.id for found in recall([SearchScope(index, meaning=meaning)], query, now=NOW, limit=max(DEPTHS))
    ]


def filled(path: Path | None, entries: Sequence[IndexEntry]) -> Index:
    by_source: dict[str, list[IndexEntry]] = {}
    for entry in entries:
        by_source.setdefault(entry.source, []).append(entry)
    index = Index(path)
    index.sync(IndexedSource(name, partial(iter, found)) for name, found in by_source.items())
    return index


def invented(turns: Sequence[IndexEntry], count: int) -> list[IndexEntry]:
    """Talk about nothing: the words of the conversations and many rare ones, as often as words are used."""
    dice = random.Random(7)
    said = Counter(word for turn in turns for word in re.findall(r"[a-z]+", turn.text.lower()))
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    rare = ["".join(dice.choices(syllables, k=3)) for _ in range(20_000)]
    words = [word for word, _ in said.most_common()] + rare
    weights = list(accumulate(1 / (rank + 10) for rank in range(len(words))))
    return [
        IndexEntry(
            id=f"noise/{number}",
            kind="history",
            source=f"noise-{number // 500}",
            text=" ".join(dice.choices(words, cum_weights=weights, k=dice.randint(4, 24))),
            author=dice.choice(("xenia", "york", "zoe")),
            at=NOW - timedelta(minutes=3 * (count - number)),
            position=number,
        )
        for number in range(count)
    ]


def milliseconds(search: Search, queries: Sequence[str]) -> list[float]:
    """Per query, the best of three: other work on the machine is not what is measured."""
    times = []
    for query in queries:
        runs = []
        for _ in range(3):
            begin = time.perf_counter()
            search(query)
            runs.append(time.perf_counter() - begin)
        times.append(1000 * min(runs))
    return sorted(times)


Sets = dict[str, dict[str, list[float]]]  # method → group of questions → recall at each depth


def measured(sets: Sequence[tuple[Sequence[IndexEntry], dict[str, list[Question]]]]) -> Sets:
    """The two ways in which we search, over every group of questions."""
    embedding, found = load_embedding(), Sets()
    for turns, groups in sets:
        ways = {"default": ours(filled(None, turns))}
        if embedding:
            ways["semantic"] = ours(filled(None, turns), Meaning(embedding, None))
        for way, search in ways.items():
            for group, questions in groups.items():
                found.setdefault(way, {})[group] = recall_at(questions, search)
    return found


def both_sets() -> list[tuple[list[IndexEntry], dict[str, list[Question]]]]:
    turns, questions = load()
    talk, asked = load(TALK)
    return [
        (turns, {"English": _latin(questions), "Chinese and Japanese": _other(questions)}),
        (talk, {half: [each for each in asked if each.held == (half == HALVES[1])] for half in HALVES}),
    ]


def of_commit(commit: str) -> Sets:
    """The same measured with the source of an earlier commit; empty where there is none."""
    with tempfile.TemporaryDirectory(prefix="earlier-") as folder:
        source = earlier.clone(commit, Path(folder))
        environment = os.environ | {"PYTHONPATH": str(source)}
        _rename(source)
        command = (sys.executable, __file__, "--json")
        return dict(json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout))


def _rename(source: Path) -> None:
    """Give the search of an early commit the names by which it is imported here; what it does stays as it was."""
    then, now = source / "agent_worker" / "guard", source / "agent_worker" / "memory"
    if not (then / "recall.py").exists():
        return
    now.mkdir(exist_ok=True)
    (now / "__init__.py").write_text("")
    for module, names in RENAMED.items():
        given = ", ".join(f"{old} as {new}" for old, new in names.items())
        (now / f"{NEW_MODULES.get(module, module)}.py").write_text(f"from agent_worker.guard.{module} import {given}\n")


#: What of the search had other names at first: by module, each with the name of today.
RENAMED = {
    "index": {"Index": "Index", "Source": "IndexedSource"},
    "tables": {"Entry": "IndexEntry"},
    "meaning": {"Meaning": "Meaning", "load_embedding": "load_embedding"},
    "recall": {"Place": "SearchScope", "recall": "recall"},
    "words": {"STOP_WORDS": "STOP_WORDS"},
}
NEW_MODULES = {"tables": "index_tables"}


def quality(against: str | None) -> dict[str, float]:
    """Prints the tables; recall@10 in English by method, in %."""
    (turns, groups), (talk, halves) = both_sets()
    now = measured([(turns, groups), (talk, halves)])
    then = of_commit(against) if against else {}
    english, other = groups.values()
    print("## Asked in other words\n")
    print(f"{len(turns)} turns, {len(english)} questions in English, {len(other)} in Chinese and Japanese\n")
    haystack = ours(filled(None, [*turns, *invented(turns, HAYSTACK)]))
    rows = {name: _asked(search, groups) for name, search in plain(turns).items()}
    rows |= _named(now, then, against)
    rows[f"default, among {HAYSTACK:,} invented entries of the same words"] = _asked(haystack, groups)
    _table(rows, list(groups))
    print(
        f"\n## Natural talk\n\n{len(talk)} turns, {' and '.join(_counted(halves))}: the second half nobody tunes on\n"
    )
    _table({name: _asked(search, halves) for name, search in plain(talk).items()} | _named(now, then, against), HALVES)
    if "semantic" not in now:
        print("\n(`semantic` is not installed)")
    return {name.strip("*"): 100 * found["English"][DEPTHS.index(10)] for name, found in rows.items()}


def plain(turns: Sequence[IndexEntry]) -> dict[str, Search]:
    return {
        "the query straight into MATCH (AND)": plain_fts(turns, "unicode61", lambda query: query),
        "OR of all words, unicode61": plain_fts(turns, "unicode61", any_word),
        "porter, stop words": plain_fts(turns, "porter unicode61", any_telling_word),
    }


def _asked(search: Search, groups: dict[str, list[Question]]) -> dict[str, list[float]]:
    return {group: recall_at(questions, search) for group, questions in groups.items()}


def _named(now: Sets, then: Sets, against: str | None) -> Sets:
    before = {f"{way}, by the source of {against}": found for way, found in then.items()}
    return before | {f"**{way}**": found for way, found in now.items()}


def _table(rows: Sets, groups: Sequence[str]) -> None:
    print(f"| method | recall@5 / @10 / @20, {' | '.join(groups)} |\n|{'---|' * (1 + len(groups))}")
    for name, found in rows.items():
        cells = (" / ".join(f"{100 * value:.0f}" for value in found[group]) for group in groups)
        print(f"| {name} | {' | '.join(cells)} |")


def _counted(groups: dict[str, list[Question]]) -> list[str]:
    return [f"{len(questions)} questions {group}" for group, questions in groups.items()]


def _latin(questions: Sequence[Question]) -> list[Question]:
    return [question for question in questions if question.ask.isascii()]


def _other(questions: Sequence[Question]) -> list[Question]:
    return [question for question in questions if not question.ask.isascii()]


def speed(turns: Sequence[IndexEntry], questions: Sequence[Question]) -> None:
    embedding = load_embedding()
    queries = [question.ask for question in questions if question.ask.isascii()]
    print("\n## How fast\n")
    print("| entries | indexed/s | query, median / p90 / max ms | + semantic, median ms |\n|---|---|---|---|")
    for count in SIZES:
        talk = invented(turns, count)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / ".index" / "recall.db"
            begin = time.perf_counter()
            index = filled(path, talk)
            rate = count / (time.perf_counter() - begin)
            times = milliseconds(ours(index), queries)
            meant = "-"
            if embedding:
                with_meaning = ours(index, Meaning(embedding, path.with_name("meaning.npz")))
                meant = f"{statistics.median(milliseconds(with_meaning, queries)):.1f}"
            middle, late, last = statistics.median(times), times[int(0.9 * len(times))], times[-1]
            print(f"| {count:,} | {rate:,.0f} | {middle:.1f} / {late:.1f} / {last:.1f} | {meant} |")
            index.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path, help="also write the page here")
    parser.add_argument("--against", metavar="COMMIT", default=BEFORE, help="the ranking to compare with; '' for none")
    parser.add_argument("--json", action="store_true", help="only what the source in use finds")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measured(both_sets())))
        return
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        print(f"# What is found again\n\n{WRITTEN}", end="")
        found = quality(options.against)
        speed(*load())
    print(page.getvalue())
    if options.write:
        picture = plot.bars(options.write, found, most=None, label="of the evidence among the first ten, English, in %")
        head, rest = page.getvalue().split(WRITTEN)
        options.write.write_text(f"{head}{WRITTEN}{picture}{rest}")


if __name__ == "__main__":
    main()
