"""The JSON schema of arguments that are of plain types, as pydantic would write it and without a model of pydantic's.

Most tools take texts and numbers. A model for each costs more than the first request of a process, and is needed only
where a tool is called. What is not plain is left to core/signature.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def plain_schema(fields: Mapping[str, tuple[Any, Any]]) -> dict[str, Any] | None:
    """The schema of an object with these fields: the type of each, and its default or `...`. None: one is not plain."""
    properties: dict[str, Any] = {}
    for name, (hint, default) in fields.items():
        known = _of(hint)
        if known is None or not (default is ... or type(default) in _NAMES):
            return None
        described = known | {"title": name.title().replace("_", " ").strip()}
        properties[name] = _sorted(described if default is ... else described | {"default": default})
    required = [name for name, (_, default) in fields.items() if default is ...]
    whole = {"additionalProperties": False, "properties": properties, "type": "object"}
    return _sorted(whole | ({"required": required} if required else {}))


def _of(hint: Any) -> dict[str, Any] | None:
    if isinstance(hint, type) and hint in _NAMES:
        return {"type": _NAMES[hint]}
    origin, parts = get_origin(hint), get_args(hint)
    if origin is list and (items := _of(parts[0])):
        return {"items": items, "type": "array"}
    if origin is Literal and len(parts) > 1 and all(type(each) is str for each in parts):
        return {"enum": list(parts), "type": "string"}
    if origin in (Union, UnionType):
        kinds = [known for part in parts if (known := _of(part))]
        return {"anyOf": kinds} if len(kinds) == len(parts) else None
    return None


def _sorted(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(schema.items()))
