"""`schedule`: agents that wake and workflows that run by themselves."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

import click

from agent_worker.cli.call import agents, call, here, instances, part, workflows
from agent_worker.cli.mistakes import nearest, same_as
from agent_worker.cli.output import ago, as_json_option, echo, tell_json, tell_table
from agent_worker.cli.params import read_params
from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import BadInput

_HEAD = ("target", "when", "next", "last", "by", "in", "check", "to")


def targets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    if incomplete.startswith("@"):
        return [f"@{name}" for name in instances(ctx, param, incomplete)]
    return [*agents(ctx, param, incomplete), *workflows(ctx, param, incomplete)]


class _EitherWay(click.Group):
    """`schedule alice set 5m` is `schedule set alice 5m`, and `schedule alice` alone shows what is set."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        target, *rest = args
        is_meant_as_verb = nearest(target, self.commands) or same_as(target, self.commands) is not None
        is_verb = target in self.commands or is_meant_as_verb
        if target not in self.commands and rest and rest[0] in self.commands:
            args = [rest[0], target, *rest[1:]]
        elif rest and (verb := same_as(rest[0], self.commands)):
            line = shlex.join(["agent-worker", "schedule", target, verb, *rest[1:]])
            raise BadInput("say what to do: set, get or clear", hint=f"did you mean: {line}")
        elif all(word.startswith("-") for word in rest) and not is_verb:
            args = ["get", *args]
        elif rest and not is_verb and not ctx.resilient_parsing:
            whom, when = (rest[0], [target, *rest[1:]]) if target[:1].isdigit() else (target, rest)
            line = shlex.join(["agent-worker", "schedule", whom, "set", *when])
            raise BadInput("say what to do: set, get or clear", hint=f"did you mean: {line}")
        return super().resolve_command(ctx, args)


@click.group(cls=_EitherWay)
def schedule() -> None:
    """Wake agents, and run workflows, at set times."""


@schedule.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """List all schedules: when each is next due, and when it last was."""
    _tell(call("GET", "/schedules", project=here()), as_json)


@schedule.command()
@click.argument("target", shell_complete=targets)
@as_json_option
def get(target: str, as_json: bool) -> None:
    """Show the schedule of TARGET: alice, the workflow review, alice@review, or @review."""
    found = call("GET", f"/schedules/{part(target)}", project=here())
    tell_json(found) if as_json else _tell_one(found)


@schedule.command("set")
@click.argument("target", shell_complete=targets)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[WAKEUP] [-- PARAMS]")
@click.option("--at", help="Once, at this time: 2026-08-01T09:00")
@click.option("--tz", help="The time zone of a time of day, or of --at; UTC by default.")
@click.option("--prompt", help="What it is told when it wakes up; for a workflow, posted after its kickoff.")
@click.option("--workspace", help="Where an agent wakes up: a workflow (any running instance), or workflow:tag.")
@click.option("--check", help="A command to run first: if it prints nothing, nobody wakes up.")
@as_json_option
def set_(target: str, words: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Set when TARGET wakes up or runs.

    \b
    alice           the agent alice wakes
    review          the workflow review runs, with its parameters after `--`
    alice@review    alice wakes in review, while that runs
    @review         every member of review that has no schedule wakes there

    WAKEUP is 30m, every 2h, every 30 minutes, daily at 7, weekdays at 9, mondays at 8:30, or a cron line
    ("0 9 * * 1-5"); --at is once. A workflow with a tag is written review:pr-123.
    """
    said = list(itertools.takewhile(lambda word: not word.startswith("-"), words))  # parameters begin with one
    wakeup, params = " ".join(said) or None, list(words[len(said) :])
    if wakeup is None and given["at"] is None:
        raise BadInput(f"when should {target} wake up or run?", hint=f"agent-worker schedule {target} set every 2h")
    values = _params(target, params) if params else None
    found = call("PUT", f"/schedules/{part(target)}", wakeup=wakeup, params=values, project=here(), **given)
    if as_json:
        return tell_json(found)
    _tell_one(found)
    if found["of"] == "default":
        own = found["target"].removeprefix("@")
        echo(f"to schedule the workflow itself: agent-worker schedule {own} set {wakeup or '2h'}")


@schedule.command()
@click.argument("target", shell_complete=targets)
@as_json_option
def clear(target: str, as_json: bool) -> None:
    """Remove the schedule that was set for TARGET.

    If its file has one, that applies again.
    """
    was = call("DELETE", f"/schedules/{part(target)}", project=here())
    if as_json:
        return tell_json({"cleared": was})
    echo("cleared" if was else f"{target} had no schedule")


def _tell(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    rows = [
        (
            s["target"],
            s["meaning"],
            _next(s),
            ago(s["fired_at"]),
            s["set_by"],
            s["workspace"],
            s["check"],
            s["prompt"],
        )
        for s in found
    ]
    tell_table(_HEAD, rows, empty="no schedules")


def _next(found: dict[str, Any]) -> str:
    if found["due_at"]:
        return ago(found["due_at"])
    return "while it runs" if found["of"] in ("member", "default") else "never"


def _tell_one(found: dict[str, Any]) -> None:
    """Say what was set as a sentence, and when it is due next."""
    following = f"; next {_next(found)}" if found["due_at"] else ""
    echo(f"{found['told']}{following}")
    if found["due_at"] is None and found["of"] in ("agent", "workflow"):
        echo("it is no longer due: that time has passed")


def _params(target: str, given: list[str]) -> dict[str, str]:
    """The parameters of a workflow. Members have none: the daemon says so, with what to type instead."""
    return dict.fromkeys(given, "") if "@" in target else read_params(WorkspaceName.parse(target).workflow, given)
