"""A running team as it looks: messages as they come, and below them who is at work.

On a terminal the last line is alive; through a pipe there are only the lines that stay.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from agent_worker.cli.output import clean, paint, wants_colour
from agent_worker.events import (
    AgentChanged,
    Called,
    DocumentChanged,
    Ended,
    Event,
    Posted,
    ResourceKept,
    Retrying,
    Started,
    WorkspaceChanged,
)

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
_WIDTH = 10


class LiveView:
    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._alive = sys.stdout.isatty()
        self._busy: dict[str, str] = {}  # agent → what it does
        self._colours: dict[str, str] = {}

    def __enter__(self) -> LiveView:
        return self

    def __exit__(self, *_: object) -> None:
        self._wipe()

    def show(self, event: Event) -> None:
        match event:
            case Posted(sender=sender, text=text, sort="system"):
                self._line("·", clean(text), "yellow")
            case Posted(sender=sender, text=text):
                self._message(sender, text)
            case Started(name=name):
                self._busy[name] = "thinking"
            case Called(name=name, tool=tool):
                self._busy[name] = tool
                if self._verbose:
                    self._line(name, f"→ {tool}", "bright_black")
            case Retrying(name=name, reason=reason, wait=wait):
                self._busy[name] = "waiting"
                self._line(name, f"↻ {clean(reason)}: again in {wait:.0f} s", "yellow")
            case DocumentChanged(name=document, author=author):
                self._line(author, f"✎ {clean(document)}", "bright_black")
            case ResourceKept(size=size):
                self._line("·", f"a text of {size:,} bytes was kept as a resource", "bright_black")
            case Ended(name=name, state=state, reason=reason):
                self._busy.pop(name, None)
                if state in ("failed", "incomplete", "dead"):
                    self._line(name, f"✗ {state}: {clean(reason)}", "red")
            case WorkspaceChanged(state="paused", reason=reason):
                self._line("·", f"paused: {clean(reason)}", "red")
            case AgentChanged():
                return
        self._status()

    def _message(self, sender: str, text: str) -> None:
        head, *rest = clean(text).splitlines() or [""]
        self._wipe()
        click.echo(f"{self._name(sender)} {_marked(head)}")
        for line in _folded(rest):
            click.echo(f"{'':{_WIDTH}} {_marked(line)}")

    def _line(self, who: str, text: str, colour: str) -> None:
        self._wipe()
        click.echo(f"{self._name(who)} {paint(text, colour)}")

    def _name(self, who: str) -> str:
        colour = self._colours.setdefault(who, _COLOURS[len(self._colours) % len(_COLOURS)])
        return paint(f"{clean(who)[:_WIDTH]:>{_WIDTH}}", colour, bold=True)

    def _status(self) -> None:
        if self._alive and self._busy:
            doing = ", ".join(f"{name} ({what})" for name, what in self._busy.items())
            line = f"{'':{_WIDTH}} … {clean(doing)}"[: _columns() - 1]
            click.echo(f"\r\x1b[2K{paint(line, 'bright_black')}", nl=False)

    def _wipe(self) -> None:
        if self._alive:
            click.echo("\r\x1b[2K", nl=False)


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _folded(lines: list[str], *, show: int = 12) -> list[str]:
    """Long messages show their beginning."""
    if len(lines) <= show:
        return lines
    return [*lines[:show], f"[… {len(lines) - show} more lines]"]


def _marked(line: str) -> str:
    """Mentions stand out."""
    if not wants_colour():
        return line
    return " ".join(click.style(w, bold=True) if w.startswith("@") and len(w) > 1 else w for w in line.split(" "))


def summary_lines(runs: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count} {'run' if count == 1 else 'runs'})" for name, count in runs.items())
