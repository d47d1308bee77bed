"""`remote`: workflows fetched from elsewhere, each locked at a commit until it is updated."""

from __future__ import annotations

import click

from agent_worker.cli.approval import can_ask, confirm, show_pending
from agent_worker.cli.call import call, here
from agent_worker.cli.output import as_json_option, echo, tell_json, tell_table
from agent_worker.core.errors import Untrusted
from agent_worker.core.text import clean


@click.group()
def remote() -> None:
    """List and update workflows that were fetched from elsewhere."""


@remote.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """List what was fetched, with the commit in use."""
    found = call("GET", "/remotes")
    if as_json:
        return tell_json(found)
    rows = [(lock["source"], lock["commit"], lock["at"]) for lock in found]
    tell_table(("source", "commit", "since"), rows, empty="nothing was fetched")


@remote.command()
@click.argument("source")
@click.option("--trust", is_flag=True, help="Use its current version, without asking.")
@as_json_option
def update(source: str, trust: bool, as_json: bool) -> None:
    """Show what changed at SOURCE, and use it from now on."""
    newer = call("POST", "/remotes/look", source=source, project=here())
    if newer["commit"] == newer["locked"] and not newer["pending_approvals"]:
        return tell_json(newer) if as_json else echo(f"{clean(source)} has not changed")
    if trust:
        show_pending(newer["pending_approvals"])
    elif can_ask():
        confirm(newer["pending_approvals"])
    else:
        what = "\n".join(f"  {pending['what']}" for pending in newer["pending_approvals"])
        raise Untrusted(f"{source} has changed:\n{what}", hint=f"agent-worker remote update {source} --trust")
    digests = [pending["digest"] for pending in newer["pending_approvals"]]
    lock = call("POST", "/remotes/update", source=source, commit=newer["commit"], digests=digests, project=here())
    tell_json(lock) if as_json else echo(f"{clean(lock['source'])} is now {lock['commit']}")
