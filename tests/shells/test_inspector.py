"""The MCP Inspector's own command line, from npm, drives the daemon through our bridge."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.needs import NPM, needs
from tests.patience import PATIENCE
from tests.shells.served import Served, served

INSPECTOR = NPM / "@modelcontextprotocol/inspector-cli/build/index.js"
BRIDGE = [str(Path(sys.executable).parent / "agent-worker"), "mcp"]

pytestmark = needs("the MCP Inspector, from npm", there=shutil.which("node") is not None and INSPECTOR.exists())


def inspect(daemon: Served, *arguments: str) -> Any:
    done = subprocess.run(
        ["node", str(INSPECTOR), *BRIDGE, *arguments],
        cwd=daemon.project,
        env=os.environ | {"AGENT_WORKER_HOME": str(daemon.home)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_and_calls_the_persons_tools(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        listed = inspect(daemon, "--method", "tools/list")
        assert {"agents_list", "agent_ask", "workflow_run"} <= {tool["name"] for tool in listed["tools"]}
        called = inspect(
            daemon, "--method", "tools/call", "--tool-name", "agent_ask", "--tool-arg", "agent=alice", "message=hello"
        )
    assert not called["isError"]
    assert json.loads(called["content"][0]["text"])["text"] == "I have looked at this: hello"
