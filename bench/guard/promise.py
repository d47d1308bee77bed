"""What a promise of the Guard is measured by: one module of this folder per promise, each with a function `measure`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure and what it must reach. `met` None: nobody has set a bar, the figure is there to be noticed."""

    what: str
    measured: str
    bar: str = ""
    met: bool | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    title: str
    about: str
    bars: Sequence[Bar]

    def markdown(self) -> str:
        rows = [f"| {each.what} | {each.measured} | {each.bar} | {_said(each.met)} |" for each in self.bars]
        if not rows:
            return f"## {self.title}\n\n{self.about}\n"
        table = "\n".join(["| what | measured | bar | met |", "| --- | --- | --- | --- |", *rows])
        return f"## {self.title}\n\n{self.about}\n\n{table}\n"


def _said(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "**no**"
