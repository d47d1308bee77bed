"""Finds: what was said is found again, by every setting at least as well as by plain words, and at once."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import recall
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import TestClock
from agent_worker.files.root import Root
from agent_worker.memory import library
from agent_worker.memory.library import Library
from agent_worker.tools.recall import history_search
from agent_worker.tools.tool import RunIdentity, ToolContext
from guard.promise import Bar, Promise

A_DAY = 100  # entries in one file
BARS = {10_000: 10.0, 100_000: 25.0}  # entries → milliseconds that 95 % of the searches stay below
ROUNDS = 3  # of which the best counts: other work on the machine is not what is measured
GAIN = 0.02  # of recall@5 on the half that nobody tunes on, over the ranking of before
ABOUT = (
    "Recall@5 on both sets of bench/data; the second half of the natural talk is one that nobody tunes on, and "
    f"'before' is the source of {recall.BEFORE}. A search is the tool `history_search`, called as an agent calls it: "
    "look whether any of its files changed, search, say why each was found. Of each question the best of "
    f"{ROUNDS} counts, once by the processor time of the whole process and once by the clock, on a machine that does "
    "other work beside it; both have to stay below the bar. "
    "The p95 of all calls, by the clock, is said too. `semantic` is timed without one."
)


def measure() -> Promise:
    now, then = recall.measured(recall.both_sets()), recall.of_commit(recall.BEFORE)
    return Promise("finds", ABOUT, [*_found(now, then), *_speed()])


def _found(now: recall.Sets, then: recall.Sets) -> Iterator[Bar]:
    held = recall.HALVES[1]
    for group, values in now["default"].items():
        before = then["default"][group][0]
        least = before + (GAIN if group == held else 0.0)
        bar = f"≥ {100 * least:.0f}, that of before{' + 2' if group == held else ''}"
        yield Bar(f"recall@5, {group}, default", f"{100 * values[0]:.0f}", bar, values[0] >= least)
        if semantic := now.get("semantic"):
            met = semantic[group][0] >= values[0]
            yield Bar(f"recall@5, {group}, semantic", f"{100 * semantic[group][0]:.0f}", "≥ default", met)


def _speed() -> list[Bar]:
    bars = []
    for count, most in BARS.items():
        with tempfile.TemporaryDirectory() as folder:
            home = _written(Path(folder), count)
            with _plain():
                times = _searched(home)
            met = _late(times.processor) < most and _late(times.clock) < most
            bars.append(Bar(f"p95 of a search among {count:,}", _shown(times), f"< {most:.0f} ms", met))
            if count == min(BARS) and library.embedding():
                bars.append(Bar(f"the same with `semantic`, {count:,}", _shown(_searched(home))))
    return bars


def _written(folder: Path, count: int) -> Root:
    """An agent's folder with so many lines of conversation, a file for each day."""
    talk = folder / "conversations"
    talk.mkdir()
    lines = recall.invented(recall.load()[0], count)
    for first in range(0, count, A_DAY):
        records = [
            {"seq": each.position, "who": each.author, "text": each.text, "at": each.at.isoformat() if each.at else ""}
            for each in lines[first : first + A_DAY]
        ]
        day = date(2020, 1, 1) + timedelta(days=first // A_DAY)
        (talk / f"{day}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return Root(folder)


@dataclass
class Times:
    """Milliseconds of each question."""

    processor: list[float]
    clock: list[float]
    every: list[float] = field(default_factory=list)  #: call, by the clock, not only the best


def _searched(home: Root) -> Times:
    """Once everything is indexed."""
    asked = [question.ask for question in recall.load()[1] if question.ask.isascii()]
    mine = Library(home, "alice")
    mine.search("once", now=recall.NOW, kinds=("history",))
    best = asyncio.run(_timed(mine, asked))
    mine.close()
    return best


async def _timed(mine: Library, asked: list[str]) -> Times:
    """The tool `history_search` itself, as an agent calls it in a direct conversation."""
    best = Times([float("inf")] * len(asked), [float("inf")] * len(asked))
    identity = RunIdentity("a_1", "alice", "p_1", "r_1", "m_1", 0)
    async with open_runtime(RuntimeSettings()) as runtime:
        context = ToolContext(identity, runtime.database.of("p_1"), TestClock(recall.NOW), library=mine)
        for _ in range(ROUNDS):
            for number, query in enumerate(asked):
                used, begin = time.process_time(), time.perf_counter()
                await history_search.function(context, query=query, limit=8)
                used, passed = time.process_time() - used, time.perf_counter() - begin
                best.processor[number] = min(best.processor[number], 1000 * used)
                best.clock[number] = min(best.clock[number], 1000 * passed)
                best.every.append(1000 * passed)
    return best


def _late(times: list[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def _shown(times: Times) -> str:
    median, clock = (
        statistics.median(times.processor),
        f"{_late(times.clock):.1f}, of every call {_late(times.every):.1f}",
    )
    return f"{_late(times.processor):.1f} ms (median {median:.1f}); by the clock {clock}"


@contextmanager
def _plain() -> Iterator[None]:
    """As where the extra `semantic` is not installed."""
    known = library.embedding
    library.embedding = lambda: None  # type: ignore[assignment]
    try:
        yield
    finally:
        library.embedding = known
