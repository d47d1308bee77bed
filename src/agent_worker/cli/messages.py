"""`send`, `ask`, `peek`, `clear`, `cancel`: talking with agents."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any

import click

from agent_worker.cli.approval import trust_option
from agent_worker.cli.call import addresses, call, here, part, stream
from agent_worker.cli.live import LiveView
from agent_worker.cli.output import as_json_option, clean, paint, tell_json
from agent_worker.cli.typed import TextCommand, addressed, only_target
from agent_worker.core.errors import BadInput
from agent_worker.core.ids import new_id


@click.command(cls=TextCommand)
@click.argument("words", nargs=-1, metavar="[ADDRESS] MESSAGE", shell_complete=addresses)
@click.option("--to", metavar="ADDRESS", help="The address, if it does not stand before the message.")
@click.option("--key", help="A key of your choice: sending again with the same one changes nothing.")
@trust_option
@as_json_option
def send(words: tuple[str, ...], to: str | None, key: str | None, as_json: bool) -> None:
    """Deliver MESSAGE to ADDRESS and return. `-` reads the message from standard input.

    An address is alice (a direct message), @review (the channel of a workflow) or alice@review (alice, there). Without
    one, the message goes to the only workflow that runs, or to the only agent there is.

    A message that would be taken for an option is written after `--`.
    """
    address, message = addressed(words, to, command="send")
    # A key of its own: asked again by a busy daemon, the same message is still one.
    receipt = call("POST", "/send", to=address, message=_text(message), key=key or new_id("k"), project=here())
    if as_json:
        return tell_json(receipt)
    woke = f", woke {', '.join(receipt['woke'])}" if receipt["woke"] else ""
    click.echo(f"sent {receipt['id']}{woke}")
    for who in receipt["asleep"]:
        click.echo(f"{who} is not working at the moment; let it go on: agent-worker agent start {who}", err=True)
    if receipt["unknown"]:
        names = ", ".join(receipt["members"])
        click.echo(clean(f"nobody here is called {', '.join(receipt['unknown'])}; the members are: {names}"), err=True)


@click.command(cls=TextCommand)
@click.argument("address", shell_complete=addresses)
@click.argument("message")
@trust_option
@as_json_option
def ask(address: str, message: str, as_json: bool) -> None:
    """Ask the agent at ADDRESS and wait for the answer, which is shown as it is written."""
    if address.startswith("@"):
        raise BadInput("a channel does not answer: ask one of its members", hint=f'agent-worker send {address} "…"')
    final: dict[str, Any] = {}
    shown = ""
    for event in stream("POST", "/run", agent=address, message=_text(message), project=here()):
        data = json.loads(event.data)
        if event.event == "chunk" and not as_json and sys.stdout.isatty():
            click.echo(clean(data["text"]), nl=False)
            shown += data["text"]
        elif event.event == "waiting" and data["what"] == "key":
            click.echo(clean(f"{data['name']} waits: {data['reason']}"), err=True)
        elif event.event in ("done", "error"):
            final = data
    if as_json:
        tell_json(final)
    elif final.get("state") == "done":
        click.echo("" if shown and shown.strip() == final["text"].strip() else clean(final["text"]))
    else:
        click.echo(
            clean(f"{final.get('state', 'failed')}: {final.get('reason') or final.get('message', '')}"), err=True
        )
    sys.exit(0 if final.get("state") == "done" else 1)


@click.command()
@click.argument("work")
@click.option("--reason", help="Is told where the work was asked for.")
@as_json_option
def cancel(work: str, reason: str | None, as_json: bool) -> None:
    """Cancel WORK that is queued, waits, or is under way; the others go on.

    WORK is the id that `send` or `agent info` shows, or that of a run.
    """
    found = call("DELETE", f"/instructions/{part(work)}", reason=reason)
    if as_json:
        return tell_json(found)
    for each in found:
        click.echo(clean(f"cancelled {each['id']} of {each['agent']}: {each['told']}"))


@click.command()
@click.argument("address", shell_complete=addresses)
@as_json_option
def clear(address: str, as_json: bool) -> None:
    """Put the conversation at ADDRESS aside and begin it afresh: alice, alice@review, or all members of @review.

    Nothing is deleted: the files keep it, and an agent can look it up. What it remembers stays.
    """
    cleared = call("POST", "/clear", at=address, project=here())
    tell_json({"cleared": cleared}) if as_json else click.echo(f"{cleared} begins afresh")


@click.command()
@click.argument("address", required=False, shell_complete=addresses)
@click.option("--to", metavar="ADDRESS", help="The same as ADDRESS.")
@click.option("-n", "--count", default=20, show_default=True, help="How many messages to show.")
@click.option("-f", "--follow", is_flag=True, help="Keep showing new messages.")
@as_json_option
def peek(address: str | None, to: str | None, count: int, follow: bool, as_json: bool) -> None:
    """Read the channel or conversation at ADDRESS: the last messages, and with --follow those that come.

    Without one, that of the only workflow that runs, or of the only agent there is.
    """
    at = address or to or only_target("agent-worker peek ADDRESS")
    lines = call("GET", "/messages", at=at, limit=count, last=True, held=True, project=here())
    for line in lines:
        click.echo(json.dumps(line)) if as_json else _tell(line)
    if not lines and not as_json and not follow:
        click.echo("nothing was said here yet")
    if follow:
        _follow(at, since=lines[-1]["seq"] if lines else 0, as_json=as_json)


def _follow(at: str, *, since: int, as_json: bool) -> None:
    with LiveView() as view:
        for event in stream("GET", "/events", at=at, project=here()):
            record = json.loads(event.data)
            if record.get("event") == "message" and record["seq"] <= since:
                continue
            click.echo(json.dumps(record)) if as_json else view.show(record)


def _tell(line: dict[str, Any]) -> None:
    at = datetime.fromtimestamp(line["at"] / 1e6).strftime("%H:%M")
    head, *rest = clean(line["text"]).splitlines() or [""]
    click.echo(f"{paint(at, 'bright_black')} {paint(clean(line['who']), 'cyan', bold=True)} {_mark(line)}{head}")
    for more in rest:
        click.echo(f"      {more}")


def _mark(line: dict[str, Any]) -> str:
    return paint("[taken back] ", "red") if line["held"] else ""


def _text(message: str) -> str:
    return sys.stdin.read() if message == "-" else message
