"""One prompt to a program that speaks the Agent Client Protocol: what is asked, what the program may do, how it ends.

Policy without the library: acp.py starts the program, acp_talk.py holds the conversation.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.json_fields import block, blocks, text
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.program import SERVER
from agent_worker.backends.programs.runner import Clocks, Launch
from agent_worker.backends.programs.signals import Signal
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Permanent
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import Access

_LOOKS = frozenset({"read", "search", "think"})
_EDITS = frozenset({"edit", "delete", "move"})
_TOUCHES = _EDITS | {"execute", "fetch", "switch_mode"}  #: what none of our tools is
_OURS = (f"{SERVER}_", f"mcp_{SERVER}_", f"mcp__{SERVER}__", f"{SERVER}/", f"mcp.{SERVER}.")


class Words(Protocol):
    """Reads what one kind of program says beside the protocol: on standard error, in errors, about usage."""

    def overheard(self, line: str) -> Iterable[Signal] | None:
        """The signals in a line of standard error; None for a line that is only shown if the program fails."""
        ...

    def failure(self, code: int, message: str, data: Mapping[str, Any]) -> BackendFailure:
        """The failure that a JSON-RPC error of this program stands for."""
        ...

    def spent(self, answer: Mapping[str, Any], update: Mapping[str, Any]) -> Usage:
        """What the run used, by the answer to the prompt and by the last update about usage."""
        ...


@dataclass(frozen=True, slots=True)
class AcpPrompt:
    """One prompt to be put to a program, with all that belongs to it."""

    job: ProgramJob
    launch: Launch
    words: Words
    clocks: Clocks
    farewell: float

    @property
    def name(self) -> str:
        return self.job.program.backend

    @property
    def prompt(self) -> str:
        """The prompt as text that begins with no slash: programs would take that for a command of theirs."""
        told = self.launch.prompt
        return f"You are told:\n\n{told}" if told.lstrip()[:1] in ("/", "!") else told


def is_ours(call: Mapping[str, Any]) -> bool:
    """Whether this is a call of our tools: we see it arrive, and allow there what it may do."""
    if call.get("kind") in _TOUCHES:
        return False
    names = (text(call, "title"), text(call, "toolCallId"))
    return any(name.startswith(_OURS) or name.endswith(f"({SERVER} MCP Server)") for name in names)


def given(call: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a call, as far as the program tells: its input, else what it touches and writes there."""
    told = call.get("rawInput")
    if isinstance(told, dict) and told:
        return told
    written = {text(each, "path"): text(each, "newText") for each in blocks(call, "content") if "newText" in each}
    found = {"kind": text(call, "kind"), "paths": _paths(call), "written": written}
    return {name: value for name, value in found.items() if value}


def outcome(call: Mapping[str, Any]) -> str:
    """What came of a call, as far as the program tells."""
    shown = "\n".join(filter(None, (text(block(each, "content"), "text") for each in blocks(call, "content"))))
    out = block(call, "rawOutput")
    return shown.strip() or text(out, "output") or text(out, "error")


def may(access: Access, call: Mapping[str, Any], cwd: Path) -> bool:
    """Whether a program may make this call of its own tools, about which it asks."""
    kind = call.get("kind")
    if access == "full" or is_ours(call) or kind in _LOOKS:
        return True
    paths = _paths(call)
    return access == "edit" and kind in _EDITS and bool(paths) and all(_beneath(cwd, path) for path in paths)


def _paths(call: Mapping[str, Any]) -> list[str]:
    told = [text(each, "path") for each in (*blocks(call, "locations"), *blocks(call, "content"))]
    return [path for path in told if path]


def _beneath(cwd: Path, path: str) -> bool:
    return Path(os.path.realpath(cwd / path)).is_relative_to(os.path.realpath(cwd))


def ended(name: str, reason: str) -> BackendFailure | None:
    """What a stop reason of the protocol means; None: it did what it was asked."""
    match reason:
        case "end_turn":
            return None
        case "max_tokens":
            return Exhausted(f"{name}: its answer grew too long for its model", hint="say 'continue'")
        case "max_turn_requests":
            return Exhausted(f"{name}: it has used all its turns (max_steps)", hint="say 'continue'")
        case "refusal":
            return Permanent(f"{name}: its model refused to continue")
    return Crashed(f"{name} stopped: {reason[:100] or 'it does not say why'}")
