"""A program that uses the protocol's own TypeScript libraries, and knows tasks, against the daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.needs import NPM, needs
from tests.patience import PATIENCE
from tests.shells.served import served

PROGRAM = Path(__file__).with_name("tasks_client.mjs")
LIBRARIES = [NPM / "@modelcontextprotocol" / name for name in ("client", "ext-tasks")]
ASKS = "script: [{ call: { tool: ask_user, with: { question: Which?, options: [a, b] } } }, { say: b it is }]\n"

pytestmark = needs(
    "@modelcontextprotocol/client and ext-tasks, from npm",
    there=shutil.which("node") is not None and all(each.exists() for each in LIBRARIES),
)


def test_a_task_is_followed_asked_answered_and_cancelled(tmp_path: Path) -> None:
    with served(tmp_path, alice=ASKS, bob=ASKS) as daemon:
        url, token = f"http://{daemon.here}/mcp", daemon.client.found.token
        done = subprocess.run(
            ["node", PROGRAM, NPM, url, token, daemon.project], capture_output=True, text=True, timeout=PATIENCE
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["era"], told["kind"], told["outcome"]["status"]) == ("modern", "task", "completed")
    assert told["outcome"]["data"]["text"] == "b it is"
    assert len(told["asked"]) == 1
    assert "Which?" in told["asked"][0]
    assert told["second"] == {"kind": "task", "status": "cancelled"}
