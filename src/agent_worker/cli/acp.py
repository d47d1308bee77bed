"""`acp`: agents and teams for an editor that speaks the Agent Client Protocol, over standard input and output."""

from __future__ import annotations

import click

from agent_worker.cli.call import addresses


@click.command()
@click.argument("who", default="", shell_complete=addresses)
def acp(who: str) -> None:
    """Serve agents and teams to an editor over standard input and output.

    WHO is an agent, or a team as @name: then that one alone can be talked with. In the configuration of the editor it
    is the command `agent-worker` with the argument `acp`. Sessions are kept by the daemon.
    """
    from agent_worker.core.address import parse_address
    from agent_worker.doors.acp.server import serve  # takes a second

    serve(str(parse_address(who)) if who else "")
