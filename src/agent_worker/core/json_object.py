"""A JSON object that a model or a program of others wrote. What walks through it later calls itself for each level, so
there are only so many."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 64  #: levels


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a text is; None for anything else, and for one with too many things inside each other."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _within(each)]
        if not level:
            return value if isinstance(value, dict) else None
    return None


def _within(value: object) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
