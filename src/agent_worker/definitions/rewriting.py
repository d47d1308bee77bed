"""Changes a key in YAML that a person wrote, and leaves all else as it was: comments, order, quotes, blanks.

The text is cut at the marks of the parser, and only the entries in question are written anew. What comes out is read
again before anybody gets it: a text that would say something else than was asked for is refused, not written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from agent_worker.core.errors import BadInput, DefinitionError
from agent_worker.core.later import dataclass, pattern
from agent_worker.definitions.source import parse_source, plain_value

_INDENT = "  "
_HEAD = pattern(r"\s*:[ \t]*(?:#.*)?\r?\n")  # what stands behind a key whose value is beneath it
_BLANKS = " \t\r\n"  # of YAML: other spaces are part of a value


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of the outermost mapping with its value, as offsets into the text."""

    key: str
    number: object  #: what other readers of YAML take the key for
    start: int
    key_end: int
    end: int  #: of the last character of its value


def rewritten(text: str, changes: Mapping[str, Any], *, file: str) -> str:
    """A YAML text with these keys set, and those taken out whose value is None. The text is a mapping, or holds
    nothing."""
    source = parse_source(text, file=file)
    if source.problems:
        raise DefinitionError(list(source.problems))
    before = {} if source.data is None else source.data
    if not isinstance(before, dict):
        raise BadInput(f"{file}: must be keys with values")
    after = {key: value for key, value in {**before, **changes}.items() if value is not None or key not in changes}
    entries, in_braces = _entries(text)
    if len({entry.number for entry in entries}) < len(entries):
        raise BadInput(f"{file}: two of its keys are the same number", hint="put them in quotes")
    written = _unbraced(text, entries) if in_braces else text
    if in_braces:
        entries, _ = _entries(written)
    for entry in reversed(entries):
        if entry.key in changes:
            written = _changed(written, entry, changes[entry.key])
    new = {key: value for key, value in changes.items() if key not in before and value is not None}
    if new:
        margin = _margin(written, entries[0]) if entries else ""
        written = _with_newline(written) + "".join(f"{margin}{line}\n" for line in _lines(new))
    if not _says(written, after):
        raise BadInput(f"{file}: is written in a way that we cannot edit", hint=f"edit {file} by hand")
    return written


def rewritten_within(text: str, changes: Mapping[str, Any], *, file: str) -> str:
    """As `rewritten`, where a key with dots is one within another: `soul.role`."""
    for key, value in changes.items():
        if not all(way := key.split(".")):
            raise BadInput(f"{key!r} is not a key", hint="such as soul.role")
        text = _set(text, way, value, key=key, file=file)
    return text


def _set(text: str, way: Sequence[str], value: Any, *, key: str, file: str) -> str:
    """The text with a value at the end of a way of keys. What stands beside it is written anew only where the text
    cannot be cut there.
    """
    top, *within = way
    if not within:
        return rewritten(text, {top: value}, file=file)
    data = parse_source(text, file=file).data
    data = data if isinstance(data, dict) else {}
    whole = _placed(data.get(top), within, value, key=key)
    if whole is not None and (found := _block(text, top)):
        start, end = found
        try:
            after = text[:start] + _set(text[start:end], within, value, key=key, file=file) + text[end:]
        except BadInput:  # what is in it cannot be read apart from the rest: an alias
            after = ""
        if _says(after, {**data, top: whole}):
            return after
    return rewritten(text, {top: whole}, file=file)


def _placed(there: Any, within: Sequence[str], value: Any, *, key: str) -> Any:
    """What is there, with this value at its place within; without it, when the value is None."""
    if not within:
        return value
    if not isinstance(there, dict | None):
        raise BadInput(f"{key}: what is written there holds no keys", hint=f"set all of it: {key.partition('.')[0]}=…")
    first, *rest = within
    placed = {**(there or {}), first: _placed((there or {}).get(first), rest, value, key=key)}
    return {name: each for name, each in placed.items() if name != first or each is not None} or None


def _block(text: str, key: str) -> tuple[int, int] | None:
    """From where to where the lines beneath a key go; None if its value begins in its own line."""
    entries, in_braces = _entries(text)
    entry = next((each for each in entries if each.key == key), None)
    if entry is None or in_braces or not (head := _HEAD.match(text, entry.key_end)) or head.end() > entry.end:
        return None
    end = text.find("\n", entry.end) + 1
    return head.end(), end or len(text)


