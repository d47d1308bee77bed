"""What one thing costs at several sizes, and whether it grows as it should.

A *flat* cost must not depend on the size: the last point is set against the first. A *linear* one may grow with it,
but each further piece must cost no more than those before it: the slope of the end is set against the cost of a piece
at the point before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from measures.figure import markdown, measured, ms, us

AT_MOST = 2.0


@dataclass(frozen=True, slots=True)
class Curve:
    what: str
    points: Mapping[int, float]  #: size → CPU seconds, or megabytes
    should: Literal["flat", "linear"] = "flat"
    unit: Literal["time", "MB"] = "time"
    since: int = 0  #: flat from this size on

    @property
    def growth(self) -> float:
        costs = list(self.points.values())
        if self.should == "flat":
            return costs[-1] / next(cost for size, cost in self.points.items() if size >= self.since)
        *_, before, last = self.points
        slope = (self.points[last] - self.points[before]) / (last - before)
        return max(0.0, slope) / (self.points[before] / before)

    @property
    def met(self) -> bool:
        return self.growth <= AT_MOST

    @property
    def cells(self) -> tuple[str, ...]:
        first = next(iter(self.points.values()))
        costs = [f"{self._shown(cost)} ({cost / first:.2f})" for cost in self.points.values()]
        should = f"flat from {self.since}" if self.since else self.should
        return (self.what, *costs, should, f"{self.growth:.2f}", f"≤ {AT_MOST:g}", "yes" if self.met else "**no**")

    def _shown(self, cost: float) -> str:
        if self.unit == "MB":
            return f"{cost:.0f} MB"
        return us(cost) if cost < 0.001 else ms(cost)


@dataclass(frozen=True, slots=True)
class Topic:
    """Curves over the same sizes."""

    title: str
    of: str  #: what the sizes count
    about: str
    curves: Sequence[Curve]

    def table(self) -> str:
        sizes = list(self.curves[0].points)
        head = (self.of, *(f"{size:,}" for size in sizes), "should be", "growth", "target", "met")
        return markdown(head, (curve.cells for curve in self.curves))


Work = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Rounds:
    """The same work at all sizes, in turns, so that all meet the same machine."""

    _taken: dict[str, dict[int, list[float]]] = field(default_factory=dict)

    def note(self, what: str, size: int, cost: float) -> None:
        self._taken.setdefault(what, {}).setdefault(size, []).append(cost)

    async def run(self, what: str, works: Mapping[int, Work], *, rounds: int = 5, calls: int = 1) -> None:
        for _ in range(rounds):
            for size, work in works.items():
                with measured() as spent:
                    for _ in range(calls):
                        await work()
                self.note(what, size, spent.cpu / calls)

    def curves(
        self, *, linear: Collection[str] = (), since: Mapping[str, int] | None = None, megabytes: Collection[str] = ()
    ) -> list[Curve]:
        """The best round of each size: the one that others on this machine disturbed least."""
        return [
            Curve(
                what,
                {size: min(costs) for size, costs in by_size.items()},
                "linear" if what in linear else "flat",
                "MB" if what in megabytes else "time",
                since=(since or {}).get(what, 0),
            )
            for what, by_size in self._taken.items()
        ]
