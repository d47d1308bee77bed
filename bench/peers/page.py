"""The page about the comparison: two tables, where we are behind and why, and how it was measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.measures import plot
from bench.peers.arms.contest import AGENTS, STEPS, STEPS_OF_EACH, TURNS
from bench.peers.field import ALL, BY_HAND, OURS, PEERS, SILENCE
from bench.peers.race import Measures

Round = Mapping[str, Measures]


@dataclass(frozen=True, slots=True)
class Column:
    measure: str
    title: str
    why: str  #: where we may be behind
    memory: bool = False

    def text(self, value: float) -> str:
        return f"{value / 1e6:.0f} MB" if self.memory else seconds(value)


ENGINE = "we import and open the engine: SQLite, definitions, tools, the search over memory"
COMMITS = (
    "the answer, the call and its result are three synced commits, and the answer is streamed; each of the agents is a "
    "row, a loop and a run of its own, which by itself costs what an ask costs ([ring](ring.md))"
)

STARTING = (
    Column("import cpu", "import, CPU", "what is imported is the names; the engine comes when it is opened"),
    Column("import wall", "import, wall", "as its CPU"),
    Column("import memory", "memory after import", "as its CPU", memory=True),
    Column("first wall", "start → first model call", ENGINE),
    Column("first cpu", "CPU of a process with one answer", ENGINE),
)
WORKING = (
    Column("step cpu", "a step, CPU", COMMITS),
    Column("step added", "a step, wall beyond by hand", COMMITS),
    Column(
        "turn cpu",
        "a turn of two, CPU",
        "for us a turn is a whole run: taken from the queue, prompted from the channel, committed, delivered, appended "
        "to the channel's file. Measured apart: a third of the CPU of the twenty turns is the start of the team, "
        "whose definition is checked and whose room is opened, and the first turn of each; of a turn after that, most "
        "is what a run with a mock model costs too ([ring](ring.md)). For them a turn is little more than the request",
    ),
    Column("turn wall", "a turn of two, wall", "as its CPU, and commits are synced"),
    Column(
        "crowd cpu",
        f"{AGENTS} agents × {STEPS_OF_EACH}, CPU",
        "each step is committed. Measured apart: half of our CPU is the event loop (the request, its stream, the call "
        "of the tool, what is told of it), more than a third the thread that commits, nearly a tenth the files of what "
        "was said to each agent. More than a quarter of all of it each of these agents costs but once, with its run",
    ),
    Column("crowd wall", "the same, wall", COMMITS),
    Column("crowd memory", "memory at its most", ENGINE, memory=True),
)


def page(rounds: Sequence[Round], picture: str, *, cut_off: bool, minutes: float) -> str:
    network = (
        "in a network namespace with nothing but loopback" if cut_off else "with the network of the machine reachable"
    )
    return f"""# Beside other libraries

Written by `uv run python -m bench.peers --write docs/figures/peers.md`; [how it works](../../bench/README.md).

The same work, done with each library by its simplest documented means, against the same model server on loopback,
which answers at once. **Ours keeps everything**: each step is committed to SQLite with full sync before the next, as
always. The others keep nothing, except *LangGraph + SQLite*, which has its checkpointer with `durability="sync"`: the
nearest to what we promise. *By hand* is a loop around an HTTP client, without any library. In brackets: theirs against
ours, so that above 1 we are ahead; with a ≈ where not every round says the same, so that nobody is.

{picture}## Starting

{table(STARTING, rounds)}

*Start → first model call* is the time from starting the process until the model hears from it. It is the row to read:
we import the engine when it is opened, which flatters us in the rows of the import.

## Working

{table(WORKING, rounds)}

- **A step**: one agent, {STEPS} steps with a call of one tool each and a last answer; figures are per model call.
  *Beyond by hand*: wall time less that of the loop by hand, in the same round.
- **A turn of two**: two agents answer each other, {TURNS} turns; figures are per turn.
- **{AGENTS} agents × {STEPS_OF_EACH}**: made and asked at once, {STEPS_OF_EACH} steps and an answer each. Ours runs \
8 of them at a time.

Why a step is cheaper with us though it is kept: OpenAI's library, which the others use, goes through the whole
conversation again at every request in search of keys to rename. We speak to the model without it.

## Where we are behind, in every round

{behind(rounds)}

## Where the rounds do not agree

{undecided(rounds)}

## How it was measured

{versions()}. Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} processors at a load of \
{os.getloadavg()[0]:.0f}; medians of {len(rounds)} rounds in {minutes:.0f} minutes, in each of which all arms take \
turns. The largest CPU figure of the rounds is typically {spread(rounds):.2f} times the smallest; wall times vary more.
CPU is that of the whole client process, all threads, and the figure to trust; the model is a process of its own and
is not counted. Memory is the largest resident size. Steps, turns and the {AGENTS} agents are measured in a process that
has already had one answer.

