"""Processes that do one piece of work with an agent of the backend `sdk`, and may be killed at any moment.

    python -m tests.agents.sdk_life PROJECT

Forks one life for each line it reads, says its number, and how it ended. A life begins the work, or goes on with
what an earlier one left. What it needs is imported before the first fork, so it is paid for once.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from pathlib import Path

from tests.teams import open_team

from agent_worker.backends.models.providers import Approval
from agent_worker.core.clock import SystemClock
from agent_worker.files.root import Root
from agent_worker.trust.gate import Gate
from agent_worker.workspaces import routing


async def live(project: Path) -> None:
    """Work until nothing is left to do."""
    definition = (project / "alice.txt").read_text()
    settings = {
        "database": project / "state.db",
        "approval": Approval(local=True),
        # A host is known by its home: whoever begins again there need not wait for the lease of the killed one.
        "trust": Root.private(project / "home"),
        "gate": Gate(None, SystemClock()),
    }
    async with open_team(project, "alice", clock=SystemClock(), extra={"alice": definition}, **settings) as team:
        agent = team.loaded.agents["alice"]
        await team.write(routing.tell_agent, agent, "march", now=team.now(), key="march")
        await team.idle()


def main(project: Path) -> None:
    importlib.import_module("agent_worker.backends.models.http_connection")
    for _ in sys.stdin:
        if (pid := os.fork()) == 0:
            try:
                asyncio.run(live(project))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
