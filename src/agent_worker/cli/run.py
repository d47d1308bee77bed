"""`run`, `start`, `stop`, `pause`, `resume`: putting workflows to work."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, takewhile
from typing import Any, TypeVar

import click

from agent_worker.cli.agent import set_agent
from agent_worker.cli.approval import named, offer_limits, with_approval
from agent_worker.cli.call import ServerEvent, call, here, instances, kept_if_it_ends, part, stream, workflows
from agent_worker.cli.console import LIMIT, WAITS, Console, wait_option
from agent_worker.cli.conversation import chat_in_channel, exit_code, run_agent, tell_waiting
from agent_worker.cli.live import LiveView, decision_lines, follow, summary_line
from agent_worker.cli.mistakes import in_quotes
from agent_worker.cli.output import as_json_option, echo, is_json_option, paint_state, tell, tell_json
from agent_worker.cli.params import read_params
from agent_worker.cli.typed import running
from agent_worker.core.address import MAIN, as_written
from agent_worker.core.errors import BadInput, NotFound, NotRunning
from agent_worker.core.mentions import find_mentions, nobody_named
from agent_worker.core.text import clean

T = TypeVar("T")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", required=False, shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow (its tag).")
@click.option("--model", help="The model of all members that use one, such as anthropic/claude-sonnet-5-5.")
@click.option("--trust", is_flag=True, help="Approve what this project can execute, without asking.")
@click.option("--verbose", is_flag=True, help="Show tool calls.")
@wait_option
@as_json_option
def run(
    workflow: str | None,
    rest: tuple[str, ...],
    tag: str,
    model: str | None,
    trust: bool,
    verbose: bool,
    wait: bool,
    as_json: bool,
) -> None:
    """Run WORKFLOW until everybody is done: its name, its file, or github:owner/repo@version/path.

    If there is only one, you can leave it out.

    With a message, WORKFLOW may also be an agent: run alice "look at this"

    A message may follow, and the workflow's own parameters after `--`: run review -- --target main

    Exits with 0 when all went well, 1 when something failed, 3 when a limit stopped it, 4 when it waits for you (an
    answer, an approval, a key) and nobody is at the terminal: then it is kept, and continues once you have answered.
    """
    workflow, rest = _which(workflow, rest)
    workflow, tag = _tagged(workflow, tag)
    message, given = _split(workflow, rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust) | ({"model": model} if model else {})
    if not trust:
        offer_limits(workflow)
    console = Console()
    if console.takes_keys and not as_json:
        wanted |= {"attended": True}
    if not console.is_attended and not wait:
        wanted |= {"leaves": True}
    events = with_approval(workflow, partial(_either, wanted, lambda asked: stream("POST", "/run", **asked)))
    first = next(events)  # what is asked before it begins is asked before the screen is ours
    events = chain([first], events)
    if "work" in (begun := json.loads(first.data)):
        sys.exit(run_agent(workflow, events, as_json=as_json))
    _tell_unknown(message, begun["members"])
    with kept_if_it_ends(f"agent-worker peek @{begun['workflow']}"):
        outcome = _lines_of_json(events) if as_json else _watched(console, events, begun["workflow"], given, verbose)
    if outcome.get("state") == "waiting":
        tell_waiting(outcome, bool(outcome["waits_for"]), f"agent-worker peek @{begun['workflow']}")
        sys.exit(WAITS)
    if "exit_code" not in outcome:
        echo(clean(f"error: {outcome.get('message', 'the daemon ended')}"), err=True)
        sys.exit(1)
    if not as_json:
        _tell_outcome(outcome)
    sys.exit(outcome["exit_code"])


def _tell_unknown(message: str | None, members: Sequence[str]) -> None:
    """Say which names the message called on that are no members; it is sent all the same."""
    if unknown := find_mentions(message or "", members, sender="user").unknown:
        echo(clean(nobody_named(unknown, members)), err=True)


def _lines_of_json(events: Iterator[ServerEvent]) -> Mapping[str, Any]:
    record: Mapping[str, Any] = {}
    for event in events:
        record = json.loads(event.data)
        click.echo(json.dumps(record))
    return record


def _watched(
    console: Console, events: Iterator[ServerEvent], name: str, given: Sequence[str], verbose: bool
) -> Mapping[str, Any]:
    with console:
        view = LiveView(console, f"@{name}", verbose=verbose)
        try:
            outcome = follow(console, events, view.show, view.tick)
        except KeyboardInterrupt:
            console.prompt(None)
            console.below()
            console.tell(f"stopping {name} …", "bright_black")
            with suppress(NotRunning):  # the daemon may have seen that we left
                call("DELETE", f"/workflows/{part(name)}", project=here())
            console.tell(f"{name} was stopped: nobody is working there now. What was said: agent-worker peek @{name}")
            again = shlex.join(["agent-worker", "start", name, *given])
            console.tell(f"to start it so that it carries on without you: {again}")
            raise
        if outcome.get("event") == "left":
            console.tell(
                f"{name} stays paused; to go on: agent-worker resume @{name}, to end it: agent-worker stop @{name}"
            )
            sys.exit(LIMIT)
    return outcome


def _tell_outcome(outcome: Mapping[str, Any]) -> None:
    told = {"reason": ""} if outcome["outcome"] == "limit" else {}  # the channel has said which
    echo(f"\n{summary_line({**outcome, **told})}")
    for line in decision_lines(outcome):
        echo(line)
    for failure in outcome["failures"]:
        echo(f"  {clean(failure)}", err=True)
    if outcome["resume"]:
        echo(f"  it is kept, paused; to go on with a new allowance: {outcome['resume']}", err=True)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("workflow", required=False, shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow (its tag).")
@click.option("--model", help="The model of all members that use one, such as anthropic/claude-sonnet-5-5.")
@click.option("--trust", is_flag=True, help="Approve what this project can execute, without asking.")
@click.option("-b", "--background", is_flag=True, help="Return at once, without showing its channel.")
@as_json_option
def start(
    workflow: str | None,
    rest: tuple[str, ...],
    tag: str,
    model: str | None,
    trust: bool,
    background: bool,
    as_json: bool,
) -> None:
    """Start WORKFLOW and keep it alive until it is stopped. Parameters as for `run`.

    On a terminal it shows its channel, and you can talk there; Ctrl-C ends that, and the workflow carries on.
    """
    workflow, rest = _which(workflow, rest)
    workflow, tag = _tagged(workflow, tag)
    message, given = _split(workflow, rest)
    wanted = _wanted(workflow, message, given, tag=tag, trust=trust) | ({"model": model} if model else {})
    if not trust:
        offer_limits(workflow)
    (running,) = with_approval(workflow, lambda: iter([call("POST", "/workflows", **wanted)]))
    members = [member["name"] for member in running["members"]]
    _tell_unknown(message, members)
    if as_json:
        return tell_json(running)
    echo(f"{running['name']} is running with {clean(', '.join(members))}")
    echo(f'  talk to it:  agent-worker send @{running["name"]} "…"')
    echo(f"  watch it:    agent-worker peek @{running['name']} --follow")
    echo(f"  stop it:     agent-worker stop @{running['name']}")
    if not background and sys.stdout.isatty():
        echo()
        with suppress(KeyboardInterrupt), Console() as console:
            chat_in_channel(console, f"@{running['name']}")
        echo(f"{running['name']} carries on; to come back here: agent-worker chat @{running['name']}")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("target", shell_complete=workflows)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
@click.option("--tag", "--instance", default=MAIN, show_default=True, help="Which instance of the workflow (its tag).")
@click.option("--trust", is_flag=True, help="Approve what this project can execute, without asking.")
@is_json_option
def serve(target: str, rest: tuple[str, ...], tag: str, trust: bool) -> None:
    """Run a workflow, or ask an agent, and print the result as JSON once it is done.

    TARGET, the message, the parameters and the exit codes are those of `run`. Programs get the same from the daemon:
    POST /serve.
    """
    target, tag = _tagged(target, tag)
    message, given = _split(target, rest)
    wanted = _wanted(target, message, given, tag=tag, trust=trust)
    (served,) = with_approval(target, lambda: _either(wanted, lambda asked: iter([call("POST", "/serve", **asked)])))
    tell_json(served)
    sys.exit(exit_code(served))


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@click.option("--all", "everything", is_flag=True, help="Stop the daemon and everything in it.")
@as_json_option
def stop(target: str | None, everything: bool, as_json: bool) -> None:
    """Stop a workflow (@review), an agent (alice) or a member (alice@review); with --all, the daemon. Nothing is lost.

    Without TARGET: the only running workflow.
    """
    if everything and target is not None:
        told = "--all stops the daemon and everything in it"
        raise BadInput(told, hint=f"to stop {target} alone: agent-worker stop {target}")
    if everything:
        from agent_worker.client.connection import find

        client = find()
        if client is None:
            return tell("the daemon is not running", as_json)
        client.request("POST", "/shutdown", {})
        return tell("the daemon is stopping", as_json)
    if target is None:
        target = _only_running("stop")
    if target.startswith("@"):
        try:
            summary = call("DELETE", f"/workflows/{part(target[1:])}", project=here())
        except NotRunning:
            raise NotRunning(f"{target} is not running: there is nothing to stop", hint="agent-worker ls") from None
        return tell_json(summary) if as_json else echo(summary_line(summary))
    try:
        set_agent(target, "stop", as_json)
    except NotFound as error:
        if target not in ("all", "everything", "daemon"):
            raise
        raise NotFound(error.message, hint="to stop the daemon and everything in it: agent-worker stop --all") from None


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@as_json_option
def pause(target: str | None, as_json: bool) -> None:
    """Pause TARGET (@review, alice, or alice@review): its work waits until `resume`.

    Without TARGET: the only running workflow.
    """
    _set(target or _only_running("pause"), "pause", as_json)


@click.command()
@click.argument("target", required=False, shell_complete=instances)
@as_json_option
def resume(target: str | None, as_json: bool) -> None:
    """Resume TARGET (@review, alice, or alice@review); what a limit stopped gets a new allowance.

    Without TARGET: the only running workflow.
    """
    _set(target or _only_running("resume"), "resume", as_json)


def _only_running(action: str) -> str:
    names = [f"@{one['name']}" for one in running()]
    if len(names) == 1:
        return names[0]
    everything = "everything: agent-worker stop --all" if action == "stop" else ""
    if not names:
        raise BadInput("no workflow is running here", hint=everything or "agent-worker ls")
    line = f"agent-worker {action} {names[0]}"
    raise BadInput(f"which one? {', '.join(names)} are running", hint="; ".join(filter(None, [line, everything])))


def _set(target: str, action: str, as_json: bool) -> None:
    if not target.startswith("@"):
        return set_agent(target, action, as_json)
    running = call("POST", f"/workflows/{part(target[1:])}/{action}", project=here())
    tell_json(running) if as_json else echo(f"{running['name']} is {paint_state(running['state'])}")


def _either(wanted: dict[str, Any], ask: Callable[[dict[str, Any]], Iterator[T]]) -> Iterator[T]:
    """What comes of the workflow of this name; with a message, the name may also be an agent's."""
    try:
        yield from ask(wanted)
    except NotFound as error:
        same = ("message", "project", "trust", "leaves")
        agent = {"agent": wanted["workflow"]} | {name: wanted[name] for name in same if name in wanted}
        if not wanted["message"] or wanted["params"]:
            raise
        try:
            yield from ask(agent)
        except (NotFound, BadInput):
            raise error from None


