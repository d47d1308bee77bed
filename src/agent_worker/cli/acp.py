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

    WHO limits this to one agent, or to a team as @name. In the editor's configuration, use
    the command `agent-worker` with the argument `acp`. The daemon keeps the sessions.
    """
    if not all(map(_is_pipe, (0, 1))):
        raise Refused("this is for an editor, which starts it and talks to it", hint="agent-worker connect zed")
    from agent_worker.core.address import parse_address
    from agent_worker.doors.acp.server import serve  # takes a second

    serve(str(parse_address(who)) if who else "")


def _is_pipe(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
