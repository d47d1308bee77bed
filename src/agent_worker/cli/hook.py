"""`hook`: the webhooks that start workflows here, and what one of them would do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, echo, paint, tell_json
from agent_worker.core.errors import BadInput
from agent_worker.core.text import clean


@click.group()
def hook() -> None:
    """Webhooks that start workflows or post to them: list them, and try one.

    A workflow's file defines them under triggers:.
    """


@hook.command(name="list")
@as_json_option
def list_hooks(as_json: bool) -> None:
    """List the webhooks of this project: the address of each, and what is still missing."""
    found = call("GET", "/triggers", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        name = paint(clean(f"{each['workflow']}/{each['name']}"), "cyan")
        echo(f"{name}: {clean(each['address'])}, signed as {each['signed']} with ${clean(each['secret'])}")
        if each["trouble"]:
            echo(f"  {paint('not yet', 'yellow')}: {clean(each['trouble'])}")
    if not found:
        echo("no workflow here has triggers: docs/guides/webhooks.md says how")


@hook.command()
@click.argument("file")
@click.option("--trigger", metavar="NAME", help="Only this trigger.")
@click.option("--event", metavar="NAME", help="The event, as the sender names it; any event by default.")
@as_json_option
def test(file: str, trigger: str | None, event: str | None, as_json: bool) -> None:
    """Show what a webhook with the JSON in FILE would do, without doing it. `-` reads standard input."""
    body = _read(file)
    found = call("POST", "/triggers/test", body=body, trigger=trigger, event=event or "", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        echo(f"{paint(clean(each['workflow'] + '/' + each['name']), 'cyan')}: {clean(each['does'])}")
        for name, value in each["params"].items():
            echo(f"  {clean(name)}: {clean(value)}")
        if each["trouble"]:
            echo(f"  {paint('not yet', 'yellow')}: {clean(each['trouble'])}")


def _read(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(f"{file} cannot be read: {why}", hint="agent-worker hook list") from None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadInput(f"{file} is not a JSON object", hint="what the sender shows as the payload of a delivery")
    return body