Every arm speaks chat completions; ours streams the answers, as it always does, the others do not by default. The model
counts the requests and checks every result of the tool; an arm that asks once too often or too little, or whose last
answer is not the sum, ends the measurement. Arms run {network}, with these set: \
{", ".join(f"`{name}={value}`" for name, value in SILENCE.items())}, and `telemetry=False` (Agno), \
`set_tracing_disabled(True)` (OpenAI Agents SDK). CrewAI prints a box about every agent, as it does by default.
"""


def medians(rounds: Sequence[Round]) -> dict[str, Measures]:
    """In the order of the field, whoever began."""
    names = [arm.name for arm in ALL if arm.name in rounds[0]]
    return {name: {m: statistics.median(each[name][m] for each in rounds) for m in rounds[0][name]} for name in names}


def spread(rounds: Sequence[Round]) -> float:
    """How far apart the rounds are: a typical figure of CPU, its largest against its smallest."""
    figures = [(name, m) for name, measures in rounds[0].items() for m in measures if m.endswith("cpu")]
    taken = [[each[name][m] for each in rounds] for name, m in figures]
    return statistics.median(max(values) / min(values) for values in taken)


def lead(rounds: Sequence[Round], name: str, measure: str) -> Literal["ours", "theirs", "nobody's"]:
    """Whose it is in every single round."""
    ours = [each[name][measure] > each[OURS.name][measure] for each in rounds]
    theirs = [each[name][measure] < each[OURS.name][measure] for each in rounds]
    return "ours" if all(ours) else "theirs" if all(theirs) else "nobody's"


def table(columns: Sequence[Column], rounds: Sequence[Round]) -> str:
    rows = [["", *(c.title for c in columns)], ["---"] * (len(columns) + 1)]
    for name in medians(rounds):
        shown = f"**{name}**" if name == OURS.name else f"*{name}*" if name == BY_HAND.name else name
        rows.append([shown, *(_cell(c, name, rounds) for c in columns)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(column: Column, name: str, rounds: Sequence[Round]) -> str:
    found = medians(rounds)
    value, ours = found[name][column.measure], found[OURS.name][column.measure]
    if name == OURS.name:
        return f"**{column.text(value)}**"
    if name == BY_HAND.name and column.measure == "step added":
        return "–"
    about = "≈ " if lead(rounds, name, column.measure) == "nobody's" else ""
    return f"{column.text(value)} ({about}{value / ours:.1f})"


def behind(rounds: Sequence[Round]) -> str:
    lines = [f"- **{c.title}**: {names}. Why: {c.why}." for c, names in _with_lead(rounds, "theirs")]
    return "\n".join(lines) or "Nowhere."


def undecided(rounds: Sequence[Round]) -> str:
    return "\n".join(f"- {c.title}: {names}" for c, names in _with_lead(rounds, "nobody's")) or "Nowhere."


def _with_lead(rounds: Sequence[Round], whose: str) -> Iterator[tuple[Column, str]]:
    found = medians(rounds)
    peers = [peer.name for peer in PEERS if peer.name in found]
    for column in (*STARTING, *WORKING):
        m = column.measure
        names = [name for name in peers if lead(rounds, name, m) == whose]
        if names:
            yield column, ", ".join(f"{name} ({found[name][m] / found[OURS.name][m]:.2f})" for name in names)


def versions() -> str:
    pins = dict.fromkeys(need for peer in PEERS for need in peer.needs)
    return "Newest versions that install together: " + ", ".join(pin.replace("==", " ") for pin in pins)


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.0f} ms" if value >= 0.1 else f"{value * 1e3:.1f} ms"


PLOTTED = tuple(
    column
    for column in (*STARTING, *WORKING)
    if column.measure in ("first cpu", "step cpu", "turn cpu", "crowd cpu", "crowd wall", "crowd memory")
)


def panels(rounds: Sequence[Round]) -> dict[str, dict[str, float]]:
    """By the title of the panel: a bar for everybody."""
    found = medians(rounds)
    drawn = {}
    for column in PLOTTED:
        unit, factor = ("MB", 1e-6) if column.memory else ("ms", 1e3)
        bars = {name: measures[column.measure] * factor for name, measures in found.items()}
        drawn[f"{column.title}, {unit}"] = bars
    return drawn


def draw(path: Path, rounds: Sequence[Round]) -> str:
    """Beside the page; the Markdown that shows it."""
    about = ", ".join(column.title for column in PLOTTED)
    return plot.side_by_side(path, panels(rounds), ours=OURS.name, about=about)
