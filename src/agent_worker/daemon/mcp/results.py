"""Results of tools as they go over the wire: as text for whoever reads, and as data for whoever computes.

Older clients take only an object for data: what is none is put into one, under `result`. An answer holds so much and no
more; one that is too long is cut in the same way in both forms.
"""

from __future__ import annotations

import json
from typing import Any

import mcp_types as wire

from agent_worker.core.text import plural

LARGEST = 60_000  #: characters of an answer
_CUTS = ((8000, 400), (2000, 200), (500, 100), (200, 40), (60, 10))  # of each text, of each list


def said(text: str, *, ok: bool = True) -> wire.CallToolResult:
    """A result that is a text and nothing else."""
    shown = (
        text if len(text) <= LARGEST else f"{text[:LARGEST]}\n[cut: {plural(len(text) - LARGEST, 'more character')}]"
    )
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=shown)], is_error=not ok)


def told(value: Any) -> wire.CallToolResult:
    """Plain data as a result: as text, and as data of the form that `schema_of` describes."""
    fits, text = _fitting(value)
    text = fits if isinstance(fits, str) else text
    data = fits if isinstance(fits, dict) else {"result": fits}
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=text)], structured_content=data)


def came(ticket: dict[str, Any]) -> wire.CallToolResult:
    """The outcome of a ticket as the result of the tool that asked for it."""
    result = told(ticket)
    result.is_error = ticket["state"] == "failed"
    return result


def schema_of(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a result's data, made from the schema of the value."""
    if schema.get("type") == "object" and "properties" in schema:
        return schema
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    wrapped: dict[str, Any] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return wrapped | ({"$defs": schema["$defs"]} if "$defs" in schema else {})


def _fitting(value: Any) -> tuple[Any, str]:
    """The data, cut so far that it fits, and the same as JSON. Without indents: those cost time and tokens."""
    text = json.dumps(value, ensure_ascii=False)
    for chars, items in _CUTS:
        if len(text) <= LARGEST:
            break
        value = _cut(value, chars, items)
        text = json.dumps(value, ensure_ascii=False)
    return value, text


def _cut(value: Any, chars: int, items: int) -> Any:
    match value:
        case str() if len(value) > chars:
            return f"{value[:chars]} [cut: {plural(len(value) - chars, 'more character')}]"
        case list():
            return [_cut(each, chars, items) for each in value[:items]]
        case dict():
            return {name: _cut(each, chars, items) for name, each in value.items()}
    return value
