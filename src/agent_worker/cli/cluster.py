"""`cluster demo`: two daemons over a PostgreSQL of its own; one is killed, and its work goes on."""

from __future__ import annotations

import json

import click

from agent_worker.cli.output import echo, paint


@click.group()
def cluster() -> None:
    """Several daemons that share their work through PostgreSQL."""


@cluster.command()
@click.option("--json", "as_json", is_flag=True, help="Print each step as a JSON line.")
def demo(as_json: bool) -> None:
    """Watch two daemons share a project, and an answer survive when one of them is killed halfway.

    Starts a PostgreSQL server of its own on loopback; PostgreSQL must be installed. Needs no key and no network, costs
    nothing, and leaves nothing behind. Your own daemon is not touched.
    """
    from agent_worker.offline.cluster import play

    for step in play():
        if as_json:
            click.echo(json.dumps({"seconds": step.at, "step": step.name, "text": step.text}))
        else:
            echo(f"{paint(f'{step.at:6.1f} s', 'bright_black')}  {step.text}")
