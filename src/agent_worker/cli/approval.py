"""Asking the person about what they have not approved, and naming a workflow so that the daemon finds it.

A command that declares `trust_option` need not do more: whatever the daemon refuses it for want of an approval is asked
about on a terminal, or approved with --trust, and tried once more (call.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from agent_worker.cli.call import AllowOption, call, here, workflows
from agent_worker.cli.output import agreed, as_json_option, echo, tell_json
from agent_worker.client.discovery import DATABASE_VARIABLE
from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import AgentWorkerError, BadInput, Untrusted
from agent_worker.core.remote import is_remote
from agent_worker.core.text import clean, plural

T = TypeVar("T")
SHOWN = 200  #: lines of one thing
_OFFERED = ("limits", "keys")  # kinds that forbid nothing while they wait


def named(workflow: str) -> str:
    """A file by its full path, as the daemon is elsewhere; a name or a place to fetch from as it is.

    A bare file name that is not here may be that of a file in the project's folder of workflows: the daemon knows.
    """
    is_file = workflow.endswith((".yaml", ".yml")) and not is_remote(workflow)
    is_here = os.path.exists(workflow) or bool(os.path.dirname(workflow))
    return os.path.abspath(workflow) if is_file and is_here else workflow


def subject(name: str) -> dict[str, Any]:
    """A workflow, or an agent by itself, as the daemon is asked about it."""
    agent = name.partition("@")[0]
    if agent != name and agent == "":
        return {"workflow": WorkspaceName.parse(name).workflow}
    known = {found["name"].lower() for found in call("GET", "/agents", project=here())}
    workflows = {found["name"] for found in call("GET", "/workflows", project=here())}
    return {"agent": agent} if name not in workflows and agent.lower() in known else {"workflow": named(name)}


def trust_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command that has work done by an agent the option --trust."""
    told = "Approve what this agent can execute, without asking."
    return click.option("--trust", cls=_TrustOption, is_flag=True, expose_value=False, help=told)(command)


class _TrustOption(AllowOption):
    def allows(self, agent: str) -> bool:
        source = click.get_current_context().get_parameter_source("trust")
        return _allow(agent, given=source is ParameterSource.COMMANDLINE)


def _allow(name: str, *, given: bool) -> bool:
    """Whether the person allows what this agent was refused: asked on a terminal, or `given` by --trust."""
    if not given and not can_ask():
        return False
    whose = subject(name)
    pending_approvals = call("GET", "/trust", **whose, project=here())
    if not given:
        echo("This agent wants to do things that you have not approved:", err=True)
        confirm(pending_approvals)
    _approve(whose, pending_approvals)
    return True


def are_kept_by_daemon() -> bool:
    """Whether approvals are where only the daemon looks: in a database that hosts share. One that runs always knows."""
    from agent_worker.client.connection import find

    return bool(os.environ.get(DATABASE_VARIABLE, "").strip()) or find() is not None


def with_approval(workflow: str, work: Callable[[], Iterator[T]]) -> Iterator[T]:
    """On a terminal the person is asked about what they have not approved, and it is tried once more."""
    try:
        yield from work()
    except Untrusted:
        if not can_ask():
            raise
        whose = subject(workflow)
        pending_approvals = call("GET", "/trust", **whose, project=here())
        echo("This project wants to do things that you have not approved:", err=True)
        confirm(pending_approvals)
        _approve(whose, pending_approvals)
        yield from work()


def offer_limits(workflow: str) -> None:
    """Offer to approve settings that forbid nothing while they wait, such as limits; where nobody can be asked, name
    the command.
    """
    try:
        whose = subject(workflow)
        pending_approvals = call("GET", "/trust", **whose, project=here())
    except AgentWorkerError:
        return  # whoever runs it is told
    if not pending_approvals or any(pending["kind"] not in _OFFERED for pending in pending_approvals):
        return
    echo("These settings in files wait for your approval; until then they do not apply:", err=True)
    for pending in pending_approvals:
        echo(f"  {clean(pending['what'])}", err=True)
    if not can_ask():
        echo(f"  to approve it: agent-worker trust {workflow}", err=True)
    elif agreed("\nAllow it?"):
        _approve(whose, pending_approvals)


