"""`demo`: a team of mock agents reviews a bundled change, in this process, in a temporary project that it names."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_worker.cli.live import LiveView, decision_lines, summary_line
from agent_worker.demo.bundle import lay_out

if TYPE_CHECKING:
    from agent_worker.core.events import Subscription
    from agent_worker.workflows.summary import Summary


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--verbose", is_flag=True, help="Show tool calls.")
def demo(as_json: bool, verbose: bool) -> None:
    """Watch three mock agents review a change: mentions, a document, a resource, a vote, a retry.

    Needs no key, no network and no configuration, and costs nothing.
    """
    root = lay_out()
    if not as_json:
        click.echo(f"Three mock agents review a change in {root}\n")
    summary = asyncio.run(_play(root, as_json=as_json, verbose=verbose))
    if not as_json:
        _tell(summary, root)
    sys.exit(summary.exit_code)


async def _play(root: Path, *, as_json: bool, verbose: bool) -> Summary:
    import agent_worker

    async def watch(events: Subscription, view: LiveView) -> None:
        async for event in events:
            click.echo(json.dumps(event.as_record())) if as_json else view.show(event.as_record())

    async with agent_worker.open_project(root, home=root / ".state") as project:
        with LiveView(verbose=verbose) as view, project.events() as events:
            watching = asyncio.create_task(watch(events, view))
            team = await project.start("review")
            summary = await team.run()
            watching.cancel()
    return summary


def _tell(summary: Summary, root: Path) -> None:
    where = root / ".workspace" / "review" / "main"
    click.echo(f"\n{summary_line(asdict(summary))}")
    for line in decision_lines(asdict(summary)):
        click.echo(line)
    click.echo(f"  the channel      {where / 'channel.jsonl'}")
    for name in summary.documents:
        click.echo(f"  the document     {where / 'documents' / name}")
    click.echo(f"  a memory         {root / '.agents' / 'ada' / 'memory' / 'working.yaml'}")
    click.echo(f"  the agents       {root / '.agents'}")
    click.echo("\nNext, in a directory of your own:")
    click.echo("  agent-worker init          agents and a workflow to begin with")
    click.echo("  agent-worker run review    put the team to work")
