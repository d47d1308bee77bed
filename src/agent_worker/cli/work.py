"""`run`, `start`, `stop`, `pause`, `resume`: putting workflows to work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import click

from agent_worker.cli.call import call, here, part, stream
from agent_worker.cli.complete import instances, workflows
from agent_worker.cli.live import LiveView, summary_line
from agent_worker.cli.output import as_json_option, clean, paint_state, tell_json
from agent_worker.cli.params import read_params
from agent_worker.errors import BadInput, Untrusted

T = TypeVar("T")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default="main", show_default=True, help="Which instance of the workflow.")
@click.option("--trust", is_flag=True, help="Allow what this project can execute, without asking.")
@click.option("--verbose", is_flag=True, help="Show tool calls.")
@as_json_option
def run(workflow: str, rest: tuple[str, ...], tag: str, trust: bool, verbose: bool, as_json: bool) -> None:
    """Run WORKFLOW (its name or its file) until everybody is done.

    A message may follow, and the workflow's own parameters after `--`: run review -- --target main

    Ends with 0 when all went well, 1 when something failed, 3 when a limit stopped it.
    """
    message, given = _split(rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust)
    outcome: dict[str, Any] = {}
    with LiveView(verbose=verbose) as view:
        for event in _with_leave(workflow, partial(stream, "POST", "/run", **wanted)):
            record = json.loads(event.data)
            if as_json:
                click.echo(json.dumps(record))
            elif event.event not in ("done", "error"):
                view.show(record)
            if event.event in ("done", "error"):
                outcome = record
    if "outcome" not in outcome:
        click.echo(clean(f"error: {outcome.get('message', 'the daemon ended')}"), err=True)
        sys.exit(1)
    if not as_json:
        click.echo(f"\n{summary_line(outcome)}")
        for failure in outcome["failures"]:
            click.echo(f"  {clean(failure)}", err=True)
    sys.exit(outcome["exit_code"])


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default="main", show_default=True, help="Which instance of the workflow.")
@click.option("--trust", is_flag=True, help="Allow what this project can execute, without asking.")
@as_json_option
def start(workflow: str, rest: tuple[str, ...], tag: str, trust: bool, as_json: bool) -> None:
    """Start WORKFLOW and keep it alive until it is stopped. Parameters as for `run`."""
    message, given = _split(rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust)
    (running,) = _with_leave(workflow, lambda: iter([call("POST", "/workflows", **wanted)]))
    if as_json:
        return tell_json(running)
    members = ", ".join(member["name"] for member in running["members"])
    click.echo(f"{running['name']} is running with {clean(members)}")
    click.echo(f'  talk to it:  agent-worker send @{running["name"]} "…"')
    click.echo(f"  watch it:    agent-worker peek @{running['name']} --follow")
    click.echo(f"  stop it:     agent-worker stop @{running['name']}")


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@click.option("--all", "everything", is_flag=True, help="Stop the daemon and everything in it.")
@as_json_option
def stop(target: str | None, everything: bool, as_json: bool) -> None:
    """Stop a workflow (@review) or an agent (alice); with --all the daemon: work is put back, nothing is lost."""
    if everything:
        from agent_worker.daemon.client import find

        client = find()
        if client is None:
            return click.echo("the daemon is not running")
        client.request("POST", "/shutdown", {})
        return click.echo("the daemon is stopping")
    if target is None:
        raise BadInput("say what to stop: @workflow, an agent, or --all", hint="agent-worker ls")
    if target.startswith("@"):
        summary = call("DELETE", f"/workflows/{part(target[1:])}", project=here())
        return tell_json(summary) if as_json else click.echo(summary_line(summary))
    _set_agent(target, "stop", as_json)


@click.command()
@click.argument("target", shell_complete=instances)
@as_json_option
def pause(target: str, as_json: bool) -> None:
    """Let the work of TARGET (@review, or alice) wait."""
    _set(target, "pause", as_json)


@click.command()
@click.argument("target", shell_complete=instances)
@as_json_option
def resume(target: str, as_json: bool) -> None:
    """Go on with TARGET (@review, or alice); what a limit stopped gets a new allowance."""
    _set(target, "resume", as_json)


def _set(target: str, action: str, as_json: bool) -> None:
    if not target.startswith("@"):
        return _set_agent(target, action, as_json)
    running = call("POST", f"/workflows/{part(target[1:])}/{action}", project=here())
    tell_json(running) if as_json else click.echo(f"{running['name']} is {paint_state(running['state'])}")


def _set_agent(name: str, action: str, as_json: bool) -> None:
    agent = call("POST", f"/agents/{part(name)}/{action}", project=here())
    tell_json(agent) if as_json else click.echo(f"{agent['name']} is {paint_state(agent['state'])}")


def _with_leave(workflow: str, work: Callable[[], Iterator[T]]) -> Iterator[T]:
    """On a terminal the person is asked about what they have not approved, and it is tried once more."""
    try:
        yield from work()
    except Untrusted:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        _ask_leave(workflow)
        yield from work()


def _ask_leave(workflow: str) -> None:
    name = os.path.abspath(workflow) if workflow.endswith((".yaml", ".yml")) else workflow
    wishes = call("GET", "/trust", workflow=name, project=here())
    click.echo("This project would do what you have not approved:", err=True)
    for wish in wishes:
        if wish["changed"]:
            click.echo(f"\n  changed: {clean(wish['what'])}", err=True)
        for line in ("", *clean(wish["shown"]).splitlines()[:40]):
            click.echo(f"  {line}", err=True)
    click.confirm("\nAllow it, as it is now?", abort=True, err=True)
    call("POST", "/trust", workflow=name, project=here(), digests=[wish["digest"] for wish in wishes])


def _split(rest: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """A message, then parameters: whatever begins with a dash is a parameter."""
    words = list(rest)
    message = words.pop(0) if words and not words[0].startswith("-") else None
    return message, words


def _wanted(workflow: str, message: str | None, given: list[str], *, tag: str, trust: bool) -> dict[str, Any]:
    name = os.path.abspath(workflow) if workflow.endswith((".yaml", ".yml")) else workflow
    params = read_params(name, given) if given else {}
    wanted: dict[str, Any] = {"workflow": name, "tag": tag, "params": params, "message": message, "project": here()}
    return wanted | ({"trust": True} if trust else {})
