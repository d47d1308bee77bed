"""One entry of a JSON file that belongs to somebody else: put in, found and taken out, with all else as it stands.

Such files may have comments and commas after the last entry, as editors allow; both stay. Nothing is written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass, pattern

_BLANK = pattern(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TEXT = pattern(r'"(?:[^"\\\n]|\\.)*"')
_PLAIN = pattern(r"[^\s,\]}/]+")


@dataclass(frozen=True, slots=True)
class _JsonEntry:
    key: str
    start: int  #: of the key
    value: int
    end: int  #: of the value


@dataclass(frozen=True, slots=True)
class _JsonObject:
    open: int
    close: int
    entries: list[_JsonEntry]
    comma: bool  #: after the last entry

    def entry(self, key: str) -> _JsonEntry | None:
        return next((each for each in self.entries if each.key == key), None)


def has(text: str, path: Sequence[str]) -> bool:
    """Whether there is an entry of this name. Raises BadInput for what is not JSON."""
    return _find(text, path) is not None


def put(text: str, path: Sequence[str], value: Any) -> str:
    """The text with this entry, in the place of one that is there."""
    if not text.strip():
        text = "{}\n"
    if (known := _find(text, path)) is not None:
        new = _written(value, _indent(text, known.start))
        return text[: known.value] + new + text[known.end :]
    place, depth = _object(text, _blank(text, 0)), 0
    while depth < len(path) - 1 and (inner := place.entry(path[depth])) is not None:
        place, depth = _object(text, inner.value), depth + 1
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _added(text, place, path[depth], value)


def taken_out(text: str, path: Sequence[str]) -> str:
    """The text without this entry; what held it goes too, if nothing else was in it."""
    known = _find(text, path)
    if known is None:
        return text
    holder = _holder(text, path)
    if len(holder.entries) == 1 and len(path) > 1:
        return taken_out(text, path[:-1])
    n = holder.entries.index(known)
    start, end = _line_start(text, known.start), known.end
    after = _blank(text, end)
    has_comma = text[after : after + 1] == ","
    end = after + 1 if has_comma else end
    if start != known.start and text[end : end + 1] == "\n":
        end += 1
    rest = text[end:]
    if has_comma or n == 0:
        return text[:start] + rest
    comma = _blank(text, holder.entries[n - 1].end)  # of the one before, which is the last one now
    return text[:comma] + text[comma + 1 : start] + rest


def _added(text: str, place: _JsonObject, key: str, value: Any) -> str:
    inside = _indent(text, place.entries[0].start) if place.entries else _indent(text, place.open) + "  "
    if place.entries and "\n" not in text[place.open : place.entries[0].start]:
        inside = _indent(text, place.open) + "  "
    entry = f"\n{inside}{json.dumps(key)}: {_written(value, inside)}{',' if place.comma else ''}"
    last = place.entries[-1].end if place.entries else place.open + 1
    comma = "," if place.entries and not place.comma else ""
    between = text[last : place.close].rstrip()
    closing = f"\n{_indent(text, place.open)}"
    return text[:last] + comma + between + entry + closing + text[place.close :]


def _written(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")


# --- reading ------------------------------------------------------------------------------------------


def _find(text: str, path: Sequence[str]) -> _JsonEntry | None:
    if not text.strip():
        return None
    at, found = _blank(text, 0), None
    for key in path:
        found = _object(text, at).entry(key)
        if found is None:
            return None
        at = found.value
    return found


def _holder(text: str, path: Sequence[str]) -> _JsonObject:
    outer = _find(text, path[:-1]) if len(path) > 1 else None
    return _object(text, outer.value if outer else _blank(text, 0))


def _object(text: str, at: int) -> _JsonObject:
    if text[at : at + 1] != "{":
        raise _broken(text, at)
    entries, comma, place = list[_JsonEntry](), False, _blank(text, at + 1)
    while text[place : place + 1] != "}":
        key = _TEXT.match(text, place)
        if key is None or (entries and not comma):
            raise _broken(text, place)
        colon = _blank(text, key.end())
        if text[colon : colon + 1] != ":":
            raise _broken(text, colon)
        value = _blank(text, colon + 1)
        end = _end(text, value)
        entries.append(_JsonEntry(json.loads(key.group()), place, value, end))
        place = _blank(text, end)
        comma = text[place : place + 1] == ","
        place = _blank(text, place + 1) if comma else place
    return _JsonObject(at, place, entries, comma)


def _end(text: str, at: int) -> int:
    """Where the value that begins here ends."""
    match text[at : at + 1]:
        case "{":
            return _object(text, at).close + 1
        case "[":
            place = _blank(text, at + 1)
            while text[place : place + 1] != "]":
                place = _blank(text, _end(text, place))
                place = _blank(text, place + 1) if text[place : place + 1] == "," else place
            return place + 1
        case '"':
            found = _TEXT.match(text, at)
        case _:
            found = _PLAIN.match(text, at)
    if found is None:
        raise _broken(text, at)
    return found.end()


def _blank(text: str, at: int) -> int:
    """Past white space and comments."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _line_start(text: str, at: int) -> int:
    """The beginning of the line, where only white space stands before; else the place itself."""
    start = text.rfind("\n", 0, at) + 1
    return start if not text[start:at].strip() else at


def _broken(text: str, at: int) -> BadInput:
    line = text.count("\n", 0, at) + 1
    return BadInput(f"line {line} is not JSON that can be changed safely", hint="fix it first, or write it by hand")
