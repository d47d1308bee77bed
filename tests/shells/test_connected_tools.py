"""Claude Code, Codex and opencode read the entries that `connect` wrote for them, and `doctor` tells what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.needs import NPM, needs
from tests.shells.served import served
from tests.shells.terminal import Terminal

TOOLS = {"claude": "Claude Code", "codex": "Codex", "opencode": "opencode"}
BIN = NPM / ".bin"

pytestmark = needs("claude, codex and opencode, from npm", there=all((BIN / name).exists() for name in TOOLS))


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_finds_us_where_it_was_told_to_look(tool: str, tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        known = {"HOME": str(tmp_path / "me"), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
        (tmp_path / "me").mkdir()
        assert terminal.run("connect", tool, "--yes", **known).returncode == 0
        checks = {each["check"]: each for each in json.loads(terminal.run("doctor", "--json", **known).stdout)}
        assert checks[TOOLS[tool]]["ok"], checks[TOOLS[tool]]
        assert "agent-worker" in checks[TOOLS[tool]]["found"]
        assert terminal.run("connect", tool, "--undo", "--yes", **known).returncode == 0
        again = {each["check"] for each in json.loads(terminal.run("doctor", "--json", **known).stdout)}
        assert TOOLS[tool] not in again
