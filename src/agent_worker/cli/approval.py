"""Asking the person about what they have not approved, and naming a workflow so that the daemon finds it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from agent_worker.cli.call import call, here, workflows
from agent_worker.cli.output import as_json_option, clean, tell_json
from agent_worker.core.errors import AgentWorkerError, Untrusted
from agent_worker.core.remote import is_remote
from agent_worker.core.text import plural

T = TypeVar("T")
SHOWN = 200  #: lines of one thing


def named(workflow: str) -> str:
    """A file by its full path, as the daemon is elsewhere; a name or a place to fetch from as it is.

    A bare file name that is not here may be that of a file in the project's folder of workflows: the daemon knows.
    """
    is_file = workflow.endswith((".yaml", ".yml")) and not is_remote(workflow)
    is_here = os.path.exists(workflow) or bool(os.path.dirname(workflow))
    return os.path.abspath(workflow) if is_file and is_here else workflow


def with_approval(workflow: str, work: Callable[[], Iterator[T]]) -> Iterator[T]:
    """On a terminal the person is asked about what they have not approved, and it is tried once more."""
    try:
        yield from work()
    except Untrusted:
        if not can_ask():
            raise
        pending_approvals = call("GET", "/trust", workflow=named(workflow), project=here())
        click.echo("This project wants to do things that you have not approved:", err=True)
        confirm(pending_approvals)
        _approve(named(workflow), pending_approvals)
        yield from work()


def offer_limits(workflow: str) -> None:
    """Limits that wait forbid nothing: they are offered where nothing else has to be asked, and told otherwise."""
    try:
        pending_approvals = call("GET", "/trust", workflow=named(workflow), project=here())
    except AgentWorkerError:
        return  # whoever runs it is told
    if not pending_approvals or any(pending["kind"] != "limits" for pending in pending_approvals):
        return
    click.echo("These limits are written in files and wait for your approval; lower ones hold until then:", err=True)
    for pending in pending_approvals:
        click.echo(f"  {clean(pending['what'])}", err=True)
    if not can_ask():
        click.echo(f"  to approve them: agent-worker trust {workflow}", err=True)
    elif click.confirm("\nAllow it?", err=True):
        _approve(named(workflow), pending_approvals)


@click.command()
@click.argument("workflow", required=False, shell_complete=workflows)
@click.option("--yes", is_flag=True, help="Approve it without asking.")
@as_json_option
def trust(workflow: str | None, yes: bool, as_json: bool) -> None:
    """Show what this project, or WORKFLOW, wants to do that you have not approved, and approve it if you say yes."""
    which = named(workflow) if workflow else None
    pending_approvals = call("GET", "/trust", project=here(), workflow=which)
    if pending_approvals and not yes and not as_json:
        if not can_ask():
            show_pending(pending_approvals)
            command = " ".join(["agent-worker trust", *([workflow] if workflow else []), "--yes"])
            raise Untrusted("this waits for your approval, and nobody can be asked here", hint=command)
        confirm(pending_approvals)
    if pending_approvals and (yes or not as_json):
        _approve(which, pending_approvals)
    if as_json:
        return tell_json(pending_approvals)
    click.echo(
        f"approved: {plural(len(pending_approvals), 'item')}"
        if pending_approvals
        else "nothing waits for your approval"
    )


def _approve(workflow: str | None, pending_approvals: Sequence[dict[str, Any]]) -> None:
    call(
        "POST",
        "/trust",
        workflow=workflow,
        project=here(),
        digests=[pending["digest"] for pending in pending_approvals],
    )


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(pending_approvals: Sequence[dict[str, Any]]) -> None:
    """Show each, or what changed in it, and ask. No ends the command."""
    show_pending(pending_approvals)
    click.confirm("\nAllow it, as it is now?", abort=True, err=True)


def show_pending(pending_approvals: Sequence[dict[str, Any]]) -> None:
    for pending in pending_approvals:
        if pending["why"]:
            what = "" if pending["shown"].startswith(pending["what"]) else f"\n  {clean(pending['what'])}"
            click.echo(f"{what}\n  {clean(pending['why'])}", err=True)
        lines = clean(pending["shown"]).splitlines()
        for line in ("", *lines[:SHOWN]):
            click.echo(f"  {line}", err=True)
        if len(lines) > SHOWN:
            click.echo(f"  … not shown here: {plural(len(lines) - SHOWN, 'more line')}", err=True)
