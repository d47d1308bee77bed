"""`skill`: instructions for special tasks, taken from a repository after you have read them."""

from __future__ import annotations

from typing import Any

import click

from agent_worker.cli.approval import can_ask
from agent_worker.cli.call import call, here
from agent_worker.cli.output import agreed, as_json_option, echo, paint, tell_json
from agent_worker.core.errors import Untrusted
from agent_worker.core.text import clean


@click.group()
def skill() -> None:
    """Import skills: instructions for special tasks that agents read when they need them."""


@skill.command("import")
@click.argument("source")
@click.option("--trust", is_flag=True, help="Import it without asking.")
@as_json_option
def import_(source: str, trust: bool, as_json: bool) -> None:
    """Copy a skill from SOURCE (github:owner/repo@version/folder) into .agents/skills, after showing it."""
    offer = call("POST", "/skills/look", source=source, project=here())
    if not as_json:
        _tell(offer)
    if not trust:
        if not can_ask():
            raise Untrusted(
                f"{offer['name']} was not imported: nobody has approved it",
                hint=f"read it, then: agent-worker skill import {source} --trust",
            )
        if not agreed("\nImport it, as it is now?"):
            raise Untrusted(f"{offer['name']} was not imported", hint="")
    made = call("POST", "/skills/import", source=source, commit=offer["commit"], project=here())
    if as_json:
        return tell_json(made)
    echo(f"\n{clean(made['name'])} is in .agents/skills at {made['commit']}")
    echo("  let an agent use it: skills: [.agents/skills] in its file")


def _tell(offer: dict[str, Any]) -> None:
    echo(f"{paint(clean(offer['name']), 'cyan')}  {clean(offer['source'])}  {offer['commit']}")
    for file in offer["files"]:
        echo(f"\n== {clean(file['path'])}")
        click.echo(clean(file["text"]).rstrip("\n"))
    for line in offer["left_out"]:
        echo(f"\nleft out: {clean(line)}")
    for line in offer["warnings"]:
        echo(paint(f"\nwarning: {clean(line)}", "red"))
