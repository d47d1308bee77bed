"""`settings`: what can be chosen, what holds, and where that comes from."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, echo, tell_json, tell_table
from agent_worker.client.discovery import home_directory

_HEAD = ("setting", "value", "from", "what it does")
_NOTES = {"lower": "; a project may only lower it", "home": "; a project cannot set it", "project": ""}


@click.command()
@as_json_option
def settings(as_json: bool) -> None:
    """Show every setting: its value here, where that comes from, and what it does.

    Yours are in settings.yaml in the home, for all projects, read when the daemon starts; a project's are under
    `settings:` in moniro.yaml, read when the file changes.
    """
    found = call("GET", "/settings", project=here())
    if as_json:
        return tell_json(found)
    tell_table(
        _HEAD,
        [(s["name"], s["value"], s["where"] or s["source"], s["what"] + _NOTES[s["scope"]]) for s in found],
        empty="no settings",
    )
    for each in found:
        if each["refused"]:
            echo(f"moniro.yaml asks for {each['name']}: {each['refused']}, which is more than you allow")
    echo(f"\nyours, for all projects: {home_directory() / 'settings.yaml'}")
    echo("a project's: settings: in its moniro.yaml")
