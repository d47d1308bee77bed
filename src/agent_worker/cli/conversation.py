"""`ask` and `chat`: talking with an agent or a team and seeing the answer as it is written."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import click

from agent_worker.cli.approval import trust_option
from agent_worker.cli.call import ServerEvent, addresses, call, here, kept_if_it_ends, part, stream
from agent_worker.cli.console import LIMIT, WAITS, Console, wait_option
from agent_worker.cli.live import LiveView, follow
from agent_worker.cli.output import as_json_option, echo, for_people, key_lies_here, paint, tell_json
from agent_worker.cli.prose import Page, cut, drawn, wrapped
from agent_worker.cli.typed import TextCommand, only_target, read_input
from agent_worker.core.address import parse_address
from agent_worker.core.errors import AgentWorkerError, BadInput, NotRunning
from agent_worker.core.states import told as state_told
from agent_worker.core.text import clean

_UNFINISHED = 6  #: lines of what is being written that are shown below
_PIPE_PATIENCE = 5.0  #: seconds for the first byte from a pipe
_HISTORY = 10  #: messages
_HELP = (
    "what you type is sent when you press Enter; @name calls on a member",
    "/quit leaves (so does Ctrl-D); //… sends a text that begins with a slash",
    "questions and approvals are asked here: answer with their number or in your own words",
)


@click.command(cls=TextCommand)
@click.argument("address", shell_complete=addresses)
@click.argument("message")
@trust_option
@wait_option
@as_json_option
def ask(address: str, message: str, wait: bool, as_json: bool) -> None:
    """Ask the agent at ADDRESS and wait for the answer, which is shown as it is written.

    `-` reads the message from standard input. What comes through a pipe is added to the message:
    cat report.txt | agent-worker ask alice "summarise this"

    Exits with 0 when it is answered, 1 when it failed, 3 when a limit stopped it (`inbox retry` continues it), 4 when
    it waits for you and nobody is at the terminal.
    """
    _refuse_channel(address)
    text = _with_pipe(message)
    if not text.strip():
        raise BadInput(f"what should I ask {address}?", hint=f'agent-worker ask {address} "…"')
    events = _asked(address, text, leaves=not wait and not Console().is_attended)
    with kept_if_it_ends(f"agent-worker peek {address}"):
        final = _as_json(events) if as_json else _answer(address, events)
    sys.exit(exit_code(final))


@click.command()
@click.argument("address", required=False, shell_complete=addresses)
def chat(address: str | None) -> None:
    """Talk with ADDRESS: alice, alice@review, or everybody in @review.

    Without ADDRESS: with the only running workflow, or the only agent there is. You see what was said last, then type a
    line at a time. /help shows more, /quit ends it.
    """
    address = address or only_target("agent-worker chat")
    team = _check_running(address) if address.startswith("@") else None
    with Console() as console:
        if not console.takes_keys:
            how = f"send {address}" if team else f"ask {address}"
            raise BadInput("chat needs a terminal", hint=f'agent-worker {how} "…"')
        if team:
            with kept_if_it_ends(f"agent-worker chat {address}"):
                chat_in_channel(console, address)
        else:
            _chat_with_agent(console, address)


# --- one agent ----------------------------------------------------------------------------------------


class AnswerView:
    """An answer as it is written: what is whole stays, what is not stands below, with who is at work.

    What an agent says before it uses a tool, what a failed try has said, and the answer are kept apart.
    """

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self.name = name
        self.asked = False  #: was it told, in a pipe, what the person is asked for?
        self._told_why = False  # was it told why nothing happens, since it was last at work?
        self._does, self._since = "", time.monotonic()
        self._calls: set[str] = set()  # that were shown: one that was asked about is made once more
        self._page = Page(console.columns)
        self._line = ""  # not whole yet
        self._text = ""  # of which that is the end
        self.said = ""  #: the last text that was shown whole

    @property
    def waits_for_person(self) -> bool:
        return self._does == "waits for you"

    def show(self, record: Mapping[str, Any]) -> None:
        self.asked = self.asked or record["event"] == "inbox"
        if record["event"] == "begun" and record.get("told"):
            self._console.aside(f"note: {record['told']}")
        if record["event"] == "waiting":
            self._waits(record)
        if record["event"] in ("started", "retry"):
            self._told_why = record["event"] == "retry"
        if not self._console.is_live:
            if record["event"] == "retry":  # it may take minutes
                self._console.aside(f"{self.name} tries again in {record['wait']:.0f} s: {record['reason']}")
            return
        match record:
            case {"event": "begun"}:
                self._now("waits for its turn")
            case {"event": "started"}:
                self._now("is thinking")
            case {"event": "chunk", "text": text}:
                self._now("is writing")
                self._write(text)
            case {"event": "tool_call", "tool": tool}:
                self._end_text()
                self._now(f"uses {tool}")
                if tool == "ask_user" or record["call"] in self._calls:  # what it asks is shown
                    return self.tick()
                self._calls.add(record["call"])
                self._console.say(paint(cut(f"→ {clean(tool)}", self._console.columns), "bright_black"))
            case {"event": "tool_result", "ok": ok, "text": text}:
                self._now("is thinking")
                if not ok:
                    told = cut(clean(f"  ✗ {text}").replace("\n", " "), self._console.columns)
                    self._console.say(paint(told, "bright_black"))
            case {"event": "step"}:
                self._end_text()
                self._now("is thinking")
            case {"event": "retry", "reason": reason, "wait": wait}:
                self._text = self._line = ""  # it is written once more
                self._console.tell(f"↻ again in {wait:.0f} s: {reason}", "yellow")
                self._now("waits for the next try")
            case {"event": "inbox"}:
                self._now("waits for you")
            case {"event": "done" | "error"}:
                self._end_text()
                self._now("")
        self.tick()

    def tick(self) -> None:
        """Show what is being written, who is at work, and for how long."""
        lines = wrapped(self._line, self._console.columns)[-_UNFINISHED:] if self._line else []
        seconds = time.monotonic() - self._since
        since = f"… {seconds:.0f} s"
        doing = cut(f"{clean(self.name)} {self._does}", self._console.columns - len(since)).removesuffix("…")
        self._console.below(*lines, *([paint(f"{doing}{since}", "bright_black")] if self._does else []))

    def _waits(self, record: Mapping[str, Any]) -> None:
        """Who has to wait is told why: in the line of who is at work, and in a pipe once for each time."""
        match record:
            case {"what": "key", "name": name, "reason": reason}:
                self.asked = True
                self._now("waits for a key")
                self._console.aside(f"{name} waits: {reason}")
                if lies_here := key_lies_here(reason):
                    self._console.aside(lies_here)
            case {"what": "" | "person"}:  # the latter is asked, if it is about this
                if self._does.startswith("waits:"):
                    self._now("waits for its turn")
            case {"name": name, "reason": reason} if not self._told_why:
                self._told_why = True
                self._now(f"waits: {' '.join(clean(reason).split())}")
                if not self._console.is_live:
                    self._console.aside(f"{name} waits: {reason}")

    def _now(self, does: str) -> None:
        if does != self._does:
            self._does, self._since = does, time.monotonic()

    def _write(self, text: str) -> None:
        self._text += text
        *whole, self._line = (self._line + clean(text)).split("\n")
        for line in whole:
            self._console.say(*self._page.add(line))

    def _end_text(self) -> None:
        if not self._text:
            return
        rest = [*(self._page.add(self._line) if self._line else []), *self._page.end()]
        self.said, self._text, self._line, self._page = self._text, "", "", Page(self._console.columns)
        self._console.below()
        self._console.say(*rest)


def exit_code(final: Mapping[str, Any]) -> int:
    """The same for every command that waits for work: `run`, `ask` and `serve`."""
    codes = {"done": 0, "incomplete": LIMIT, "limit": LIMIT, "waiting": WAITS, "stopped": 130}
    return codes.get(final.get("state", ""), 1)


def _asked(address: str, message: str, *, leaves: bool = False) -> Iterator[ServerEvent]:
    """Ask an agent; its events. The question is accepted when this returns."""
    events = stream("POST", "/run", agent=address, message=message, project=here(), leaves=leaves)
    return chain([next(events)], events)


def run_agent(address: str, events: Iterator[ServerEvent], *, as_json: bool) -> int:
    """Follow what an agent was given by `run`; the exit code. As JSON, each event is a line."""
    with kept_if_it_ends(f"agent-worker peek {address}"):
        if not as_json:
            return exit_code(_answer(address, events))
        final: dict[str, Any] = {}
        for event in events:
            final = json.loads(event.data)
            click.echo(json.dumps(final))
        return exit_code(final)


def _as_json(events: Iterator[ServerEvent]) -> dict[str, Any]:
    final: dict[str, Any] = {}
    for event in events:
        final = json.loads(event.data)
    tell_json(final)
    return final


def _answer(address: str, events: Iterator[ServerEvent]) -> Mapping[str, Any]:
    with Console() as console:
        return follow_answer(console, address, events)


def follow_answer(console: Console, address: str, events: Iterator[ServerEvent]) -> Mapping[str, Any]:
    """Show an answer, and what is asked on the way; the last record. Ctrl-C leaves it to go on."""
    view = AnswerView(console, address)
    work = ""

    def show(record: Mapping[str, Any]) -> None:
        nonlocal work
        work = record["work"] if record["event"] == "begun" else work
        view.show(record)

    try:
        final = follow(console, events, show, view.tick)
    except KeyboardInterrupt:
        console.prompt(None)
        console.below()
        if view.waits_for_person:
            console.tell(f"{address} waits for you: agent-worker inbox")
        console.tell(f"{address} carries on; its answer will be in: agent-worker peek {address}")
        console.tell(f"to end it: agent-worker cancel {work}")
        raise
    _tell_end(console, view, final)
    return final


def _tell_end(console: Console, view: AnswerView, final: Mapping[str, Any]) -> None:
    if final.get("state") == "done":
        text = final["text"]
        if not console.is_live:
            console.say(clean(text))
        elif text.strip() != view.said.strip():
            console.say(*drawn(text, console.columns))
        return
    if final.get("state") == "waiting":
        return tell_waiting(final, view.asked, f"agent-worker peek {view.name}")
    why = final.get("reason") or final.get("message", "the daemon ended")
    told = f"{state_told(final.get('state', 'failed'))}: {why}"
    echo(clean(told), err=True)
    hint = "agent-worker inbox" if final.get("state") == "incomplete" else final.get("hint", "")
    if hint and hint not in told:
        echo(clean(f"  hint: {hint}"), err=True)


def tell_waiting(final: Mapping[str, Any], told: bool, where: str) -> None:
    """What it waits for, unless that was told when it was asked; and that nothing is lost."""
    if not told:
        echo(clean(f"waiting for you: {' '.join(final['reason'].split())}"), err=True)
    echo(f"it is kept, and continues after that; to see the result: {where} (to wait here: --wait)", err=True)


def _refuse_channel(address: str) -> None:
    if not address.startswith("@"):
        return
    team = _check_running(address)
    member = f"{team['members'][0]['name']}@{team['name']}"
    raise BadInput("a channel does not answer: ask one of its members", hint=f'agent-worker ask {member} "…"')


def _check_running(address: str) -> Mapping[str, Any]:
    """The team that has this channel. Raises NotRunning where nobody works there."""
    parse_address(address)
    team: Mapping[str, Any] = call("GET", f"/workflows/{part(address[1:])}", project=here())  # or there is none
    if team["state"] not in ("running", "paused"):
        told = f"agent-worker start {team['name']} (what was said: agent-worker peek {address})"
        raise NotRunning(f"{address} is not running", hint=told)
    return team


def _with_pipe(message: str) -> str:
    """The message, with what came through a pipe added to it."""
    if message == "-":
        return read_input()
    given = _piped()
    return f"{message}\n\n{given}" if given.strip() else message


def _piped() -> str:
    """The text that comes through a pipe or a file as our input. A pipe with nothing in it is not waited for."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], _PIPE_PATIENCE)
    if not ready:
        echo("nothing came through the pipe: continuing without it", err=True)
        return ""
    return read_input()