def _entries(text: str) -> tuple[list[_Entry], bool]:
    """The entries of the outermost mapping, and whether it is written in braces."""
    entries: list[_Entry] = []
    depth, in_braces, end = 0, False, 0
    key: yaml.ScalarEvent | None = None
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            in_braces = in_braces or (depth == 0 and bool(event.flow_style))
            depth += 1
            continue
        if not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent | yaml.CollectionEndEvent):
            continue
        depth -= isinstance(event, yaml.CollectionEndEvent)
        start, stop = _span(event)
        if stop > start or not isinstance(event, yaml.CollectionEndEvent):  # a block ends where the next begins
            end = start + len(text[start:stop].rstrip(_BLANKS))
        if depth != 1:
            continue
        if key is None and isinstance(event, yaml.ScalarEvent):
            key = event
        elif key is not None:
            number = plain_value(key.value) if key.implicit[0] else key.value
            entries.append(_Entry(key.value, number, *_span(key), end))
            key = None
    return entries, in_braces


def _span(event: yaml.Event) -> tuple[int, int]:
    start, end = event.start_mark, event.end_mark
    return (start.index, end.index) if start and end else (0, 0)


def _changed(text: str, entry: _Entry, value: Any) -> str:
    """The entry with its new value, and the comment behind the old one; nothing when the value is None."""
    line_start = text.rfind("\n", 0, entry.start) + 1
    line_end = text.find("\n", entry.end)
    line_end = len(text) if line_end < 0 else line_end
    if value is None:
        return text[:line_start] + text[line_end + 1 :]
    first, *more = _value(value)
    behind = text[entry.end : line_end].rstrip("\r")
    margin = _margin(text, entry)
    lines = [f"{text[entry.start : entry.key_end]}:{first}{behind}", *(f"{margin}{_INDENT}{line}" for line in more)]
    return text[: entry.start] + "\n".join(lines) + text[line_end:]


def _unbraced(text: str, entries: list[_Entry]) -> str:
    """`{a: 1, b: 2}` with each entry on a line of its own."""
    opening, closing = text.index("{"), text.rindex("}")
    listed = "".join(f"{text[entry.start : entry.end]}\n" for entry in entries)
    if "#" in _outside(text[opening:closing], opening, entries):
        return text  # a comment would be lost: nothing is changed, and what comes of it is refused
    return text[:opening] + listed + text[closing + 1 :].removeprefix("\n")


def _outside(text: str, offset: int, entries: list[_Entry]) -> str:
    """The text that stands between entries."""
    for entry in reversed(entries):
        text = text[: entry.start - offset] + text[entry.end - offset :]
    return text


def _margin(text: str, entry: _Entry) -> str:
    return text[text.rfind("\n", 0, entry.start) + 1 : entry.start]


def _with_newline(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _says(text: str, expected: dict[str, Any]) -> bool:
    try:
        source = parse_source(text, file="")
    except DefinitionError:
        return False
    return not source.problems and (source.data or {}) == expected


def _value(value: Any) -> list[str]:
    """What follows `key:`, as lines, the first of which is the rest of the key's own line."""
    lines = _lines(value)
    return ["", *lines] if isinstance(value, dict | list) and value else [f" {lines[0]}"]


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [line for key, each in value.items() for line in _pair(key, each)]
    if isinstance(value, list) and value:
        return [line for each in value for line in _hung(_lines(each))]
    return [_inline(value)]


def _pair(key: Any, value: Any) -> Iterator[str]:
    first, *more = _value(value)
    yield f"{_inline(key)}:{first}"
    yield from (f"{_INDENT}{line}" for line in more)


def _hung(lines: list[str]) -> Iterator[str]:
    yield f"- {lines[0]}"
    yield from (f"{_INDENT}{line}" for line in lines[1:])


class _Dumper(yaml.SafeDumper):
    """Quotes what our own reader, or another, would take for something else than text."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = isinstance(plain_value(text), str) and not re.search(r"\s\s|\n", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def _inline(value: Any) -> str:
    """A value on one line. Written as an item of a list, where more is quoted than elsewhere: so it is right
    everywhere.
    """
    written = yaml.dump([value], Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return str(written).removeprefix("[").removesuffix("]\n")
