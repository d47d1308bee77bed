"""The picture of a terminal in the README, of a real run: `uv run poe pictures`.

A team from a template is run in a terminal of tmux, which tells what is on its screen and in which colours; that is
drawn as text in an SVG, on a ground of its own, so that it can be read on a light page and on a dark one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "figures" / "terminal.svg"
sys.path.insert(0, str(ROOT))

from tests.patience import eventually  # noqa: E402

COLUMNS, ROWS = 96, 50
COMMAND = 'agent-worker run debate -- --motion "We should rewrite it"'
_WIDE, _HIGH, _EDGE = 8.43, 19, 18  # of a character, a line, the margin, at 14 pixels
_COLOURS = {31: "#ff8f88", 32: "#8fd3a8", 33: "#f0c674", 34: "#8ab4f8", 35: "#d79be8", 36: "#7fd1d8", 90: "#8b96a3"}
_SGR = re.compile(r"\x1b\[([\d;]*)m")

_FRAME = """<?xml version="1.0" encoding="utf-8"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<rect width="{width}" height="{height}" rx="8" fill="#12161b" stroke="#58616b"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" fill="#dce2e8">
{lines}
</g>
</svg>
"""


def draw(screen: str, label: str) -> str:
    """What stands on a screen, with its colours, as a picture."""
    lines = screen.rstrip().splitlines()
    drawn = []
    for number, line in enumerate(lines):
        spans = "".join(_span(text, style) for text, style in _runs(line))
        drawn.append(f'<text x="{_EDGE}" y="{_EDGE + 14 + number * _HIGH}">{spans}</text>')
    width, height = round(COLUMNS * _WIDE) + 2 * _EDGE, len(lines) * _HIGH + 2 * _EDGE
    return _FRAME.format(width=width, height=height, label=escape(label), lines="\n".join(drawn))


def _runs(line: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The pieces of a line that look alike."""
    style: dict[str, str] = {}
    for index, piece in enumerate(_SGR.split(line)):
        if index % 2 == 0:
            if piece:
                yield piece, dict(style)
            continue
        for code in map(int, filter(None, piece.split(";"))):
            if code == 1:
                style["font-weight"] = "bold"
            elif code in _COLOURS:
                style["fill"] = _COLOURS[code]
            elif code in (0, 39):
                style.pop("fill", None)
            if code == 0:
                style.clear()


def _span(text: str, style: Mapping[str, str]) -> str:
    shown = escape(text, quote=False).replace(
        " ", "\N{NO-BREAK SPACE}"
    )  # others are drawn once, however many there are
    attributes = "".join(f' {name}="{value}"' for name, value in style.items())
    return f"<tspan{attributes}>{shown}</tspan>" if style else shown


def screen_of(command: str, folder: Path) -> str:
    """What a terminal shows when this has been typed into it and has ended."""
    socket = str(folder / "tmux")
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    shell = "env PS1='$ ' HISTFILE= bash --norc --noprofile"
    subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), shell], check=True)

    def shown() -> str:
        return subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True).stdout

    try:
        assert eventually(lambda: shown().startswith("$"))
        subprocess.run([*tmux, "send-keys", command, "Enter"], check=True)
        assert eventually(lambda: shown().rstrip().endswith("\n$")), shown()
        return shown().rstrip().removesuffix("$")
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as tmp:
        project = Path(tmp, "project")
        project.mkdir()
        os.environ |= {"AGENT_WORKER_HOME": str(Path(tmp, "home")), "AGENT_WORKER_PORT": "0", "LC_ALL": "C.UTF-8"}
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        os.chdir(project)
        subprocess.run(["agent-worker", "init", "--template", "debate", "--backend", "mock"], check=True)
        try:
            screen = screen_of(COMMAND, Path(tmp))
        finally:
            subprocess.run(["agent-worker", "stop", "--all"], check=True)
        os.chdir(ROOT)
    PICTURE.write_text(draw(screen, f"A terminal: {COMMAND}"), "utf-8")


if __name__ == "__main__":
    main()
