"""`connect`: an entry for us in the settings of another AI tool or editor, shown before it is written."""

from __future__ import annotations

import sys

import click

from agent_worker.cli.output import agreed, as_json_option, echo, paint, tell_json
from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.text import clean

_TOOLS = ("claude", "codex", "cursor", "opencode", "zed", "vscode")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command()
@click.argument("tool", type=click.Choice(_TOOLS))
@click.option("--undo", is_flag=True, help="Take the entry out again.")
@click.option("--yes", "-y", is_flag=True, help="Write it without asking.")
@as_json_option
def connect(tool: str, undo: bool, yes: bool, as_json: bool) -> None:
    """Connect an AI tool or editor to your agents and teams by writing an entry into its own settings.

    The change is shown first. Everything else in that file stays as it is. Zed gets your agents and teams to talk with
    (ACP), and, like all the others, tools that reach them (MCP). `agent-worker doctor` asks the tool whether it works.
    """
    from agent_worker.offline import connecting

    edit = connecting.planned(tool, undo=undo)
    title = connecting.TOOLS[tool].title
    if not edit.is_nothing and not yes:
        _show(edit.diff(), err=as_json)
        _confirm(tool, undo=undo)
    if not edit.is_nothing:
        connecting.written(edit)
    if as_json:
        return tell_json({"tool": tool, "file": str(edit.file), "changed": not edit.is_nothing, "connected": not undo})
    if edit.is_nothing:
        echo(f"nothing to do: {title} {'is not' if undo else 'is'} connected ({clean(str(edit.file))})")
    else:
        echo(f"{title} is {'not connected any more' if undo else 'connected'}: {clean(str(edit.file))}")
        if not undo:
            echo("restart it, so that it reads its settings; agent-worker doctor asks it whether it works")


def _show(diff: str, *, err: bool) -> None:
    for line in diff.splitlines():
        echo(paint(clean(line), _COLOURS.get(line[:1], "white")), err=err)


def _confirm(tool: str, *, undo: bool) -> None:
    if not sys.stdin.isatty():
        hint = f"agent-worker connect {tool}{' --undo' if undo else ''} --yes"
        raise Refused("there is nobody here to ask whether to write that", hint=hint)
    if not agreed("\nWrite it?"):
        raise BadInput("nothing was written", hint="")
