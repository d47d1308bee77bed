"""The command line as people and scripts use it, against a real daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.shells import nursery
from tests.shells.served import Served, served

from agent_worker.backends.models.providers import PROVIDERS

KEYS = [name for each in PROVIDERS.values() for name in each.variables]


@dataclass
class Terminal:
    daemon: Served

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(self.daemon.home)}
        return nursery.run("agent_worker.cli", *arguments, cwd=self.daemon.project, env=known | env, stdin=stdin)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env={"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(self.daemon.home)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def shows(self, *arguments: str, columns: int) -> str:
        """What is seen on a terminal of this width."""
        master, slave = pty.openpty()
        known = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(self.daemon.home)}
        child = subprocess.Popen(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env=known | {"COLUMNS": str(columns), "NO_COLOR": "1"},
            stdin=slave,
            stdout=slave,
        )
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):  # its end
            while more := os.read(master, 65536):
                seen += more
        os.close(master)
        assert child.wait(timeout=PATIENCE) == 0
        return seen.decode().replace("\r\n", "\n")

    def says(self, *arguments: str, **how: Any) -> str:
        done = self.run(*arguments, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))


@asynccontextmanager
async def terminal_knowing(tmp: Path, files: dict[str, str] | None = None, **environ: str) -> AsyncIterator[Terminal]:
    """With a daemon of its own that has these keys of providers and no other; `files` define its agents."""
    unset = [part for name in KEYS if name not in environ for part in ("-u", name)]
    daemon = served(tmp, environ, limited=("env", *unset), **files or {})
    made = await asyncio.to_thread(daemon.__enter__)
    try:
        yield Terminal(made)
    finally:
        await asyncio.to_thread(daemon.__exit__, None, None, None)
