"""`daemon`: run the daemon in the foreground, ask whether it runs, read its log."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import Any

import click

from agent_worker.cli.output import as_json_option, echo, tell_json
from agent_worker.core.text import clean


@click.group()
def daemon() -> None:
    """Run the daemon, or show its status and log. Commands start it when they need it."""


@daemon.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Listen on this port and no other; 0 is any free one.")
def run(port: int | None) -> None:
    """Run the daemon here, in the foreground.

    Without --port and AGENT_WORKER_PORT it takes port 5099 or, if that is held by another program, the next free one,
    which it keeps for later starts.
    """
    from agent_worker.offline.run import run_daemon

    sys.exit(run_daemon(port))


@daemon.command()
@as_json_option
def status(as_json: bool) -> None:
    """Show whether the daemon is running, and where."""
    from agent_worker.client.connection import find

    client = find()
    if client is None:
        tell_json({"running": False}) if as_json else echo("the daemon is not running")
        sys.exit(1)
    found = client.found
    if as_json:
        return tell_json(
            {"running": True, "pid": found.pid, "host": found.host, "port": found.port, "started_at": found.started_at}
        )
    echo(f"running at {found.host}:{found.port}, process {found.pid}, since {found.started_at}")


@daemon.command()
@click.option("-n", "--count", type=click.IntRange(1), default=40, show_default=True, help="How many lines to show.")
@as_json_option
def logs(count: int, as_json: bool) -> None:
    """Show the end of the daemon's log."""
    from agent_worker.client.discovery import LOG_FILE, home_directory

    file = home_directory() / LOG_FILE
    if not file.exists():
        return tell_json([]) if as_json else echo("there is no log yet")
    with file.open(encoding="utf-8", errors="replace") as written:
        lines = [line.rstrip("\n") for line in deque(written, maxlen=count)]
    if as_json:
        return tell_json([_record(line) for line in lines])
    for line in lines:
        click.echo(clean(line))


def _record(line: str) -> Any:
    """A line of the log as it was meant; what is not JSON (a library wrote it) stays text."""
    try:
        return json.loads(line)
    except ValueError:
        return line