# --- talking ------------------------------------------------------------------------------------------


def _chat_with_agent(console: Console, address: str) -> None:
    _show_history(console, address)
    console.tell(f"talking with {address}; /help explains how, /quit ends it", "bright_black")
    while True:
        try:
            text = console.line("you: ")
        except KeyboardInterrupt:
            return
        if text is None or not _goes_on(console, text):
            return
        if (text := _message(text)) is None:
            continue
        console.say(f"{paint('you:', 'green', bold=True)} {clean(text)}")
        try:
            follow_answer(console, address, _asked(address, text))
        except KeyboardInterrupt:
            continue
        except AgentWorkerError as error:
            console.complain(error)


def chat_in_channel(console: Console, address: str, *, count: int = _HISTORY) -> None:
    """The channel as it goes on; lines that are typed are said there. Ctrl-C leaves it."""
    events = stream("GET", "/events", at=address, project=here())  # first: what is said meanwhile is not missed
    since = _show_history(console, address, count)
    console.tell(f"talking in {address}; /help explains how, /quit ends it", "bright_black")
    view = LiveView(console, address, me="you")

    def show(record: Mapping[str, Any]) -> None:
        if record["event"] != "message" or record["seq"] > since:
            view.show(record)

    def heard(text: str | None) -> bool:
        if text is None or not _goes_on(console, text):
            return False
        if (message := _message(text)) is not None:
            _say_there(console, address, message)
        return True

    try:
        while True:
            final = follow(console, events, show, view.tick, heard=heard, prompt="you: ")
            if final.get("reason") != "lagging":
                break
            events = stream("GET", "/events", at=address, project=here(), last_event_id=final.get("id", ""))
    except KeyboardInterrupt:
        pass
    console.prompt(None)


def _say_there(console: Console, address: str, message: str) -> None:
    try:
        receipt = call("POST", "/send", to=address, message=message, project=here())
    except AgentWorkerError as error:
        console.complain(error)
        return
    if receipt["told"]:
        console.tell(receipt["told"], "yellow")


def _show_history(console: Console, address: str, count: int = _HISTORY) -> int:
    """The last messages, and the number of the last one."""
    lines = call("GET", "/messages", at=address, limit=count, last=True, project=here())
    view = LiveView(console, address, me="you")
    for line in lines:
        view.message(line["sender"], for_people(line, address))
    return int(lines[-1]["seq"]) if lines else 0


def _goes_on(console: Console, text: str) -> bool:
    word = text.strip().lower()
    if word in ("/quit", "/exit", "/q"):
        return False
    if word in ("/help", "/?"):
        for line in _HELP:
            console.tell(line, "bright_black")
    elif word.startswith("/") and not word.startswith("//"):
        console.tell(f"there is no {word.split()[0]}: /help, /quit", "yellow")
    return True


def _message(text: str) -> str | None:
    """The message that a typed line is; None for a command, or an empty line."""
    text = text.strip()
    if text.startswith("//"):
        return text[1:]
    return None if not text or text.startswith("/") else text
