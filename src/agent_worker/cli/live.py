"""A running team as it looks: messages as they come, and below them who is at work.

On a terminal the last line is alive; through a pipe there are only the lines that stay. Takes events as plain
records, so that it serves our own process and the daemon's stream alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_worker.cli.console import Console, Typed
from agent_worker.cli.output import for_people, key_lies_here, paint, usd
from agent_worker.cli.prose import cut, drawn, wrapped
from agent_worker.cli.questions import Questions
from agent_worker.client.plain_http import ServerEvent
from agent_worker.core.states import told
from agent_worker.core.text import clean, plural

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")
_WIDTH = 10
_SHOWN = 14  #: lines of one message
_LIMIT = "limit reached"  # what its reason begins with, wherever it is told


class LiveView:
    def __init__(self, console: Console, at: str, *, verbose: bool = False, me: str = "user") -> None:
        self._console = console
        self._at = at  # the channel or the conversation that is shown, as an address
        self._me = me  # what the person who looks is called
        self._verbose = verbose
        self._calls: set[tuple[str, str]] = set()  # that were shown: one that was asked about is made again
        self._busy: dict[str, tuple[str, float]] = {}  # agent → what it does, since when
        self._colours: dict[str, str] = {}
        self._notice = ""  # what the channel told last of what happened
        self._tokens, self._usd, self._estimated = 0, 0.0, False

    def show(self, record: Mapping[str, Any]) -> None:
        match record:
            case {"event": "message", "kind": "system", "text": text}:
                self._notice = text
                self._line("·", for_people(record, self._at), "yellow")
            case {"event": "message", "sender": sender}:
                self.message(sender, for_people(record, self._at))
            case {"event": "started", "name": name}:
                self._does(name, "is thinking")
            case {"event": "chunk", "name": name}:
                self._does(name, "is writing")
            case {"event": "tool_call", "name": name, "tool": tool}:
                self._does(name, f"uses {tool}")
                if self._verbose and (name, record["call"]) not in self._calls:
                    self._calls.add((name, record["call"]))
                    whose = " (its own)" if record.get("own") else ""
                    given = json.dumps(record.get("arguments", {}), ensure_ascii=False)
                    self._line(name, f"→ {tool}{whose} {given[:200]}", "bright_black")
            case {"event": "tool_result", "name": name, "ok": ok, "text": text}:
                self._does(name, "is thinking")
                if self._verbose and not ok:
                    self._line(name, f"✗ {text[:200]}", "red")
            case {"event": "step", "tokens": tokens, "usd": cost, "estimated": estimated}:
                self._tokens, self._usd = self._tokens + tokens, self._usd + cost
                self._estimated = self._estimated or estimated
            case {"event": "retry", "name": name, "reason": reason, "wait": wait}:
                self._does(name, "waits for the next try")
                self._line(name, f"↻ again in {wait:.0f} s: {reason}", "yellow")
            case {"event": "waiting", "name": name, "what": "" | "retry"}:  # the latter was told with its failure
                if self._busy.get(name, ("", 0))[0].startswith("waits"):
                    self._busy.pop(name)
            case {"event": "waiting", "name": name, "what": "key", "reason": reason}:
                self._does(name, "waits for a key")
                self._line(name, f"waits: {reason}", "yellow")
                if lies_here := key_lies_here(reason):
                    self._line(name, lies_here, "yellow")
            case {"event": "waiting", "name": name, "what": "person"}:
                self._does(name, "waits for you")
            case {"event": "waiting", "name": name, "reason": reason}:
                self._does(name, f"waits: {reason}")
            case {"event": "document", "name": document, "author": author}:
                self._line(author, f"✎ {document}", "bright_black")
            case {"event": "vote", "voter": voter, "text": text}:
                self._line(voter, f"☑ {text}", "bright_black")
            case {"event": "resource", "size": size}:
                self._line("·", f"a text of {plural(size, 'byte')} was kept as a resource", "bright_black")
            case {"event": "ended", "name": name, "state": state, "reason": reason}:
                self._busy.pop(name, None)
                told_already = reason.startswith(_LIMIT) or (bool(reason) and reason in self._notice)
                if state in ("failed", "incomplete", "dead") and not told_already:
                    self._line(name, f"✗ {told(state)}: {reason}", "red")
            case {"event": "workspace", "state": "paused", "reason": reason} if not reason.startswith(_LIMIT):
                self._line("·", f"paused: {reason}", "red")
        self.tick()

    def tick(self) -> None:
        """Show who is at work, and for how long by now."""
        now = time.monotonic()
        doing = [f"{name} {what}… {now - since:.0f} s" for name, (what, since) in self._busy.items()]
        spent = f"   {self._tokens:,} tokens, {usd(self._usd, self._estimated)}" if self._tokens else ""
        line = cut(clean(f"{'':{_WIDTH}} {', '.join(doing)}{spent}").replace("\n", " "), self._console.columns)
        self._console.below(*([paint(line, "bright_black")] if doing else []))

    def message(self, sender: str, text: str) -> None:
        """What somebody said: a long text shows its beginning."""
        if not self._console.is_live:
            head, *rest = clean(text).splitlines() or [""]
        else:
            head, *rest = drawn(text, self._console.columns - _WIDTH - 1) or [""]
        if len(rest) > _SHOWN:
            rest = [*rest[:_SHOWN], f"[… {plural(len(rest) - _SHOWN, 'more line')}]"]
        self._say(self._me if sender == "user" else sender, [head, *rest])

    def _line(self, who: str, text: str, colour: str) -> None:
        lines = clean(text).splitlines() or [""]
        if self._console.is_live:
            lines = wrapped("\n".join(lines), self._console.columns - _WIDTH - 1)
        self._say(who, [paint(line, colour) for line in lines])

    def _say(self, who: str, lines: list[str]) -> None:
        head, *rest = lines
        self._console.say(f"{self._name(who)} {head}", *(f"{'':{_WIDTH}} {line}".rstrip() for line in rest))

    def _name(self, who: str) -> str:
        colour = self._colours.setdefault(who, _COLOURS[len(self._colours) % len(_COLOURS)])
        return paint(f"{clean(who)[:_WIDTH]:>{_WIDTH}}", colour, bold=True)

    def _does(self, name: str, what: str) -> None:
        known, since = self._busy.get(name, ("", 0.0))
        self._busy[name] = what, since if known == what else time.monotonic()


def follow(
    console: Console,
    events: Iterator[ServerEvent],
    show: Callable[[Mapping[str, Any]], None],
    tick: Callable[[], None],
    *,
    heard: Callable[[str | None], bool] | None = None,
    prompt: str | None = None,
) -> Mapping[str, Any]:
    """Show what happens until it ends, and take answers to what is asked; returns the last record.

    Lines that answer nothing are for `heard`, which says whether to go on, and are prompted for with `prompt`.
    """
    questions = Questions(console, otherwise=prompt)
    console.prompt(prompt)
    record: Mapping[str, Any] = {}
    for happening in console.happenings(events):
        match happening:
            case None:
                questions.look()
                tick()
            case Typed(str(text)) if questions.is_asking:
                questions.answer(text)
                if questions.left_paused:
                    return {"event": "left"}
            case Typed(text):
                if heard is not None and not heard(text):
                    return {"event": "left"}
            case event:
                record = json.loads(event.data)
                questions.hear(record)
                show(record)
    return record


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
