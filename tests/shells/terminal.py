"""The command line as people and scripts use it, against a real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.shells import nursery
from tests.shells.served import Served


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

    def says(self, *arguments: str, **how: Any) -> str:
        done = self.run(*arguments, **how)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.says(*arguments, "--json"))
