"""`service`: let the system keep the daemon running."""

from __future__ import annotations

import os
import sys

import click

from agent_worker.cli.output import as_json_option, echo, tell_json
from agent_worker.core.errors import Refused
from agent_worker.core.text import clean


@click.group()
def service() -> None:
    """Let the system keep the daemon running: systemd, or launchd on macOS, as your user."""


@service.command()
@click.option("--show", is_flag=True, help="Print what would be written, and write nothing.")
@as_json_option
def install(show: bool, as_json: bool) -> None:
    """Start the daemon with your session, and again if it fails.

    It gets the PATH of this terminal and the home that is used here, and no keys: agent-worker key set anthropic.
    """
    from agent_worker.client.connection import find
    from agent_worker.offline import service_files

    wanted = service_files.service()
    if show:
        return tell_json({"file": str(wanted.file), "text": wanted.text}) if as_json else click.echo(wanted.text)
    if find() is not None and not service_files.is_running(wanted):
        told = "a daemon that a command started is already running"
        raise Refused(told, hint="agent-worker stop --all, then agent-worker service install")
    wanted.file.parent.mkdir(parents=True, exist_ok=True)
    wanted.file.write_text(wanted.text)
    os.chmod(wanted.file, 0o600)
    service_files.run(wanted.begin)
    if as_json:
        return tell_json({"file": str(wanted.file), "running": service_files.is_running(wanted)})
    echo(f"installed and started: {clean(str(wanted.file))}")
    if wanted.after:
        echo(wanted.after)
    echo("keys that are only in your terminal are not there. For each of them: agent-worker key set anthropic")


@service.command()
@as_json_option
def status(as_json: bool) -> None:
    """Show whether the service is installed, and whether it runs. Exits with 1 if it does not."""
    from agent_worker.offline import service_files

    wanted = service_files.service()
    installed = wanted.file.exists()
    running = service_files.is_running(wanted)
    differs = installed and wanted.file.read_text() != wanted.text
    if as_json:
        told = {"file": str(wanted.file), "installed": installed, "running": running, "differs": differs}
        tell_json(told)
    elif not installed:
        echo("not installed: agent-worker service install")
    else:
        echo(f"{'running' if running else 'not running'}: {clean(str(wanted.file))}")
        if differs:
            echo("it differs from what would be written now: agent-worker service install")
    sys.exit(0 if running else 1)


@service.command()
@as_json_option
def remove(as_json: bool) -> None:
    """Stop the service and remove it. The daemon's data stays, and commands start the daemon again when needed."""
    from agent_worker.offline import service_files

    wanted = service_files.service()
    was = wanted.file.exists()
    if was:
        service_files.run(wanted.end, lenient=True)
        wanted.file.unlink()
        service_files.run(wanted.begin[:1] if len(wanted.begin) > 1 else (), lenient=True)  # so that it is forgotten
    if as_json:
        return tell_json({"file": str(wanted.file), "removed": was})
    echo(f"removed: {clean(str(wanted.file))}" if was else "it is not installed")
