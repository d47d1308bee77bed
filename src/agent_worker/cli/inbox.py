"""`inbox`: what waits for the person, and their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agent_worker.cli.call import call, here, item_ids, part
from agent_worker.cli.output import ago, as_json_option, echo, paint, tell, tell_json, terminal_columns
from agent_worker.cli.prose import wrapped
from agent_worker.cli.questions import arguments
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.text import clean

_LINES = 30  #: of one item


@click.group(invoke_without_command=True)
@as_json_option
@click.pass_context
def inbox(ctx: click.Context, as_json: bool) -> None:
    """Show what waits for you: questions, approvals, failures, limits, mentions.

    ITEM is the number that is shown, or the beginning of an id.
    """
    if ctx.invoked_subcommand is not None:
        return
    items = call("GET", "/inbox", project=here())
    if as_json:
        return tell_json(items)
    if not items:
        return echo("nothing waits for you")
    echo(paint(clean(f"in {items[0]['project']}"), "bright_black"))
    for item in items:
        _tell(item)


def _tell(item: Mapping[str, Any]) -> None:
    place = f"@{item['workspace']}" if item["workspace"] else item["agent"]
    often = f"  {item['count']} times" if item["count"] > 1 else ""
    number = paint(str(item["number"]), "cyan", bold=True)
    echo(f"{number}  {paint(item['kind'], 'yellow')}  {clean(place)}  {ago(item['at'])}{often}")
    columns = (terminal_columns() or 10_000) - 5
    for line in _about(item, columns)[:_LINES]:
        echo(f"    {line}")
    for command in commands_for(item):
        echo(paint(f"    agent-worker inbox {command}", "bright_black"))


def _about(item: Mapping[str, Any], columns: int) -> list[str]:
    if item["kind"] == "approval":
        return [f"{clean(item['agent'])} wants to use {clean(item['tool'])}:", *arguments(item, columns)]
    lines = clean(item["text"]).splitlines()
    if item["kind"] == "question" and item["options"]:
        lines = clean(f"{item['agent']} asks: {item['question']}").splitlines()
    if item["kind"] in ("question", "vote"):
        lines += [f"[{number}] {clean(option)}" for number, option in enumerate(item["options"], 1)]
    return [part for line in lines for part in wrapped(line, columns)]


def commands_for(item: Mapping[str, Any]) -> list[str]:
    """What can be typed after `agent-worker inbox` to settle an item."""
    n = item["number"]
    words = {
        "answer": f"answer {n} 1" if item["options"] else f'answer {n} "…"',
        "approve": f"approve {n}" + ("   (or with --run, --always)" if item["tool"] else ""),
        "deny": f'deny {n} "why"',
    }
    return [words.get(verb, f"{verb} {n}") for verb in item["answers"]]


def _answer(item: str, action: str, as_json: bool, text: str = "", **how: Any) -> None:
    id = named_item(item)
    try:
        told = call("POST", f"/inbox/{part(id)}", action=action, text=text, **how)
    except BadInput as error:  # its hint calls the item what the person calls it
        raise type(error)(error.message, hint=error.hint.replace(id, item), slip=error.slip) from None
    tell(told, as_json, item=id)


def named_item(given: str) -> str:
    """The id of an item that is called by its number or by the beginning of its id."""
    items = call("GET", "/inbox", project=here())
    given = given.removeprefix("#")
    found = [i for i in items if str(i["number"]) == given] or [i for i in items if i["id"].startswith(given)]
    if len(found) > 1:
        raise BadInput(f"{given} could be any of {len(found)}", hint="give its number: agent-worker inbox")
    if found:
        return str(found[0]["id"])
    if given.isdecimal():
        raise NotFound(f"nothing is waiting under {given} in this project", hint="agent-worker inbox")
    return given  # perhaps of another project


@inbox.command()
@click.argument("item", shell_complete=item_ids)
@click.option("--run", "scope", flag_value="run", help="Also allow all further calls of this tool in the same run.")
@click.option(
    "--always",
    "scope",
    flag_value="always",
    help="Allow exactly this call from now on; `inbox revoke` takes that back.",
)
@as_json_option
def approve(item: str, scope: str | None, as_json: bool) -> None:
    """Allow a tool call, or let an outcome that you may veto stand."""
    _answer(item, "approve", as_json, scope=scope or "once")


@inbox.command()
@as_json_option
def allowed(as_json: bool) -> None:
    """Show the tool calls that are always allowed in this project."""
    calls = call("GET", "/allowed", project=here())
    if as_json:
        return tell_json(calls)
    if not calls:
        echo("no tool call is allowed without asking")
    for each in calls:
        echo(f"{paint(each['digest'][:8], 'cyan')}  {clean(each['what'])}")


@inbox.command()
@click.argument("digest")
@as_json_option
def revoke(digest: str, as_json: bool) -> None:
    """Ask again about a tool call that was always allowed: DIGEST is what `inbox allowed` shows."""
    found = [each["digest"] for each in call("GET", "/allowed", project=here()) if each["digest"].startswith(digest)]
    if len(found) != 1:
        what = "no allowed call begins" if not found else f"{len(found)} allowed calls begin"
        raise NotFound(f"{what} with {digest}", hint="agent-worker inbox allowed")
    gone = call("DELETE", f"/allowed/{found[0]}", project=here())
    tell(f"you will be asked again about: {gone['what']}", as_json, **gone)


@inbox.command()
@click.argument("item", shell_complete=item_ids)
@click.argument("reason", default="")
@as_json_option
def deny(item: str, reason: str, as_json: bool) -> None:
    """Refuse a tool call, or veto an outcome.

    The agent, or the team, is told the reason.
    """
    _answer(item, "deny", as_json, reason)


@inbox.command()
@click.argument("item", shell_complete=item_ids)
@click.argument("text")
@click.option("--other", is_flag=True, help="TEXT is none of the options, on purpose.")
@as_json_option
def answer(item: str, text: str, other: bool, as_json: bool) -> None:
    """Answer a question, vote, or reply to somebody who called on you.

    Where there are options, TEXT is one of them, or its number.
    """
    _answer(item, "answer", as_json, text, other=other)


@inbox.command()
@click.argument("item", shell_complete=item_ids)
@as_json_option
def retry(item: str, as_json: bool) -> None:
    """Retry what failed or met a limit.

    What a limit stopped continues with a new allowance.
    """
    _answer(item, "retry", as_json)


@inbox.command()
@click.argument("item", shell_complete=item_ids)
@as_json_option
def dismiss(item: str, as_json: bool) -> None:
    """Close an item without doing anything about it."""
    _answer(item, "dismiss", as_json)
