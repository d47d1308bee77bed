"""`acp`: agents and teams for an editor that speaks the Agent Client Protocol, over standard input and output."""

from __future__ import annotations

import os
import stat

import click

from agent_worker.cli.call import addresses
from agent_worker.core.errors import Refused


@click.command()
@click.argument("who", default="", shell_complete=addresses)
def acp(who: str) -> None:
    """Serve agents and teams to an editor over standard input and output.

    WHO is an agent, or a team as @name: then that one alone can be talked with. In the configuration of the editor it
    is the command `agent-worker` with the argument `acp`. Sessions are kept by the daemon.
    """
    if not all(map(_is_pipe, (0, 1))):
        raise Refused("this is talked with by an editor, which starts it itself", hint="agent-worker connect zed")
    from agent_worker.core.address import parse_address
    from agent_worker.doors.acp.server import serve  # takes a second

    serve(str(parse_address(who)) if who else "")


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
