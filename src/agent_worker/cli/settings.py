"""`settings`: what can be chosen, what holds, and where that comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, echo, tell_json, tell_table
from agent_worker.client.discovery import home_directory
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.suggestion import slip_of

_HEAD = ("setting", "value", "from", "what it does")


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME]")
@as_json_option
def settings(words: tuple[str, ...], as_json: bool) -> None:
    """Show every setting, or the one called NAME: its value here, where that comes from, and what it does.

    Yours are in settings.yaml in the home, for all projects, read when the daemon starts; a project's are under
    `settings:` in moniro.yaml, read when the file changes.
    """
    found = call("GET", "/settings", project=here())
    if words:
        found = [_called(words, found)]
    if as_json:
        return tell_json(found)
    tell_table(
        _HEAD,
        [
            (s["name"], s["value"], s["where"] or s["source"], "; ".join(filter(None, (s["what"], s["note"]))))
            for s in found
        ],
        empty="no settings",
    )
    for each in found:
        if each["refused"]:
            echo(f"moniro.yaml asks for {each['name']}: {each['refused']}, which is more than you allow")
    echo(f"\nyours, for all projects: {home_directory() / 'settings.yaml'}")
    echo("a project's: settings: in its moniro.yaml")


def _called(words: Sequence[str], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The setting of this name. `x=1`, `x 1` and `set x 1` are refused: a setting is written in a file."""
    name, *value = re.split(r"[= ]+", " ".join(words).removeprefix("set ").strip(), maxsplit=1)
    known = {each["name"]: each for each in found}
    one = known.get(name.replace("-", "_"))
    if one is None:
        slip = slip_of(name, known)
        told = f"did you mean: agent-worker settings {slip.meant}" if slip else "agent-worker settings"
        raise NotFound(f"there is no setting {name}", hint=told)
    if value:
        line, home = f"{one['name']}: {value[0]}", home_directory() / "settings.yaml"
        here_too = "" if one["scope"] == "home" else "; or under settings: in moniro.yaml"
        told = f"write it in {home}, then restart the daemon: agent-worker stop --all{here_too}"
        raise BadInput(f"a setting is written in a file: {line}", hint=told)
    return one
