"""`notify`: where the person is told what waits for them, and a test of it."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, clean, echo, paint, tell_json
from agent_worker.core.text import plural


@click.group()
def notify() -> None:
    """Be told elsewhere what waits for you: by ntfy, a webhook, a command or email.

    Where is written in notify.yaml in the daemon's home.
    """


@notify.command(name="list")
@as_json_option
def list_sinks(as_json: bool) -> None:
    """List where you are told, and what could not be told there."""
    found = call("GET", "/notifications", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        kinds = ", ".join(each["kinds"]) or "everything"
        left = f"; {plural(each['waiting'], 'thing')} to be told" if each["waiting"] else ""
        trouble = f"; the last try failed: {each['trouble']}" if each["trouble"] else ""
        echo(f"{paint(clean(each['name']), 'cyan')}: {each['to']}, {clean(kinds)}{left}{clean(trouble)}")
    if not found:
        echo("you are told nowhere: everything waits in agent-worker inbox")


@notify.command()
@as_json_option
def test(as_json: bool) -> None:
    """Put a test into your inbox: you are told of it wherever you are told of anything."""
    item = call("POST", "/notifications/test", project=here())
    if as_json:
        return tell_json({"item": item})
    echo("sent to wherever you are told; what could not be: agent-worker notify list")
