"""Arguments of plain types without a model of pydantic's: their JSON schema, and whether they are what they should be.

Most tools and operations take texts and numbers, and mostly get them as they should. A model for each costs more than
the first request of a process. What is not plain, has to be converted, or is wrong is left to core/signature.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def plain_values(fields: Mapping[str, tuple[Any, Any]], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """All arguments, with their defaults, as pydantic would return them. None: not each is surely right as it is."""
    if not given.keys() <= fields.keys():
        return None
    values: dict[str, Any] = {}
    for name, (hint, default) in fields.items():
        if name in given:
            if not _is(hint, given[name]):
                return None
            values[name] = given[name]
        elif type(default) in _NAMES:
            values[name] = default
        elif default in ({}, [], ()):
            values[name] = type(default)()  # nobody shall add to everybody's default
        else:  # it is missing, or has a default that is to be looked at
            return None
    return values


def _is(hint: Any, value: Any) -> bool:
    """Whether a value surely has this type, so that nothing has to be converted."""
    if hint is Any:
        return True
    if isinstance(hint, type) and hint in _NAMES:
        return type(value) is hint
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is(part, value) for part in parts)
    if origin is Literal:
        return type(value) is str and value in parts
    if origin in (list, Sequence):
        return type(value) is list and all(_is(parts[0], each) for each in value)
    if origin is dict:
        return type(value) is dict and all(_is(parts[0], key) and _is(parts[1], each) for key, each in value.items())
    return False


def _of(hint: Any) -> dict[str, Any] | None:
    if isinstance(hint, type) and hint in _NAMES:
        return {"type": _NAMES[hint]}
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (list, Sequence) and (items := _of(parts[0])):
        return {"items": items, "type": "array"}
    if origin is Literal and len(parts) > 1 and all(type(each) is str for each in parts):
        return {"enum": list(parts), "type": "string"}
    if origin in (Union, UnionType):
        kinds = [known for part in parts if (known := _of(part))]
        return {"anyOf": kinds} if len(kinds) == len(parts) else None
    return None


def _sorted(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(schema.items()))
