"""`schedule`: agents that wake and workflows that run by themselves."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.call import agents, call, here, part
from agent_worker.cli.output import ago, as_json_option, tell_json, tell_table
from agent_worker.cli.params import read_params
from agent_worker.core.address import WorkspaceName

_MEANS = {  # what was set
    "agent": "{target} wakes by itself then",
    "member": "{target} wakes there then, as long as the workflow runs",
    "members": "the default of {target}: every member that has none of its own wakes there then",
    "workflow": "this runs the workflow {target}",
}
_HEAD = ("target", "when", "zone", "next", "last", "by", "in", "to")


class _EitherWay(click.Group):
    """`schedule alice set 5m` is `schedule set alice 5m`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if len(args) > 1 and args[0] not in self.commands and args[1] in self.commands:
            args = [args[1], args[0], *args[2:]]
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
@click.argument("target", shell_complete=agents)
@as_json_option
def get(target: str, as_json: bool) -> None:
    """Show the schedule of TARGET: alice, alice@review, @review or review (see `schedule set`)."""
    found = call("GET", f"/schedules/{part(target)}", project=here())
    tell_json(found) if as_json else _tell([found], as_json)


@schedule.command("set")
@click.argument("target", shell_complete=agents)
@click.argument("wakeup", required=False)
@click.argument("params", nargs=-1, type=click.UNPROCESSED)
@click.option("--at", help="Once, at this time: 2026-08-01T09:00")
@click.option("--tz", help="Time zone of the cron line or of --at.")
@click.option("--prompt", help="What it is told then; for a workflow, said after its kickoff.")
@click.option("--workspace", help="Where an agent wakes: a workflow, or workflow:tag.")
@as_json_option
def set_(target: str, wakeup: str | None, params: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Set when TARGET wakes or runs.

    \b
    alice          this agent wakes
    alice@review   alice wakes in the running workflow review
    @review        every member of it wakes there that has no schedule of its own
    review         the workflow is run; its parameters follow after `--`, as with `run`

    WAKEUP is an interval (5m) or a cron line ("0 9 * * 1-5"); --at is once.
    """
    workflow = WorkspaceName.parse(target).workflow
    values = read_params(workflow, list(params)) if params else None
    found = call("PUT", f"/schedules/{part(target)}", wakeup=wakeup, params=values, project=here(), **given)
    if as_json:
        return tell_json(found)
    _tell([found], as_json)
    click.echo(f"\n{_MEANS[found['kind']].format(target=found['target'])}")


@schedule.command()
@click.argument("target", shell_complete=agents)
def clear(target: str) -> None:
    """Remove the schedule that was set for TARGET.

    If its file has one, or there is a default, that counts again.
    """
    was = call("DELETE", f"/schedules/{part(target)}", project=here())
    click.echo("cleared" if was else f"{target} had no schedule")


def _tell(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    rows = [
        (
            s["target"],
            s["wakeup"],
            s["tz"],
            ago(s["due_at"]) if s["due_at"] else "never",
            ago(s["fired_at"]),
            s["set_by"],
            s["workspace"],
            s["prompt"],
        )
        for s in found
    ]
    tell_table(_HEAD, rows, empty="no schedules")
