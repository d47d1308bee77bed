"""The coding programs we can drive: what they are called on a disk, how one gets them, and their versions."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_worker.backends.programs import acp, claude, codex, cursor, gemini, hermes, opencode
from agent_worker.backends.programs.one_shot import Cli, OneShot
from agent_worker.backends.programs.program import Program
from agent_worker.core.later import dataclass, pattern
from agent_worker.processes.child import run_command
from agent_worker.processes.environment import path_of_ours, safe_environment

_VERSION = pattern(r"\d+(?:\.\d+)+\S*")
_PATIENCE = 20.0  # seconds; the slowest takes four
_told: dict[tuple[str, int, int], str] = {}  # versions, by file


@dataclass(frozen=True, slots=True)
class KnownProgram:
    names: tuple[str, ...]
    install: str


#: How each is driven, by the name of its backend.
SPEAKERS: Mapping[str, Callable[[], Cli]] = {
    "claude": claude.Claude,
    "codex": codex.Codex,
    "opencode": lambda: acp.Acp(opencode.OpenCode()),
    "gemini": lambda: acp.Acp(gemini.Gemini()),
    "hermes": lambda: acp.Acp(hermes.Hermes()),
    "acp": lambda: acp.Acp(acp.PlainAcp()),
    "cursor": cursor.Cursor,
}

#: Programs that do not begin without a key, each with its variable.
NEEDED: Mapping[str, str] = {"cursor": cursor.KEY}

KNOWN: Mapping[str, KnownProgram] = {
    "claude": KnownProgram(("claude",), claude.INSTALL),
    "codex": KnownProgram(("codex",), codex.INSTALL),
    "opencode": KnownProgram(("opencode",), opencode.INSTALL),
    "gemini": KnownProgram(("gemini",), gemini.INSTALL),
    "hermes": KnownProgram(("hermes",), hermes.INSTALL),
    "cursor": KnownProgram(("cursor-agent", "agent"), cursor.INSTALL),
}


def driven(backend: str, program: Program) -> OneShot:
    return OneShot(SPEAKERS[backend](), program)


def found(name: str, path: str) -> str:
    """The path of a program, by the names it has; '' when it is not installed."""
    return next((place for each in KNOWN[name].names if (place := shutil.which(each, path=path))), "")


async def version(binary: str) -> str:
    """What it says of itself, asked once for each file; '' when it does not answer."""
    file = await asyncio.to_thread(os.stat, binary)
    key = binary, file.st_mtime_ns, file.st_size
    if key not in _told:
        env = safe_environment() | {"PATH": path_of_ours()}
        done = await run_command([binary, "--version"], cwd=Path("/"), env=env, timeout=_PATIENCE)
        found = _VERSION.search(done.output) if done.exit_code == 0 else None
        _told[key] = found.group() if found else ""
    return _told[key]
