"""What goes through the door of ACP as words: a prompt becomes a message, texts of ours are safe to show, errors tell.

A program that prints what it gets would obey control characters: they are shown as what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from acp import RequestError

from agent_worker.core.errors import AgentWorkerError, BadInput
from agent_worker.core.text import clean

_INVALID = -32602
_INTERNAL = -32603
_NOT_FOUND = -32002


def message_of(blocks: Iterable[Any]) -> str:
    """A prompt as one text. What it was given along is quoted with where it comes from. Raises BadInput."""
    parts = [_part(block) for block in blocks]
    text = "".join(part if part.startswith("\n") else _apart(part, n) for n, part in enumerate(parts)).strip()
    if not text:
        raise BadInput("an empty prompt was not sent", hint="write something")
    return text


def _apart(part: str, n: int) -> str:
    return part if n == 0 or not part else f" {part}"


def _part(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "resource_link":
            return f"[{block.name}]({block.uri})"
        case "resource" if isinstance(getattr(block.resource, "text", None), str):
            return f"\n\n{block.resource.uri}:\n```\n{block.resource.text}\n```\n"
    raise BadInput(f"{block.type} is not supported here: only text", hint="name the file in your words")


def refusal(error: AgentWorkerError) -> RequestError:
    """An error of ours, with its hint in the sentence: programs show nothing else."""
    told = f"{error.message} ({error.hint})" if error.hint else error.message
    code = _NOT_FOUND if error.code == "not_found" else _INVALID if isinstance(error, BadInput) else _INTERNAL
    # The kind is what other programs write there: it says that trying again does not help.
    return RequestError(code, clean(told), {"errorKind": "invalid_request", "code": error.code, "hint": error.hint})


def no_session(id: str) -> RequestError:
    return RequestError(_NOT_FOUND, f"there is no session {clean(id)[:100]} (session/list names them)")
