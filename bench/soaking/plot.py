"""The picture beside the page. Drawn by matplotlib, which is no dependency of ours: a process of its own has it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

COMMAND = ("uv", "run", "--no-project", "--quiet", "--with", "matplotlib", "python", __file__)
GREY, BLUE = "#8a8a8a", "#4878cf"  # can be read on white and on black

Line = Sequence[tuple[float, float]]


def draw(picture: Path, panels: Mapping[str, Sequence[Line]]) -> bool:
    """A panel for each title, with a line for each life; over minutes."""
    try:
        subprocess.run((*COMMAND, str(picture)), input=json.dumps(dict(panels)), text=True, check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{picture.name} was not drawn: {error}", file=sys.stderr)
        return False
    return True


def main() -> None:
    import matplotlib  # type: ignore[import-not-found,unused-ignore]

    matplotlib.use("svg")
    plain = {"svg.fonttype": "none", "svg.hashsalt": "agent-worker", "font.size": 8, "axes.edgecolor": GREY}
    plain |= {f"{part}.color": GREY for part in ("text", "xtick", "ytick")} | {"axes.labelcolor": GREY}
    plain |= {"axes.spines.top": False, "axes.spines.right": False}
    matplotlib.rcParams.update(plain)
    import matplotlib.pyplot as plt  # type: ignore[import-not-found,unused-ignore]

    panels, picture = json.load(sys.stdin), Path(sys.argv[1])
    figure, grid = plt.subplots(2, 3, figsize=(10, 4), sharex=True, layout="constrained")
    for axes, (title, lines) in zip(grid.flat, panels.items(), strict=True):
        for line in lines:
            axes.plot([x for x, _ in line], [y for _, y in line], color=BLUE, linewidth=0.8)
        axes.set_title(title, fontsize=8)
        axes.set_ylim(bottom=0)
    for axes in grid[1]:
        axes.set_xlabel("minutes")
    figure.savefig(picture, transparent=True, metadata={"Date": None})
    kept = picture.read_text().splitlines()
    picture.write_text("\n".join(line.rstrip() for line in kept) + "\n")


if __name__ == "__main__":
    main()
