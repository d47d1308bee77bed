"""`connect` puts one entry into a file of somebody else, and takes it out again: nothing else in it is touched."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.cli.connect import connect
from agent_worker.core.errors import BadInput, Refused
from agent_worker.offline import connecting, json_text
from agent_worker.offline.connecting import TOOLS, planned, written

PATH = ("servers", "agent-worker")
ZED = """// my settings
{
  "theme": "One", // nice
  /* "agent_servers": { } */
  "agent_servers": {
    "other": { "command": "a // b", "args": ["}", "/*"] }, // keep me
  },
}
"""
CODEX = """# mine
model = "x" # keep

[mcp_servers.agent-worker-two]
command = "y"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "AGENT_WORKER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(connect, [*arguments, "--yes"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def place(home: Path, tool: str, text: str) -> Path:
    file = TOOLS[tool].file(home, os.environ)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def without_comments(text: str) -> Any:
    """By Python's own reader, once what only editors allow is taken out of this one text."""
    text = text.replace("// my settings\n", "").replace(" // nice", "").replace(" // keep me", "")
    return json.loads(text.replace('/* "agent_servers": { } */', "").replace(",\n  }", "\n  }").replace(",\n}", "\n}"))


@pytest.mark.parametrize(
    ("tool", "file", "section"),
    [
        ("claude", ".claude.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("opencode", ".config/opencode/opencode.json", "mcp"),
        ("vscode", ".config/Code/User/mcp.json", "servers"),
        ("zed", ".config/zed/settings.json", "agent_servers"),
    ],
)
def test_a_tool_gets_its_entry_in_its_own_file(home: Path, tool: str, file: str, section: str) -> None:
    run(tool)
    entry = json.loads((home / file).read_text())[section]["agent-worker"]
    command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert os.path.isabs(command[0]), "an editor does not have the PATH of a terminal"
    if tool == "cursor":
        assert command[-2:] == ["--project", "${workspaceFolder}"], "it starts us elsewhere"
        command = command[:-2]
    assert command[-1] == ("acp" if tool == "zed" else "mcp")
    assert stat.S_IMODE((home / file).stat().st_mode) == 0o600
    assert "nothing to do" in run(tool)
    run(tool, "--undo")
    assert not (home / file).exists(), "nothing but our entry was in it"


def test_zed_gets_who_to_talk_with_and_tools(home: Path) -> None:
    file = place(home, "zed", ZED)
    run("zed")
    text = file.read_text()
    for kept in ("// my settings", "// nice", '/* "agent_servers": { } */', '"a // b"', "// keep me"):
        assert kept in text
    found = without_comments(text)
    assert found["agent_servers"]["agent-worker"]["args"][-1] == "acp"
    assert found["context_servers"]["agent-worker"]["args"][-1] == "mcp"
    assert found["agent_servers"]["other"] == {"command": "a // b", "args": ["}", "/*"]}
    run("zed", "--undo")
    assert file.read_text() == ZED


def test_codex_keeps_its_comments_and_tables(home: Path) -> None:
    file = place(home, "codex", CODEX)
    run("codex")
    assert file.read_text().startswith(CODEX)
    assert tomllib.loads(file.read_text())["mcp_servers"]["agent-worker"]["args"][-1] == "mcp"
    assert "nothing to do" in run("codex")
    file.write_text(file.read_text() + "\n[mcp_servers.agent-worker.env]\nX = '1'\n\n[tui]\ntheme = 'dark'\n")
    run("codex", "--undo")
    assert tomllib.loads(file.read_text()) == tomllib.loads(CODEX) | {"tui": {"theme": "dark"}}


def test_the_home_that_is_used_here_is_used_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_WORKER_HOME", "/else/where")
    for tool in TOOLS:
        assert "/else/where" in planned(tool, undo=False).after


@pytest.mark.parametrize(("tool", "text"), [("zed", '{ "a": '), ("zed", "[]"), ("cursor", "x"), ("codex", "a = [")])
def test_a_file_that_is_broken_is_left_alone(home: Path, tool: str, text: str) -> None:
    file = place(home, tool, text)
    with pytest.raises(BadInput, match=str(file)):
        planned(tool, undo=False)
    assert file.read_text() == text


def test_a_file_that_was_changed_meanwhile_is_left_alone(home: Path) -> None:
    file = place(home, "cursor", "{}")
    edit = planned("cursor", undo=False)
    file.write_text('{"new": 1}')
    with pytest.raises(Refused, match="changed in the meantime"):
        written(edit)
    assert file.read_text() == '{"new": 1}'


def test_a_link_stays_a_link(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text("{}\n")
    real.chmod(0o644)
    file = TOOLS["cursor"].file(home, os.environ)
    file.parent.mkdir()
    file.symlink_to(real)
    run("cursor")
    assert file.is_symlink()
    assert "agent-worker" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


def test_without_a_terminal_nothing_is_written_unasked(home: Path) -> None:
    with pytest.raises(Refused) as refused:
        CliRunner().invoke(connect, ["cursor"], catch_exceptions=False)
    assert refused.value.hint == "agent-worker connect cursor --yes"
    assert not (home / ".cursor").exists()


def test_the_change_is_shown_before_it_is_written(home: Path) -> None:
    place(home, "cursor", '{\n  "mcpServers": {}\n}\n')
    lines = planned("cursor", undo=False).diff().splitlines()
    assert any(line.startswith("+") and '"agent-worker"' in line for line in lines)
    assert not connecting.connected("cursor")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 1, 2, "\t"]), st.booleans())
def test_whatever_else_stands_there_stays(content: dict[str, Any], indent: Any, inside: bool) -> None:
    content.pop("servers", None)
    if inside:
        content["servers"] = {"other": [1, {"x": "}"}]}
    text = json.dumps(content, indent=indent)
    put = json_text.put(text, PATH, {"command": "x"})
    found = json.loads(put)
    assert found.pop("servers") == (content.get("servers") or {}) | {"agent-worker": {"command": "x"}}
    assert found == {name: value for name, value in content.items() if name != "servers"}
    assert json.loads(json_text.taken_out(put, PATH)) == content
    again = json_text.put(put, PATH, {"command": "y"})
    assert json.loads(again)["servers"]["agent-worker"] == {"command": "y"}
