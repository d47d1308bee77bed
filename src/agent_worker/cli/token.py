"""`token`: let another program in by a door of its own, see which are let in, and shut it out again."""

from __future__ import annotations

import time
from typing import Any

import click

from agent_worker.cli.call import call, here, part
from agent_worker.cli.output import as_json_option, echo, paint, tell_json
from agent_worker.client.connection import connect
from agent_worker.client.discovery import authority
from agent_worker.core.text import clean, plural


@click.group()
def token() -> None:
    """Make tokens for other programs, list and revoke them.

    A token is for one project. It lasts until you revoke it, across restarts of the daemon.
    """


@token.command()
@click.argument("name")
@click.option("--only", "opens", multiple=True, metavar="WHO", help="An agent, or a team as @name; may be repeated.")
@click.option(
    "--door",
    type=click.Choice(["openai", "metrics"]),
    default="openai",
    show_default=True,
    help="What it opens: OpenAI's API, or the metrics at /metrics.",
)
@click.option("--days", type=float, help="It expires after this many days.")
@as_json_option
def create(name: str, opens: tuple[str, ...], door: str, days: float | None, as_json: bool) -> None:
    """Make a token called NAME that lets a program talk to the agents and teams of this project.

    It is shown only this once. Programs that speak OpenAI's API take it as their key, Prometheus as its bearer token.
    """
    made = call("POST", "/tokens", name=name, door=door, opens=list(opens) or None, days=days, project=here())
    if as_json:
        return tell_json(made)
    click.echo(made["token"])
    found = connect().found
    if door == "metrics":
        where = f"http://{authority(found.host, found.port)}/metrics"
        return echo(f"for the metrics of this project at {where}. It is not shown again", err=True)
    echo(f"for {_reach(made)}. It is not shown again. A program that speaks OpenAI's API takes:", err=True)
    echo(f"  OPENAI_BASE_URL=http://{authority(found.host, found.port)}/v1", err=True)
    echo("  OPENAI_API_KEY=…the token…", err=True)


@token.command(name="list")
@as_json_option
def list_tokens(as_json: bool) -> None:
    """List the tokens of this project. None of them is shown."""
    found = call("GET", "/tokens", project=here())
    if as_json:
        return tell_json(found)
    for each in found:
        echo(f"{paint(clean(each['name']), 'cyan')}: {clean(_reach(each))}; {_ends(each)}; {each['id']}")
    if not found:
        echo("there are no tokens: agent-worker token create mine")


@token.command()
@click.argument("name")
@as_json_option
def revoke(name: str, as_json: bool) -> None:
    """End the token called NAME, or with this id: it is refused from now on."""
    gone = call("DELETE", f"/tokens/{part(name)}", project=here())
    tell_json(gone) if as_json else echo(clean(f"{gone['name']} is revoked"))


def _reach(each: dict[str, Any]) -> str:
    if each["door"] == "metrics":
        return "the metrics of this project"
    return ", ".join(each["opens"]) if each["opens"] else "all agents and teams of this project"


def _ends(each: dict[str, Any]) -> str:
    if each["ends_at"] is None:
        return "until it is revoked"
    left = each["ends_at"] / 1e6 - time.time()
    return "it has expired" if left <= 0 else f"for {plural(max(1, round(left / 86400)), 'more day')}"
