"""`demo`: a team of mock agents reviews a bundled change, in this process, in a temporary project that it names."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click

from agent_worker.cli.console import Console
from agent_worker.cli.live import LiveView, decision_lines, summary_line
from agent_worker.cli.output import echo


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--verbose", is_flag=True, help="Show tool calls.")
def demo(as_json: bool, verbose: bool) -> None:
    """Watch three mock agents review a change: mentions, a document, a resource, a vote, a retry.

    Needs no key, no network and no configuration, and costs nothing.
    """
    from agent_worker.offline.run import lay_out_demo, play

    root = lay_out_demo()
    if not as_json:
        echo(f"Three mock agents review a change in {root}\n")
    with Console() as console:
        view = LiveView(console, "@review", verbose=verbose)
        summary = play(root, "review", _as_json if as_json else view.show)
    if not as_json:
        _tell(summary, root)
    sys.exit(summary["exit_code"])


def _as_json(event: dict[str, Any]) -> None:
    click.echo(json.dumps(event))


def _tell(summary: dict[str, Any], root: Path) -> None:
    where = root / ".workspace" / "review" / "main"
    echo(f"\n{summary_line(summary)}")
    for line in decision_lines(summary):
        echo(line)
    echo(f"  the channel      {where / 'channel.jsonl'}")
    for name in summary["documents"]:
        echo(f"  the document     {where / 'documents' / name}")
    echo(f"  a memory         {root / '.agents' / 'ada' / 'memory' / 'working.yaml'}")
    echo(f"  the agents       {root / '.agents'}")
    if not _is_a_command():
        echo("\nOnce, so that `agent-worker` is a command everywhere:")
        echo(f"  uv tool install {_where_from()}")
    echo("\nNext, in a directory of your own:")
    echo("  agent-worker init          agents and a workflow to begin with")
    echo("  agent-worker run review    put the team to work")


def _is_a_command() -> bool:
    """Whether whoever typed this finds `agent-worker`: `uv run` puts it on the PATH for its own child only."""
    ours = Path(sys.executable).parent
    lent = "UV_RUN_RECURSION_DEPTH" in os.environ
    folders = [each for each in os.get_exec_path() if not (lent and Path(each) == ours)]
    return shutil.which("agent-worker", path=os.pathsep.join(folders)) is not None


def _where_from() -> str:
    """What to install: the checkout we run from, or the project by its name."""
    checkout = Path(__file__).parents[3]
    return shlex.quote(str(checkout)) if (checkout / "pyproject.toml").is_file() else "agent-worker"
