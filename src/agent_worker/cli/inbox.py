"""`inbox`: what waits for the person, and their answers."""

from __future__ import annotations

import click

from agent_worker.cli.call import call, here, part
from agent_worker.cli.output import ago, as_json_option, clean, paint, tell_json


@click.group(invoke_without_command=True)
@as_json_option
@click.pass_context
def inbox(ctx: click.Context, as_json: bool) -> None:
    """Show what waits for you: questions, approvals, failures, limits, mentions."""
    if ctx.invoked_subcommand is not None:
        return
    items = call("GET", "/inbox", project=here())
    if as_json:
        return tell_json(items)
    if not items:
        return click.echo("nothing waits for you")
    for item in items:
        place = f"@{item['workspace']}" if item["workspace"] else item["agent"]
        click.echo(f"{paint(item['id'], 'cyan')}  {paint(item['kind'], 'yellow')}  {clean(place)}  {ago(item['at'])}")
        for line in clean(item["text"]).splitlines()[:8]:
            click.echo(f"    {line}")
        for verb in item["answers"]:
            more = ' "…"' if verb == "answer" else ""
            click.echo(paint(f"    agent-worker inbox {verb} {item['id']}{more}", "bright_black"))


def _answer(item: str, action: str, text: str = "") -> None:
    click.echo(call("POST", f"/inbox/{part(item)}", action=action, text=text))


@inbox.command()
@click.argument("item")
def approve(item: str) -> None:
    """Allow a tool call, or let an outcome that you may veto stand."""
    _answer(item, "approve")


@inbox.command()
@click.argument("item")
@click.argument("reason", default="")
def deny(item: str, reason: str) -> None:
    """Refuse a tool call, or veto an outcome.

    The agent, or the team, is told the reason.
    """
    _answer(item, "deny", reason)


@inbox.command()
@click.argument("item")
@click.argument("text")
def answer(item: str, text: str) -> None:
    """Answer a question, vote, or reply to somebody who called on you."""
    _answer(item, "answer", text)


@inbox.command()
@click.argument("item")
def retry(item: str) -> None:
    """Retry what failed or met a limit.

    Where a limit stopped it, it goes on with a new allowance.
    """
    _answer(item, "retry")


@inbox.command()
@click.argument("item")
def dismiss(item: str) -> None:
    """Close an item without doing anything about it."""
    _answer(item, "dismiss")
