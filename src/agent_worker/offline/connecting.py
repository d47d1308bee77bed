"""Entries for us in the files of AI tools and editors: which file, what stands there, and how it would read.

Only files of the user: one in the project would be obeyed by agents' programs too. What is not ours in them, comments
included, stays as it is; a file that was changed since it was read is not written.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_worker.client.discovery import HOME_VARIABLE
from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.later import dataclass
from agent_worker.offline import json_text

NAME = "agent-worker"
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AiTool:
    """A program that can use us, and where its user keeps its settings."""

    title: str
    file: Callable[[Path, Mapping[str, str]], Path]  #: by the home directory and the environment
    entries: Callable[[list[str], Mapping[str, str]], dict[str, Entry]]  #: section → what stands there under our name
    asks: tuple[str, ...] = ()  #: the command by which the tool itself lists what it is connected to


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """A file as it is, and as it would be."""

    tool: str
    file: Path
    before: str
    after: str

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), str(self.file), str(self.file), lineterm=""
        )
        return "\n".join(lines)


def _plain(command: list[str], env: Mapping[str, str], verb: str) -> Entry:
    entry: Entry = {"command": command[0], "args": [*command[1:], verb]}
    return entry | ({"env": dict(env)} if env else {})


def _claude(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    return {"mcpServers": {"type": "stdio"} | _plain(command, env, "mcp")}


def _cursor(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    """The entry for Cursor, which starts servers in a directory of its own and fills in the folder that is open."""
    entry = _plain(command, env, "mcp")
    return {"mcpServers": entry | {"args": [*entry["args"], "--project", "${workspaceFolder}"]}}


def _codex(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    return {"mcp_servers": _plain(command, env, "mcp")}


def _opencode(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    entry: Entry = {"type": "local", "command": [*command, "mcp"], "enabled": True}
    return {"mcp": entry | ({"environment": dict(env)} if env else {})}


def _vscode(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    return {"servers": {"type": "stdio"} | _plain(command, env, "mcp")}


def _zed(command: list[str], env: Mapping[str, str]) -> dict[str, Entry]:
    return {
        "agent_servers": {"type": "custom"} | _plain(command, env, "acp"),
        "context_servers": _plain(command, env, "mcp"),
    }


def _config(home: Path, env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config")


def _opencode_file(home: Path, env: Mapping[str, str]) -> Path:
    folder = _config(home, env) / "opencode"
    commented = folder / "opencode.jsonc"
    return commented if commented.exists() else folder / "opencode.json"


def _vscode_file(home: Path, env: Mapping[str, str]) -> Path:
    mac = home / "Library" / "Application Support"
    return (mac if sys.platform == "darwin" else _config(home, env)) / "Code" / "User" / "mcp.json"


TOOLS: Mapping[str, AiTool] = {
    "claude": AiTool(
        "Claude Code",
        lambda home, env: Path(env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json",
        _claude,
        ("claude", "mcp", "list"),
    ),
    "codex": AiTool(
        "Codex",
        lambda home, env: Path(env.get("CODEX_HOME") or home / ".codex") / "config.toml",
        _codex,
        ("codex", "mcp", "list"),
    ),
    "cursor": AiTool(
        "Cursor", lambda home, env: home / ".cursor" / "mcp.json", _cursor, ("cursor-agent", "mcp", "list")
    ),
    "opencode": AiTool("opencode", _opencode_file, _opencode, ("opencode", "mcp", "list")),
    "zed": AiTool("Zed", lambda home, env: _config(home, env) / "zed" / "settings.json", _zed),
    "vscode": AiTool("VS Code", _vscode_file, _vscode),
}


def planned(name: str, *, undo: bool) -> PlannedEdit:
    """What would be changed for this tool. Raises BadInput where its file cannot be changed safely."""
    tool, env = TOOLS[name], os.environ
    file = tool.file(Path.home(), env)
    before = _text(file)
    ours = {HOME_VARIABLE: env[HOME_VARIABLE]} if env.get(HOME_VARIABLE) else {}
    after = before
    try:
        for section, entry in tool.entries(_command(), ours).items():
            after = _edited(file, after, section, None if undo else entry)
    except BadInput as error:
        raise BadInput(f"{file}: {error.message}", hint=error.hint) from None
    return PlannedEdit(name, file, before, after)


def connected(name: str) -> bool:
    """Whether there is an entry for us in the file of a tool."""
    file = TOOLS[name].file(Path.home(), os.environ)
    try:
        text = _text(file)
        return any(_has(file, text, section) for section in TOOLS[name].entries([NAME], {}))
    except (BadInput, OSError, ValueError):
        return False


def written(edit: PlannedEdit) -> None:
    """Put the planned text in place, whole or not at all, unless somebody has changed the file since."""
    if _text(edit.file) != edit.before:
        told = f"{edit.file} was changed in the meantime: nothing was written"
        raise Refused(told, hint=f"agent-worker connect {edit.tool}")
    target = Path(os.path.realpath(edit.file))  # a link to it stays one
    if edit.after.strip() in ("", "{}", "{\n}"):
        return target.unlink()  # nothing but our entry was in it
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as new:
        new.write(edit.after)
    os.chmod(new.name, mode)
    os.replace(new.name, target)


def _command() -> list[str]:
    """How we are started, by a whole path: an editor does not have the PATH of a terminal."""
    found = shutil.which(NAME)
    return [os.path.abspath(found)] if found else [sys.executable, "-P", "-m", "agent_worker.cli"]


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise BadInput(f"{file} is not text", hint="write the entry by hand: agent-worker connect --help") from None


def _has(file: Path, text: str, section: str) -> bool:
    return _table(section).search(text) is not None if file.suffix == ".toml" else json_text.has(text, (section, NAME))


def _edited(file: Path, text: str, section: str, entry: Entry | None) -> str:
    if file.suffix == ".toml":
        return _toml(text, section, entry)
    path = (section, NAME)
    return json_text.taken_out(text, path) if entry is None else json_text.put(text, path, entry)


# --- TOML, of which we write one table at the end -------------------------------------------------------


def _table(section: str) -> re.Pattern[str]:
    """Our table with its own lines and tables beneath it, up to the next table of somebody else."""
    head = rf"\[{section}\.(?:{NAME}|\"{NAME}\")(?:\.[^\]\n]*)?\]"
    return re.compile(rf"^[ \t]*{head}[^\n]*\n?(?:(?![ \t]*\[)[^\n]*\n?)*", re.MULTILINE)


def _toml(text: str, section: str, entry: Entry | None) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"it is not TOML: {error}", hint="fix it first, or write it by hand") from None
    rest = _without(text, section)
    if entry is None:
        return rest
    lines = [f"[{section}.{NAME}]", f"command = {json.dumps(entry['command'])}", f"args = {json.dumps(entry['args'])}"]
    if entry.get("env"):
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in entry["env"].items())
        lines.append(f"env = {{ {pairs} }}")
    made = (rest.rstrip("\n") + "\n\n" if rest.strip() else "") + "\n".join(lines) + "\n"
    if tomllib.loads(made) == tomllib.loads(text):
        return text
    return made


def _without(text: str, section: str) -> str:
    pattern = _table(section)
    if not pattern.search(text):
        return text
    left = pattern.sub("", text).rstrip("\n")
    return left + "\n" if left else ""
