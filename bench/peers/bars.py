"""Draws the plot: `uv run --no-project --with matplotlib python bars.py PLOT.svg`, panels as JSON on standard input."""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "peers", "svg.fonttype": "none"}  # the same figures make the same, small file

from matplotlib import pyplot  # noqa: E402

GREY, OURS, THEIRS = "#808890", "#2f81f7", "#a8b0b8"  # readable on white and on black


def main() -> None:
    panels = json.load(sys.stdin)
    figure, places = pyplot.subplots(2, (len(panels) + 1) // 2, figsize=(11, 5.2), layout="constrained")
    for place, panel in zip(places.flat, panels, strict=False):
        draw(place, panel)
    figure.savefig(sys.argv[1], transparent=True, metadata={"Date": None})


def draw(place, panel) -> None:
    names = list(reversed(panel["bars"]))
    values = [panel["bars"][name] for name in names]
    drawn = place.barh(names, values, color=[OURS if name == panel["ours"] else THEIRS for name in names])
    place.bar_label(drawn, fmt=lambda value: f"{value:,.0f}" if value >= 10 else f"{value:.1f}", **LABEL)
    place.set_title(f"{panel['title']}, {panel['unit']}", fontsize=9, color=GREY)
    place.tick_params(colors=GREY, labelsize=7, length=0)
    place.set_xticks([])
    place.margins(x=0.18)
    for spine in place.spines.values():
        spine.set_visible(False)


LABEL = {"padding": 3, "fontsize": 7, "color": GREY}

if __name__ == "__main__":
    main()
