"""`export`: a workspace or a conversation as one file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from agent_worker.cli.call import call, here
from agent_worker.cli.complete import addresses
from agent_worker.cli.output import clean


@click.command()
@click.argument("target", shell_complete=addresses)
@click.option("--format", "form", type=click.Choice(["md", "jsonl"]), default="md", show_default=True)
def export(target: str, form: str) -> None:
    """Print everything that was said at TARGET (@review, or alice), and a workspace's documents, as one text."""
    lines = _all_lines(target)
    if form == "jsonl":
        for line in lines:
            click.echo(json.dumps(line))
        return
    click.echo(f"# {target}\n")
    for line in lines:
        click.echo(clean(f"**{line['who']}** ({_time(line['at'])})\n\n{line['text']}\n"))
    if target.startswith("@"):
        for name in call("GET", "/documents", at=target, project=here()):
            text = call("GET", f"/documents/{name}", at=target, project=here())["text"]
            click.echo(clean(f"---\n\n## {name}\n\n{text}"))


def _all_lines(target: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    while page := call(
        "GET", "/messages", at=target, since=lines[-1]["seq"] if lines else 0, limit=1000, project=here()
    ):
        lines += page
    return lines


def _time(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")