_VERBS = ("approve", "list", "revoke", "show")


@click.command()
@click.argument("words", nargs=-1, metavar="[list|show|approve|revoke] [NAME]", shell_complete=workflows)
@click.option("--yes", is_flag=True, help="Approve it without asking.")
@as_json_option
def trust(words: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Show what this project wants to do that you have not approved, and approve it if you say yes.

    With NAME, a workflow or an agent, it is about that one alone. `show` asks nothing, `list` shows what you have
    approved, `revoke` takes that back: it is asked about again.
    """
    verb, *names = words if words and words[0] in _VERBS else ("approve", *words)
    if len(names) > 1:
        raise BadInput("one workflow or agent at a time", hint=f"agent-worker trust {verb} {names[0]}")
    name = names[0] if names else None
    if yes and verb != "approve":
        raise BadInput(f"--yes is only for approving, not for {verb}", hint=_typed(verb, name))
    whose = subject(name) if name else {}
    if verb == "revoke":
        return _revoke(whose, as_json)
    if verb == "list":
        return _list(call("GET", "/trust/approved", **whose, project=here()), as_json)
    pending_approvals = call("GET", "/trust", **whose, project=here())
    if verb == "show":
        return _show(pending_approvals, as_json)
    if pending_approvals and not yes and not as_json:
        if not can_ask():
            show_pending(pending_approvals)
            told = "this waits for your approval, and nobody can be asked here"
            raise Untrusted(told, hint=f"{_typed('approve', name)} --yes")
        confirm(pending_approvals)
    if pending_approvals and (yes or not as_json):
        _approve(whose, pending_approvals)
    if as_json:
        return tell_json(pending_approvals)
    count = len(pending_approvals)
    echo(f"approved: {plural(count, 'item')}" if count else _NOTHING)


_NOTHING = "nothing waits for your approval"


def _typed(verb: str, name: str | None) -> str:
    return " ".join(["agent-worker trust", verb, *([name] if name else [])])


def _show(pending_approvals: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(pending_approvals)
    show_pending(pending_approvals, err=False)
    if not pending_approvals:
        echo(_NOTHING)


def _list(approved: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(approved)
    for each in approved:
        echo(clean(each["what"]))
    if not approved:
        echo("you have approved nothing here")


def _revoke(whose: dict[str, Any], as_json: bool) -> None:
    count = call("DELETE", "/trust", **whose, project=here())
    if as_json:
        return tell_json(count)
    echo(f"taken back: {plural(count, 'approval')}" if count else "there was no approval to take back")


def _approve(whose: dict[str, Any], pending_approvals: Sequence[dict[str, Any]]) -> None:
    call("POST", "/trust", **whose, project=here(), digests=[pending["digest"] for pending in pending_approvals])


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(pending_approvals: Sequence[dict[str, Any]]) -> None:
    """Show each pending approval, or what changed in it, and ask. A no ends the command."""
    show_pending(pending_approvals)
    if not agreed("\nAllow it, as it is now?"):
        raise Untrusted("you have not approved it, so nothing was done", hint="agent-worker trust")


def show_pending(pending_approvals: Sequence[dict[str, Any]], *, err: bool = True) -> None:
    for pending in pending_approvals:
        if pending["why"]:
            what = "" if pending["shown"].startswith(pending["what"]) else f"\n  {clean(pending['what'])}"
            echo(f"{what}\n  {clean(pending['why'])}", err=err)
        lines = clean(pending["shown"]).splitlines()
        for line in ("", *lines[:SHOWN]):
            echo(f"  {line}" if line else "", err=err)
        if len(lines) > SHOWN:
            echo(f"  … not shown here: {plural(len(lines) - SHOWN, 'more line')}", err=err)
