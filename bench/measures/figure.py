"""One measured figure, the row and the page it makes, and how CPU time is taken."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from measures import plot

HEAD = ("what", "measured", "CPU", "baseline in the same run", "ratio", "target", "met")


@dataclass(frozen=True, slots=True)
class Figure:
    what: str
    measured: str
    cpu: str
    baseline: str
    ratio: float  #: measured against the baseline; its direction is said in `what` or `target`
    target: str = ""
    met: bool | None = None  #: None where nobody set a target
    part: float | None = None  #: of the target that is used: 1 is all of it
    cost: float | None = None  #: what a change is compared by: CPU seconds of one, or megabytes

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = {True: "yes", False: "**no**", None: ""}[self.met]
        return (self.what, self.measured, self.cpu, self.baseline, f"{self.ratio:.2f}", self.target, verdict)


@dataclass(slots=True)
class Spent:
    """What a measured block took, in seconds. CPU is that of the whole process, all threads."""

    cpu: float = 0.0
    wall: float = 0.0


@contextmanager
def measured() -> Iterator[Spent]:
    spent = Spent()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield spent
    finally:
        spent.cpu, spent.wall = time.process_time() - cpu, time.perf_counter() - wall


@dataclass(slots=True)
class Series:
    """The same thing measured several times. The best counts: whatever else the machine does only adds to it."""

    all: list[Spent] = field(default_factory=list)

    @contextmanager
    def again(self) -> Iterator[None]:
        with measured() as spent:
            yield
        self.all.append(spent)

    @property
    def cpu(self) -> float:
        return min(spent.cpu for spent in self.all)

    @property
    def wall(self) -> float:
        return min(spent.wall for spent in self.all)


def middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def machine(seconds: float) -> str:
    """What the figures were taken on, for the end of a page."""
    return (
        f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()}, {platform.system()}, "
        f"write-ahead log with `synchronous=full`. Measured in {seconds:.0f} s with {os.cpu_count()} processors at a "
        f"load of {os.getloadavg()[0]:.0f}: above their number, absolute times grow and only the ratios can be "
        "trusted.\n"
    )


def table(figures: Iterable[Figure]) -> str:
    return markdown(HEAD, (figure.cells for figure in figures))


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def write_page(path: Path, head: str, figures: Sequence[Figure], seconds: float) -> None:
    """With a picture of how much of each target is used."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = plot.bars(path, {figure.what: figure.part for figure in figures})
    path.write_text(f"{head}\n{picture}{table(figures)}\n\n{machine(seconds)}")
