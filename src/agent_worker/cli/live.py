"""A running team as it looks: messages as they come, and below them who is at work.

On a terminal the last line is alive; through a pipe there are only the lines that stay. Takes events as plain
records, so that it serves our own process and the daemon's stream alike.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Any

import click

from agent_worker.cli.output import clean, paint, usd, wants_colour
from agent_worker.core.text import plural

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
_WIDTH = 10


class LiveView:
    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._alive = sys.stdout.isatty()
        self._busy: dict[str, str] = {}  # agent → what it does
        self._colours: dict[str, str] = {}
        self._tokens, self._usd, self._estimated = 0, 0.0, False

    def __enter__(self) -> LiveView:
        return self

    def __exit__(self, *_: object) -> None:
        self._wipe()

    def show(self, record: Mapping[str, Any]) -> None:
        match record:
            case {"event": "message", "kind": "system", "text": text}:
                self._line("·", clean(text), "yellow")
            case {"event": "message", "sender": sender, "text": text}:
                self._message(sender, text)
            case {"event": "started", "name": name}:
                self._busy[name] = "thinking"
            case {"event": "chunk", "name": name, "text": text}:
                self._busy[name] = clean(text)[-60:].replace("\n", " ")
            case {"event": "tool_call", "name": name, "tool": tool}:
                self._busy[name] = clean(tool)
                if self._verbose:
                    whose = " (its own)" if record.get("own") else ""
                    told = f"→ {clean(tool)}{whose} {clean(record.get('arguments', ''))[:200]}"
                    self._line(name, told, "bright_black")
            case {"event": "tool_result", "name": name, "ok": False, "text": text}:
                if self._verbose:
                    self._line(name, f"✗ {clean(text)[:200]}", "red")
            case {"event": "step", "tokens": tokens, "usd": cost, "estimated": estimated}:
                self._tokens, self._usd = self._tokens + tokens, self._usd + cost
                self._estimated = self._estimated or estimated
            case {"event": "retry", "name": name, "reason": reason, "wait": wait}:
                self._busy[name] = "waiting"
                self._line(name, f"↻ {clean(reason)}: again in {wait:.0f} s", "yellow")
            case {"event": "waiting", "name": name, "what": "" | "retry"}:  # the latter was told with its failure
                if self._busy.get(name, "").startswith("waiting"):
                    self._busy.pop(name)
            case {"event": "waiting", "name": name, "reason": reason}:
                self._busy[name] = f"waiting: {clean(reason)}"
            case {"event": "document", "name": document, "author": author}:
                self._line(author, f"✎ {clean(document)}", "bright_black")
            case {"event": "vote", "voter": voter, "text": text}:
                self._line(voter, f"☑ {clean(text)}", "bright_black")
            case {"event": "resource", "size": size}:
                self._line("·", f"a text of {plural(size, 'byte')} was kept as a resource", "bright_black")
            case {"event": "ended", "name": name, "state": state, "reason": reason}:
                self._busy.pop(name, None)
                if state in ("failed", "incomplete", "dead"):
                    self._line(name, f"✗ {state}: {clean(reason)}", "red")
            case {"event": "workspace", "state": "paused", "reason": reason}:
                self._line("·", f"paused: {clean(reason)}", "red")
            case _:
                return
        self._status()

    def _message(self, sender: str, text: str) -> None:
        head, *rest = clean(text).splitlines() or [""]
        self._wipe()
        click.echo(f"{self._name(sender)} {_marked(head)}")
        for line in _folded(rest):
            click.echo(f"{'':{_WIDTH}} {_marked(line)}".rstrip())

    def _line(self, who: str, text: str, colour: str) -> None:
        self._wipe()
        click.echo(f"{self._name(who)} {paint(text, colour)}")

    def _name(self, who: str) -> str:
        colour = self._colours.setdefault(who, _COLOURS[len(self._colours) % len(_COLOURS)])
        return paint(f"{clean(who)[:_WIDTH]:>{_WIDTH}}", colour, bold=True)

    def _status(self) -> None:
        if self._alive and self._busy:
            doing = ", ".join(f"{name} ({what})" for name, what in self._busy.items())
            spent = f"  {self._tokens:,} tokens, {usd(self._usd, self._estimated)}" if self._tokens else ""
            line = f"{'':{_WIDTH}} … {clean(doing)}{spent}"[: shutil.get_terminal_size().columns - 1]
            click.echo(f"\r\x1b[2K{paint(line, 'bright_black')}", nl=False)

    def _wipe(self) -> None:
        if self._alive:
            click.echo("\r\x1b[2K", nl=False)


def _folded(lines: list[str], *, show: int = 12) -> list[str]:
    """Long messages show their beginning."""
    if len(lines) <= show:
        return lines
    return [*lines[:show], f"[… {plural(len(lines) - show, 'more line')}]"]


def _marked(line: str) -> str:
    """Mentions stand out."""
    if not wants_colour():
        return line
    return " ".join(click.style(w, bold=True) if w.startswith("@") and len(w) > 1 else w for w in line.split(" "))


def summary_line(summary: Mapping[str, Any]) -> str:
    """What came of a workflow: a line, and one for the documents it changed."""
    runs = ", ".join(f"{name} ({plural(n, 'run')})" for name, n in summary["runs"].items())
    done = paint("done", "green") if summary["outcome"] == "done" else paint(summary["outcome"], "red")
    reason = f" ({clean(summary['reason'])})" if summary["reason"] not in ("", summary["outcome"]) else ""
    cost = f"{plural(summary['tokens'], 'token')}, {usd(summary['usd'], summary['estimated'])}"
    wrote = f"\n  documents: {clean(', '.join(summary['documents']))}" if summary["documents"] else ""
    said = plural(summary["messages"], "message")
    return f"{done}{reason}: {said}; {runs or 'no runs'}; {cost}{wrote}"


def decision_lines(summary: Mapping[str, Any]) -> list[str]:
    """What the team decided, a line each."""
    return [f"  decided: {clean(decision)}" for decision in summary["decisions"]]
