"""The check of a schedule: a command that says whether there is anything to do, before a model is asked.

It runs as a set-up command does: in the project's directory, with a safe environment, for a limited time. What it
prints is handed on as material; when it prints nothing, there is nothing to do.
"""

from __future__ import annotations

import re
from pathlib import Path

from agent_worker.core.errors import Refused
from agent_worker.core.text import beginning_and_end, plural
from agent_worker.processes.child import COMMAND_SECONDS, run_command
from agent_worker.processes.environment import safe_environment

SHOWN = 16 * 1024  #: characters of its output that are handed on


async def run_check(command: str, root: Path) -> str:
    """What the command printed, without blanks around it. Raises Refused when it fails or takes too long."""
    done = await run_command(command, cwd=root, env=safe_environment(), timeout=COMMAND_SECONDS)
    if done.timed_out:
        raise Refused(f"its check took longer than {COMMAND_SECONDS:.0f} s and was stopped: {command}")
    if done.exit_code != 0:
        hint = "run the command by hand in the project's directory"
        printed = beginning_and_end(done.output)
        raise Refused(f"its check failed (exit {done.exit_code}): {command}\n{printed}".rstrip(), hint=hint)
    return done.output.strip()


def told(command: str, output: str) -> str:
    """The output as it is handed on: in a fence that nothing in it can end."""
    more = f"\n[{plural(len(output) - SHOWN, 'more character')}]" if len(output) > SHOWN else ""
    shown = output[:SHOWN]
    fence = "`" * max(3, 1 + max((len(found) for found in re.findall(r"`+", shown)), default=0))
    return f"The check `{command}` printed:\n\n{fence}\n{shown}\n{fence}{more}"