def _which(workflow: str | None, rest: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The only workflow of the project when none is named; then what follows is for it."""
    if workflow is not None and not workflow.startswith("-"):
        return workflow, rest
    known = {found["name"]: found["command"] for found in call("GET", "/workflows", project=here())}
    if len(known) != 1:
        if not known:
            raise BadInput("there is no workflow in this project yet", hint="agent-worker init")
        first = next(iter(known.values()))
        raise BadInput("say which workflow", hint=f"{first} (workflows here: {', '.join(known)})")
    return next(iter(known)), rest if workflow is None else (workflow, *rest)


def _tagged(workflow: str, tag: str) -> tuple[str, str]:
    """`review:pr-123` is the instance pr-123 of review, as in addresses; `github:…` is where a file comes from."""
    name, written = as_written(workflow)
    if not written or "/" in workflow or workflow.endswith((".yaml", ".yml")):
        return workflow, tag
    if tag not in (MAIN, written):
        command = click.get_current_context().command_path
        raise BadInput(f"you gave two tags: {written} and {tag}", hint=f"{command} {name} --tag {tag}")
    return name, written


def _split(target: str, rest: tuple[str, ...]) -> tuple[str | None, list[str]]:
    """A message, then parameters: whatever begins with a dash is a parameter."""
    texts = list(takewhile(lambda word: not word.startswith("-"), rest))
    if len(texts) > 1:
        raise BadInput(
            "a text of several words is written in quotes",
            hint=f"did you mean: {in_quotes(texts, before=[target] if target in sys.argv else [])}",
        )
    return (texts[0] if texts else None), list(rest[len(texts) :])


def _wanted(workflow: str, message: str | None, given: list[str], *, tag: str, trust: bool) -> dict[str, Any]:
    name = named(workflow)
    params = read_params(name, given, click.get_current_context().info_name or "run") if given else {}
    wanted: dict[str, Any] = {"workflow": name, "tag": tag, "params": params, "message": message, "project": here()}
    return wanted | ({"trust": True} if trust else {})
