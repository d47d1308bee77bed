"""`run`, `start`, `stop`, `pause`, `resume`: putting workflows to work."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from agent_worker.cli.agent import set_agent
from agent_worker.cli.approval import named, offer_limits, with_approval
from agent_worker.cli.call import call, here, instances, part, stream, workflows
from agent_worker.cli.live import LiveView, decision_lines, summary_line
from agent_worker.cli.messages import peek
from agent_worker.cli.output import as_json_option, clean, paint_state, tell_json
from agent_worker.cli.params import read_params
from agent_worker.cli.typed import running
from agent_worker.core.address import MAIN
from agent_worker.core.errors import BadInput, NotFound

T = TypeVar("T")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", required=False, shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow.")
@click.option("--model", help="For all members that use a model: such as anthropic/claude-sonnet-5-5.")
@click.option("--trust", is_flag=True, help="Allow what this project can execute, without asking.")
@click.option("--verbose", is_flag=True, help="Show tool calls.")
@as_json_option
def run(
    workflow: str | None,
    rest: tuple[str, ...],
    tag: str,
    model: str | None,
    trust: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run WORKFLOW until everybody is done: its name, its file, or github:owner/repo@version/path.

    If there is only one, you need not name it.

    With a message, it may also be an agent: run alice "look at this"

    A message may follow, and the workflow's own parameters after `--`: run review -- --target main

    Exits with 0 when all went well, 1 when something failed, 3 when a limit stopped it.
    """
    workflow, rest = _which(workflow, rest)
    message, given = _split(rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust) | ({"model": model} if model else {})
    outcome: dict[str, Any] = {}
    if not trust:
        offer_limits(workflow)
    with LiveView(verbose=verbose) as view:
        for event in with_approval(workflow, lambda: _either(wanted, lambda asked: stream("POST", "/run", **asked))):
            record = json.loads(event.data)
            if as_json:
                click.echo(json.dumps(record))
            elif event.event not in ("done", "error"):
                view.show(record)
            if event.event in ("done", "error"):
                outcome = record
    if "outcome" not in outcome:
        _end_of_agent(outcome, as_json)
    if not as_json:
        click.echo(f"\n{summary_line(outcome)}")
        for line in decision_lines(outcome):
            click.echo(line)
        for failure in outcome["failures"]:
            click.echo(f"  {clean(failure)}", err=True)
    sys.exit(outcome["exit_code"])


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", required=False, shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow.")
@click.option("--model", help="For all members that use a model: such as anthropic/claude-sonnet-5-5.")
@click.option("--trust", is_flag=True, help="Allow what this project can execute, without asking.")
@click.option("-b", "--background", is_flag=True, help="Return at once, without showing its channel.")
@as_json_option
@click.pass_context
def start(
    context: click.Context,
    workflow: str | None,
    rest: tuple[str, ...],
    tag: str,
    model: str | None,
    trust: bool,
    background: bool,
    as_json: bool,
) -> None:
    """Start WORKFLOW and keep it alive until it is stopped. Parameters as for `run`.

    On a terminal its channel is shown; Ctrl-C ends that, and the workflow goes on.
    """
    workflow, rest = _which(workflow, rest)
    message, given = _split(rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust) | ({"model": model} if model else {})
    if not trust:
        offer_limits(workflow)
    (running,) = with_approval(workflow, lambda: iter([call("POST", "/workflows", **wanted)]))
    if as_json:
        return tell_json(running)
    members = ", ".join(member["name"] for member in running["members"])
    click.echo(f"{running['name']} is running with {clean(members)}")
    click.echo(f'  talk to it:  agent-worker send @{running["name"]} "…"')
    click.echo(f"  watch it:    agent-worker peek @{running['name']} --follow")
    click.echo(f"  stop it:     agent-worker stop @{running['name']}")
    if not background and sys.stdout.isatty():
        click.echo()
        try:
            context.invoke(peek, address=f"@{running['name']}", follow=True)
        except KeyboardInterrupt:
            click.echo(f"\n{running['name']} goes on")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("target", shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow.")
@click.option("--trust", is_flag=True, help="Allow what this project can execute, without asking.")
def serve(target: str, rest: tuple[str, ...], tag: str, trust: bool) -> None:
    """Run a workflow, or ask an agent, and print all that came of it as JSON, once it is done.

    TARGET, the message and the parameters are those of `run`. Programs ask the daemon for the same: POST /serve.
    """
    message, given = _split(rest)
    wanted = _wanted(target, message, given, tag=tag, trust=trust)
    (served,) = with_approval(target, lambda: _either(wanted, lambda asked: iter([call("POST", "/serve", **asked)])))
    tell_json(served)
    sys.exit(0 if served["state"] == "done" else 1)


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@click.option("--all", "everything", is_flag=True, help="Stop the daemon and everything in it.")
@as_json_option
def stop(target: str | None, everything: bool, as_json: bool) -> None:
    """Stop a workflow (@review), an agent (alice) or a member (alice@review); with --all, the daemon. Nothing is lost.

    Without TARGET, the only workflow that runs.
    """
    if everything:
        from agent_worker.client.connection import find

        client = find()
        if client is None:
            return click.echo("the daemon is not running")
        client.request("POST", "/shutdown", {})
        return click.echo("the daemon is stopping")
    if target is None:
        target = _only_running()
    if target.startswith("@"):
        summary = call("DELETE", f"/workflows/{part(target[1:])}", project=here())
        return tell_json(summary) if as_json else click.echo(summary_line(summary))
    set_agent(target, "stop", as_json)


@click.command()
@click.argument("target", shell_complete=instances)
@as_json_option
def pause(target: str, as_json: bool) -> None:
    """Pause TARGET (@review, alice, or alice@review): its work waits until `resume`."""
    _set(target, "pause", as_json)


@click.command()
@click.argument("target", shell_complete=instances)
@as_json_option
def resume(target: str, as_json: bool) -> None:
    """Resume TARGET (@review, alice, or alice@review); what a limit stopped gets a new allowance."""
    _set(target, "resume", as_json)


def _only_running() -> str:
    names = [f"@{one['name']}" for one in running()]
    if len(names) == 1:
        return names[0]
    everything = "everything: agent-worker stop --all"
    if not names:
        raise BadInput("no workflow is running here", hint=f"an agent: agent-worker stop NAME; {everything}")
    raise BadInput(f"which one? {', '.join(names)} are running", hint=f"agent-worker stop {names[0]}; {everything}")


def _set(target: str, action: str, as_json: bool) -> None:
    if not target.startswith("@"):
        return set_agent(target, action, as_json)
    running = call("POST", f"/workflows/{part(target[1:])}/{action}", project=here())
    tell_json(running) if as_json else click.echo(f"{running['name']} is {paint_state(running['state'])}")


def _either(wanted: dict[str, Any], ask: Callable[[dict[str, Any]], Iterator[T]]) -> Iterator[T]:
    """What comes of the workflow of this name; with a message, an agent may be called so instead."""
    try:
        yield from ask(wanted)
    except NotFound as error:
        same = ("message", "project", "trust")
        agent = {"agent": wanted["workflow"]} | {name: wanted[name] for name in same if name in wanted}
        if not wanted["message"] or wanted["params"]:
            raise
        try:
            yield from ask(agent)
        except (NotFound, BadInput):
            raise error from None


def _end_of_agent(outcome: dict[str, Any], as_json: bool) -> None:
    """Of one agent there is an answer, or an error."""
    if outcome.get("event") != "done":
        click.echo(clean(f"error: {outcome.get('message', 'the daemon ended')}"), err=True)
        sys.exit(1)
    if not as_json:
        click.echo(clean(outcome["text"]))
    sys.exit(0 if outcome["state"] == "done" else 1)


def _which(workflow: str | None, rest: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The only workflow of the project when none is named; then what follows is for it."""
    if workflow is not None and not workflow.startswith("-"):
        return workflow, rest
    known = [found["name"] for found in call("GET", "/workflows", project=here())]
    if len(known) != 1:
        if not known:
            raise BadInput("there is no workflow in this project yet", hint="agent-worker init")
        raise BadInput("say which workflow", hint=f"workflows: {', '.join(known)}")
    return known[0], rest if workflow is None else (workflow, *rest)


def _split(rest: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """A message, then parameters: whatever begins with a dash is a parameter."""
    words = list(rest)
    message = words.pop(0) if words and not words[0].startswith("-") else None
    return message, words


def _wanted(workflow: str, message: str | None, given: list[str], *, tag: str, trust: bool) -> dict[str, Any]:
    name = named(workflow)
    params = read_params(name, given, click.get_current_context().info_name or "run") if given else {}
    wanted: dict[str, Any] = {"workflow": name, "tag": tag, "params": params, "message": message, "project": here()}
    return wanted | ({"trust": True} if trust else {})
