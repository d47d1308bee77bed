"""What a request says: one JSON object, each name once, and nothing that could not be stored and given back."""

from __future__ import annotations

import json
import math
from typing import Any

from agent_worker.core.later import pattern
from agent_worker.doors.errors import BadRequest

_DEEPEST = 64
_LARGEST = 2**63
_HALF_A_PAIR = pattern("[\ud800-\udfff]")


def read_object(content: bytes) -> dict[str, Any]:
    """The JSON object that a body is; an empty one for none."""
    if not content:
        return {}
    try:
        value = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequest("a name is given twice")
    return found


def _no_number(name: str) -> None:
    raise BadRequest(f"{name} is not a number in JSON")


def check_texts(value: Any, depth: int = 0) -> None:
    """Refuse text that cannot be stored and given back as it is."""
    if depth > _DEEPEST:
        raise BadRequest(f"deeper than {_DEEPEST} levels")
    match value:
        case str():
            if "\0" in value or _HALF_A_PAIR.search(value):
                raise BadRequest(
                    "a text holds something that is not a character: NUL, half of a pair, or a byte that is not UTF-8",
                    hint="write it as UTF-8, without NUL",
                )
        case bool() | None:
            pass
        case int():
            if not -_LARGEST <= value < _LARGEST:
                raise BadRequest("a number is too large")
        case float():
            if not math.isfinite(value):
                raise BadRequest("a number is too large")
        case dict():
            for name, each in value.items():
                check_texts(name, depth + 1)
                check_texts(each, depth + 1)
        case list():
            for each in value:
                check_texts(each, depth + 1)
