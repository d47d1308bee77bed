"""Set-up commands: run in order in the project's root, before anyone is called. Values arrive as variables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_worker.core.errors import Refused
from agent_worker.core.failpoints import failpoint
from agent_worker.core.text import beginning_and_end
from agent_worker.definitions.workflow import SetupStep
from agent_worker.processes.child import COMMAND_SECONDS, run_command
from agent_worker.processes.environment import safe_environment
from agent_worker.workflows.interpolation import shell_command

OUTPUT_LIMIT = 1024 * 1024


async def run_setup(
    steps: tuple[SetupStep, ...],
    values: Mapping[str, str],
    *,
    root: Path,
    check: Callable[[SetupStep], None] = lambda step: None,
) -> dict[str, str]:
    """What the commands that are named with `as` printed. The first that fails stops the start, with its output.

    `check` blocks, and raises unless the step may run as things are right then: an earlier one may have changed them.
    """
    outputs: dict[str, str] = {}
    for step in steps:
        failpoint("setup.before")
        command, variables = shell_command(step.shell, {**values, **outputs})
        env = {**safe_environment((), source=os.environ), **variables}
        await asyncio.to_thread(check, step)
        done = await run_command(command, cwd=root, env=env, timeout=COMMAND_SECONDS, output_cap=OUTPUT_LIMIT)
        if done.timed_out:
            raise Refused(f"set-up took longer than {COMMAND_SECONDS:.0f} s and was stopped: {step.shell}")
        if done.exit_code != 0:
            raise Refused(
                f"set-up failed (exit {done.exit_code}): {step.shell}\n{beginning_and_end(done.output)}".rstrip(),
                hint="run the command by hand in the project's directory",
            )
        failpoint("setup.after")
        if step.output:
            cut = f"\n[cut at {OUTPUT_LIMIT // 1024} KiB]" if done.cut else ""
            outputs[step.output] = done.output.rstrip("\n") + cut
    return outputs
