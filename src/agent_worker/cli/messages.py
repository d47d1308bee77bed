"""`send`, `peek`, `search`, `clear`, `cancel`: messages that nobody waits for, reading and finding them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click

from agent_worker.cli.approval import trust_option
from agent_worker.cli.call import ServerEvent, addresses, call, here, part, stream, work_ids
from agent_worker.cli.output import as_json_option, echo, for_people, paint, tell_json, terminal_columns
from agent_worker.cli.typed import TextCommand, addressed, only_target, read_input
from agent_worker.core.errors import BadInput
from agent_worker.core.ids import new_id
from agent_worker.core.states import told
from agent_worker.core.text import clean

LONGEST_FOUND = 600  # characters of one message or paragraph that `search` shows


@click.command(cls=TextCommand)
@click.argument("words", nargs=-1, metavar="[ADDRESS] MESSAGE", shell_complete=addresses)
@click.option("--to", metavar="ADDRESS", help="The address, if you do not put it before the message.")
@click.option("--key", help="A key of your choice: sending again with the same one changes nothing.")
@trust_option
@as_json_option
def send(words: tuple[str, ...], to: str | None, key: str | None, as_json: bool) -> None:
    """Deliver MESSAGE to ADDRESS and return. `-` reads the message from standard input.

    An address is alice (a direct message), @review (the channel of a workflow) or alice@review (alice, there). Without
    one, the message goes to the only running workflow, or to the only agent there is.

    Write a message that looks like an option after `--`.
    """
    address, message = addressed(words, to, command="send")
    # A key of its own: asked again by a busy daemon, the same message is still one.
    receipt = call("POST", "/send", to=address, message=_text(message), key=key or new_id("k"), project=here())
    if as_json:
        return tell_json(receipt)
    echo(f"sent {receipt['id']}{_woke(receipt)}")
    for who in receipt["asleep"]:
        echo(f"{who} is not working at the moment; to start it: agent-worker agent start {who}", err=True)
    if receipt["told"]:
        echo(clean(receipt["told"]), err=True)


def _woke(receipt: Mapping[str, Any]) -> str:
    asleep = {who.partition("@")[0] for who in receipt["asleep"]}
    awake = [name for name in receipt["woke"] if name not in asleep]
    desk = " (nobody was called on)" if receipt["desk"] else ""
    return f", woke {', '.join(awake)}{desk}" if awake else ""


@click.command()
@click.argument("work", shell_complete=work_ids)
@click.option("--reason", help="Why; the sender is told.")
@as_json_option
def cancel(work: str, reason: str | None, as_json: bool) -> None:
    """Cancel WORK that is queued, waiting, or under way; other work continues.

    WORK is the id that `send` or `agent info` shows, or that of a run.
    """
    found = call("DELETE", f"/instructions/{part(work)}", reason=reason)
    if as_json:
        return tell_json(found)
    for each in found:
        echo(clean(f"cancelled {each['id']} of {each['agent']}: {each['told']}"))


@click.command()
@click.argument("address", shell_complete=addresses)
@as_json_option
def clear(address: str, as_json: bool) -> None:
    """Put the conversation at ADDRESS aside and start a new one: alice, alice@review, or all members of @review.

    Nothing is deleted: the files keep it, and an agent can look it up. What it remembers stays.
    """
    cleared = call("POST", "/clear", at=address, project=here())
    tell_json({"cleared": cleared}) if as_json else echo(f"{cleared} begins afresh")


@click.command()
@click.argument("address", required=False, shell_complete=addresses)
@click.option("--to", metavar="ADDRESS", help="The same as ADDRESS.")
@click.option("-n", "--count", type=click.IntRange(1), default=20, show_default=True, help="How many messages to show.")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new messages.")
@as_json_option
def peek(address: str | None, to: str | None, count: int, follow: bool, as_json: bool) -> None:
    """Read the channel or conversation at ADDRESS: the last messages and, with --follow, new ones as they come.

    Without ADDRESS: that of the only running workflow, or of the only agent there is.
    """
    at = address or to or only_target("agent-worker peek")
    # Listened to before it is read: what is said in between is not missed.
    events = stream("GET", "/events", at=at, project=here()) if follow else iter(())
    lines = call("GET", "/messages", at=at, limit=count, last=True, held=True, project=here())
    for line in lines:
        click.echo(json.dumps(line)) if as_json else _tell(line, at)
    if not as_json and not follow:
        under_way = _tell_under_way(at)
        if not lines and not under_way:
            echo("nothing has been said here yet")
    if follow:
        _follow(events, at, since=lines[-1]["seq"] if lines else 0, as_json=as_json)


@click.command()
@click.argument("question", nargs=-1, required=True)
@click.option("--in", "at", metavar="WORKSPACE", help="Only there: review, or review:pr-123.", shell_complete=addresses)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="At most this many of each kind."
)
@as_json_option
def search(question: tuple[str, ...], at: str | None, limit: int, as_json: bool) -> None:
    """Find what answers QUESTION in this project, best first, and say why.

    Channels and documents come first, then what agents remember, noted and were told, then runs.
    """
    if not "".join(question).strip():
        raise BadInput("what should I look for?", hint='agent-worker search "…"')
    where = f"@{at.removeprefix('@')}" if at else None
    found = call("GET", "/search", query=" ".join(question), at=where, limit=limit, project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        name = f"#{each['seq']}" if each["kind"] == "message" else f"{each['kind']} {each['label']}".rstrip()
        place = f"{each['at']} {each['document'] or name}"
        who = f"{paint(clean(each['sender']), 'cyan', bold=True)}: " if each["sender"] else ""
        echo(f"{paint(clean(place), 'bright_black')} {who}{clean(each['text'][:LONGEST_FOUND])}")
        echo(f"  {paint(clean(each['why']), 'bright_black')}")
    if not found:
        echo("nothing was found")


def _tell_under_way(at: str) -> int:
    """Print what was said to an agent and is not in the conversation, as it is not answered; returns how many."""
    if "@" in at:
        return 0  # a channel has every message from the moment it is sent
    queue = call("GET", f"/agents/{part(at)}", project=here())["queue"]
    direct = [work for work in queue if work["workspace"] is None]
    for work in direct:
        text = f"{work['text']} ({told(work['state'])})"
        _tell({"at": work["queued_at"], "sender": work["sender"], "text": text}, at)
    return len(direct)


def _follow(events: Iterator[ServerEvent], at: str, *, since: int, as_json: bool) -> None:
    from agent_worker.cli.console import Console  # `send` does without
    from agent_worker.cli.live import LiveView

    with Console() as console:
        view = LiveView(console, at)
        for event in console.happenings(events):
            if not isinstance(event, ServerEvent):
                view.tick()
                continue
            record = json.loads(event.data)
            if record.get("event") == "message" and record["seq"] <= since:
                continue
            console.say(json.dumps(record)) if as_json else view.show(record)


def _tell(line: dict[str, Any], at: str) -> None:
    time = datetime.fromtimestamp(line["at"] / 1e6).strftime("%H:%M")
    head, *rest = _lines(line, at) or [""]
    echo(f"{paint(time, 'bright_black')} {paint(clean(line['sender']), 'cyan', bold=True)} {_mark(line)}{head}")
    for more in rest:
        echo(f"      {more}")


def _lines(line: Mapping[str, Any], at: str) -> list[str]:
    """A message as lines: on a terminal drawn and wrapped, the first of them behind the name."""
    columns = terminal_columns()
    if columns is None:
        return clean(for_people(line, at)).splitlines()
    from agent_worker.cli.prose import drawn
    from agent_worker.cli.wrapping import cells

    first = cells(clean(f"hh:mm {line['sender']} {'[taken back] ' if line.get('held') else ''}"))
    return drawn(for_people(line, at), columns - 7, first=first - 6)


def _mark(line: dict[str, Any]) -> str:
    return paint("[taken back] ", "red") if line.get("held") else ""


def _text(message: str) -> str:
    return read_input() if message == "-" else message
