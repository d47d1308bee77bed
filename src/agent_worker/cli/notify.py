"""`notify`: where the person is told what waits for them, and a test of it."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, echo, paint, tell_json
from agent_worker.core.text import clean


@click.group()
def notify() -> None:
    """Get notifications of what waits for you: by ntfy, a webhook, a command or email.

    They are set up in notify.yaml in the daemon's home.
    """


@notify.command(name="list")
@as_json_option
def list_sinks(as_json: bool) -> None:
    """List where notifications go, and what could not be delivered."""
    found = call("GET", "/notifications", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        kinds = ", ".join(each["kinds"]) or "everything"
        left = f"; {each['waiting']:,} still to be sent" if each["waiting"] else ""
        trouble = f"; the last try failed: {each['trouble']}" if each["trouble"] else ""
        echo(f"{paint(clean(each['name']), 'cyan')}: {each['to']}, {clean(kinds)}{left}{clean(trouble)}")
    if not found:
        echo("no notifications are set up: everything waits in agent-worker inbox")


@notify.command()
@as_json_option
def test(as_json: bool) -> None:
    """Put a test item into your inbox: it is sent wherever your notifications go, and at once.

    For this one it does not matter which kinds a place wants, and whether it is quiet there.
    """
    item = call("POST", "/notifications/test", project=here())
    if as_json:
        return tell_json({"item": item})
    echo("sent everywhere you get notifications; what failed: agent-worker notify list")
