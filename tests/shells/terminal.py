"""The command line as people and scripts use it, against a real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.patience import PATIENCE
from tests.shells.served import Served


@dataclass
class Terminal:
    daemon: Served

    def run(self, *arguments: str, stdin: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "agent_worker.cli", *arguments],
            cwd=self.daemon.project,
            env={"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(self.daemon.home)} | env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

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
