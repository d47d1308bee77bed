"""Small pictures beside the pages: bars of what is used of a target, and curves of how a cost grows.

Drawn by matplotlib, which is no dependency of ours: `uv run --with matplotlib` starts this file again as a program
that reads what to draw from its input. Where that cannot be had the page is written without its picture.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COMMAND = ("uv", "run", "--no-project", "--quiet", "--with", "matplotlib", "python", __file__)
GREY = "#8a8a8a"  # can be read on white and on black
GOOD, BAD = "#4c9f70", "#d1605e"
LINES = ("#4878cf", "#d1605e", "#4c9f70", "#b47cc7", "#c4ad66", "#77bedb", "#e17c05", "#8a8a8a", "#c06c84", "#5d7f99")


def bars(page: Path, values: Mapping[str, float], *, line: float | None = 1.0, label: str = "of the target") -> str:
    """Beside the page, one bar for each value, and a line that none should pass; the Markdown that shows it."""
    return _draw(page, {"kind": "bars", "values": dict(values), "line": line, "label": label}) if values else ""


def curves(page: Path, panels: Mapping[str, Mapping[str, Mapping[int, float]]]) -> str:
    """One panel for each title; in it a curve for each name, as multiples of its first point."""
    return _draw(page, {"kind": "curves", "panels": {title: dict(named) for title, named in panels.items()}})


def _draw(page: Path, what: dict[str, Any]) -> str:
    picture = page.with_suffix(".svg")
    try:
        subprocess.run((*COMMAND, str(picture)), input=json.dumps(what), text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{picture.name} was not drawn: {error}", file=sys.stderr)
        return ""
    return f"![{what['kind'].capitalize()}: the figures below]({picture.name})\n\n"


# --- the program that draws ----------------------------------------------------------------------------


def main() -> None:
    import matplotlib

    matplotlib.use("svg")
    plain = {"svg.fonttype": "none", "svg.hashsalt": "agent-worker", "font.size": 9, "axes.edgecolor": GREY}
    plain |= {f"{part}.color": GREY for part in ("text", "xtick", "ytick")} | {"axes.labelcolor": GREY}
    matplotlib.rcParams.update(plain)
    what, picture = json.load(sys.stdin), Path(sys.argv[1])
    figure = (_bars if what["kind"] == "bars" else _curves)(what)
    figure.savefig(picture, transparent=True, bbox_inches="tight", metadata={"Date": None})
    lines = picture.read_text().splitlines()
    picture.write_text("\n".join(line.rstrip() for line in lines) + "\n")


def _bars(what: dict[str, Any]) -> Any:
    import matplotlib.pyplot as plt

    names, values, line = list(what["values"]), list(what["values"].values()), what["line"]
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.26 * len(names)))
    colours = [BAD if line is not None and value > line else GOOD for value in values]
    shown = [min(value, 3 * line) if line else value for value in values]
    drawn = axes.barh(names, shown, color=colours, height=0.6)
    axes.bar_label(drawn, [f"{value:.2f}" if line else f"{value:.0f}" for value in values], padding=3)
    if line is not None:
        axes.axvline(line, color=GREY, linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel(what["label"])
    _plain(axes)
    return figure


def _curves(what: dict[str, Any]) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullLocator, StrMethodFormatter

    panels: dict[str, dict[str, dict[str, float]]] = what["panels"]
    rows = -(-len(panels) // 2)
    figure, grid = plt.subplots(rows, 2, figsize=(11, 3 * rows), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, named) in zip(grid.flat, panels.items(), strict=False):
        for (name, points), colour in zip(named.items(), LINES * 2, strict=False):
            first = next(iter(points.values()))
            sizes, ratios = [int(size) for size in points], [cost / first for cost in points.values()]
            axes.plot(sizes, ratios, marker="o", markersize=3, linewidth=1.2, color=colour, label=name)
        axes.axhspan(0.5, 2, color=GOOD, alpha=0.12, linewidth=0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        most = max(cost / next(iter(points.values())) for points in named.values() for cost in points.values())
        axes.set_ylim(0.4, max(20.0, 5 * most))  # room for the names
        for axis, form in ((axes.xaxis, "{x:,.0f}"), (axes.yaxis, "×{x:g}")):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(StrMethodFormatter(form))
        axes.set_title(title, color=GREY)
        axes.legend(fontsize=6.5, frameon=False, labelcolor=GREY, loc="upper left")
        _plain(axes)
    figure.tight_layout()
    return figure


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def targets(rows: Sequence[tuple[str, float | None]]) -> dict[str, float]:
    """Of each row that has a target: the part of it that is used."""
    return {what: part for what, part in rows if part is not None}


if __name__ == "__main__":
    main()
