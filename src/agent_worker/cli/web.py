"""`web`: open the page."""

from __future__ import annotations

import os

import click

from agent_worker.cli.call import here
from agent_worker.cli.output import as_json_option, echo, tell_json


@click.command()
@click.option("--no-open", is_flag=True, help="Print the address, and leave the browser alone.")
@as_json_option
def web(no_open: bool, as_json: bool) -> None:
    """Open the page: workspaces, agents, runs and what waits for you, live.

    The address holds a code that is good for one minute and for one page.
    """
    from agent_worker.client.connection import connect
    from agent_worker.client.discovery import authority

    client = connect()
    given = client.request("POST", "/page/code", {"project": here()})[1]
    address = f"http://{authority(client.found.host, client.found.port)}/#code={given['code']}"
    if as_json:
        return tell_json({"address": address, "seconds": given["seconds"]})
    if not no_open and _opened(address):
        return echo("opened in your browser")
    echo(f"open this within {given['seconds']:.0f} s:\n{address}")


def _opened(address: str) -> bool:
    """Whether a browser was opened. Without a screen it would open in this terminal: there the address is printed."""
    if os.name == "posix" and os.uname().sysname == "Linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        return False
    import webbrowser

    return webbrowser.open(address)
