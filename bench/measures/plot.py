"""The pictures beside the pages: bars against a target, bars side by side, curves of growth, lines over time.

Each function draws beside its page and returns the Markdown that shows it. What draws is matplotlib, which is no
dependency of ours: `uv run --with matplotlib` starts this file again as a program that reads the panels from its
input. Where that cannot be had the page is written without its picture.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

COMMAND = ("uv", "run", "--no-project", "--quiet", "--with", "matplotlib", "python", __file__)
GREY, GOOD, BAD, BLUE, PALE = "#8a8a8a", "#4c9f70", "#d1605e", "#4878cf", "#a8b0b8"  # readable on white and on black
COLOURS = (BLUE, BAD, GOOD, "#b47cc7", "#c4ad66", "#77bedb", "#e17c05", GREY, "#c06c84", "#5d7f99")

Points = Sequence[tuple[float, float]]


def bars(
    page: Path, values: Mapping[str, float | None], *, most: float | None = 1.0, label: str = "of the target"
) -> str:
    """One bar for each value that is not None, and a line that no bar should pass."""
    there = {name: value for name, value in values.items() if value is not None}
    if not there:
        return ""
    colours = [BAD if most is not None and value > most else GOOD for value in there.values()]
    texts = [f"{value:.0f}" if most is None else f"{value:.2f}" for value in there.values()]
    panel = Bars("", there, texts, colours, label, most)
    return _draw(page.with_suffix(".svg"), "Bars: the figures below", [panel], height=0.6 + 0.26 * len(there))


def side_by_side(page: Path, panels: Mapping[str, Mapping[str, float]], *, ours: str, about: str) -> str:
    """One panel for each title, and in it a bar for everybody; ours stands out."""
    drawn = []
    for title, values in panels.items():
        texts = [f"{value:,.0f}" if value >= 10 else f"{value:.1f}" for value in values.values()]
        drawn.append(Bars(title, values, texts, [BLUE if name == ours else PALE for name in values]))
    return _draw(page.with_name(f"{page.stem}-bars.svg"), about, drawn, columns=3, height=2.6)


def curves(page: Path, panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> str:
    """One panel for each title, and in it a curve for each name: size → cost."""
    drawn = [
        Curves(title, {name: list(costs.items()) for name, costs in named.items()}) for title, named in panels.items()
    ]
    return _draw(page.with_suffix(".svg"), "Curves: the figures below", drawn, columns=2, height=3)


def over_time(page: Path, panels: Mapping[str, Sequence[Points]], *, about: str) -> str:
    """One panel for each title, and in it lines over minutes."""
    drawn = [Lines(title, lines) for title, lines in panels.items()]
    return _draw(page.with_suffix(".svg"), about, drawn, columns=3, height=2.2)


def _draw(picture: Path, about: str, panels: Sequence[Panel], *, columns: int = 1, height: float) -> str:
    kind, fields = type(panels[0]).__name__, [asdict(panel) for panel in panels]
    told = json.dumps({"kind": kind, "panels": fields, "columns": columns, "height": height})
    try:
        subprocess.run((*COMMAND, str(picture)), input=told, text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{picture.name} was not drawn: {error}", file=sys.stderr)
        return ""
    return f"![{about}]({picture.name})\n\n"


# --- what is drawn: `axes` is the place of one panel, as matplotlib has it ----------------------------------


@dataclass(frozen=True, slots=True)
class Bars:
    title: str
    values: Mapping[str, float]
    texts: Sequence[str]  #: beside each bar
    colours: Sequence[str]
    label: str = ""
    most: float | None = None

    def draw(self, axes: Any) -> None:
        longest = 3 * self.most if self.most else max(self.values.values())
        lengths = [min(value, longest) for value in self.values.values()]
        drawn = axes.barh(list(self.values), lengths, color=self.colours, height=0.7)
        axes.bar_label(drawn, self.texts, padding=3)
        if self.most is not None:
            axes.axvline(self.most, color=GREY, linewidth=1)
        axes.margins(x=0.15)  # room for the texts
        axes.invert_yaxis()
        if self.label:
            axes.set_xlabel(self.label)
        else:
            axes.xaxis.set_visible(False)  # the texts say it
            axes.spines["bottom"].set_visible(False)


@dataclass(frozen=True, slots=True)
class Curves:
    """Multiples of the first point of each, over sizes of several magnitudes."""

    title: str
    named: Mapping[str, Points]

    def draw(self, axes: Any) -> None:
        from matplotlib.ticker import NullLocator, StrMethodFormatter

        highest = 4.0
        for (name, points), colour in zip(self.named.items(), COLOURS * 2, strict=False):
            sizes, multiples = [size for size, _ in points], [cost / points[0][1] for _, cost in points]
            axes.plot(sizes, multiples, marker="o", markersize=3, linewidth=1.2, color=colour, label=name)
            highest = max(highest, *multiples)
        axes.axhspan(0.5, 2, color=GOOD, alpha=0.12, linewidth=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(0.4, 5 * highest)  # room for the names
        for axis, form in ((axes.xaxis, "{x:,.0f}"), (axes.yaxis, "×{x:g}")):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(StrMethodFormatter(form))
        axes.legend(fontsize=6.5, frameon=False, loc="upper left")


@dataclass(frozen=True, slots=True)
class Lines:
    title: str
    lines: Sequence[Points]

    def draw(self, axes: Any) -> None:
        for points in self.lines:
            axes.plot(*zip(*points, strict=True), color=BLUE, linewidth=0.8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("minutes")


Panel = Bars | Curves | Lines


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "agent-worker"}  # equal figures, equal files
    matplotlib.rcParams |= {"font.size": 8, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False}
    for part in ("text.color", "xtick.color", "ytick.color", "axes.labelcolor", "axes.edgecolor"):
        matplotlib.rcParams[part] = GREY
    from matplotlib import pyplot

    picture, told = Path(sys.argv[1]), json.load(sys.stdin)
    kind = {each.__name__: each for each in (Bars, Curves, Lines)}[told["kind"]]
    panels, columns = [kind(**fields) for fields in told["panels"]], told["columns"]
    rows = -(-len(panels) // columns)
    size = (10, rows * told["height"])
    figure, grid = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title(panel.title)
        panel.draw(axes)
    figure.savefig(picture, transparent=True, metadata={"Date": None})
    picture.write_text("\n".join(line.rstrip() for line in picture.read_text().splitlines()) + "\n")


if __name__ == "__main__":
    main()
