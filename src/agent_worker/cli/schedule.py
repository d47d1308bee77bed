"""`schedule`: agents that wake by themselves."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here, part
from agent_worker.cli.complete import agents
from agent_worker.cli.output import ago, as_json_option, tell_json, tell_table


@click.group()
def schedule() -> None:
    """Wake agents by themselves."""


@schedule.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """All schedules, with when each is due next and was last."""
    _tell(call("GET", "/schedules", project=here()), as_json)


@schedule.command("set")
@click.argument("agent", shell_complete=agents)
@click.argument("wakeup", required=False)
@click.option("--at", help="Once, at this time: 2026-08-01T09:00")
@click.option("--tz", help="Time zone of the cron line or of --at.")
@click.option("--prompt", help="What to do then.")
@click.option("--workspace", help="Where: a workflow, or workflow:tag.")
@as_json_option
def set_(
    agent: str,
    wakeup: str | None,
    at: str | None,
    tz: str | None,
    prompt: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Wake AGENT by an interval of rest (5m) or a cron line ("0 9 * * 1-5")."""
    found = call(
        "PUT",
        f"/schedules/{part(agent)}",
        wakeup=wakeup,
        at=at,
        tz=tz,
        prompt=prompt,
        workspace=workspace,
        project=here(),
    )
    _tell(found, as_json)


@schedule.command()
@click.argument("agent", shell_complete=agents)
def clear(agent: str) -> None:
    """End the schedule of AGENT."""
    was = call("DELETE", f"/schedules/{part(agent)}", project=here())
    click.echo("cleared" if was else f"{agent} had no schedule")


def _tell(found: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        return tell_json(found)
    rows = [
        (str(s["agent"]), str(s["wakeup"]), ago(s["due_at"]), ago(s["fired_at"]), str(s["workspace"]), str(s["prompt"]))  # type: ignore[arg-type]
        for s in found
    ]
    tell_table(("agent", "wakes", "next", "last", "in", "to"), rows, empty="no schedules")
