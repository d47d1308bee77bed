"""YAML as people write it → plain data that still knows the line of everything.

Stricter than YAML where YAML surprises: only `true`/`false` are booleans, `010` and `12:30:00` are text, keys are
always text, a key stands once, tags and merge keys are refused, and size, depth and aliases are bounded.
The data is built from parser events, never by a YAML constructor. Knows nothing of what the data should mean.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import yaml

from agent_worker.core.errors import DefinitionError, Problem
from agent_worker.core.later import dataclass, pattern

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_NODES = 100_000  #: counted as if every alias were written out

_INTEGER = pattern(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = pattern(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_CONSTANTS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_LINES = pattern(r"\r\n|[\n\r\x85\u2028\u2029]")  # as the parser counts them
_CONFLICT = pattern(r"(?:<{7}|={7}|>{7})(?: .*)?")  # what Git leaves in a file that it could not merge
_TEXT_TAG = "tag:yaml.org,2002:str"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, in C where it was built


@dataclass(frozen=True, slots=True)
class Position:
    """Where a value stands, and what stands below it."""

    line: int = 1
    column: int = 1
    children: dict[str | int, Position] = field(default_factory=dict)
    keys: dict[str, Position] = field(default_factory=dict)  #: where the key of each child stands


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read: its data, its places, and what is wrong with it already."""

    file: str
    data: Any
    root: Position = Position()
    problems: tuple[Problem, ...] = ()

    def problem(self, path: Sequence[str | int], message: str, *, hint: str = "", at_key: bool = False) -> Problem:
        """A problem at the place of `path`, or of the nearest thing around it that was written."""
        place = self.root
        for depth, step in enumerate(path, start=1):
            if at_key and depth == len(path) and step in place.keys:
                place = place.keys[str(step)]
            elif step in place.children:
                place = place.children[step]
        return Problem(self.file, place.line, place.column, dotted(path), message, hint)


def dotted(path: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def read_source(path: Path, *, shown_as: str = "") -> Source:
    file = shown_as or str(path)
    return parse_source(read_text(path, file=file), file=file)


def read_text(path: Path, *, file: str) -> str:
    """The text of a regular file of bounded size. Raises DefinitionError that names it as `file`."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            raise _refused(file, "is not a regular file")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise _refused(file, f"cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_BYTES:
        raise _refused(file, "is larger than 1 MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise DefinitionError([Problem(file, line, column, "", "is not UTF-8 text", "save it as UTF-8")]) from None


def parse_source(text: str, *, file: str) -> Source:
    if text.startswith("\ufeff"):
        raise _refused(file, "starts with a byte order mark", hint="save it as UTF-8 without BOM")
    try:
        if len(text.encode()) > MAX_BYTES:
            raise _refused(file, "is larger than 1 MiB")
        return _Builder(file).build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise DefinitionError([_syntax_problem(text, file, error)]) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _refused(file, f"is not text that YAML allows: {str(error).splitlines()[0]}") from None


def _refused(file: str, message: str, *, hint: str = "") -> DefinitionError:
    return DefinitionError([Problem(file, 1, 1, "", message, hint)])


def _syntax_problem(text: str, file: str, error: yaml.MarkedYAMLError) -> Problem:
    lines = _LINES.split(text)
    for number, each in enumerate(lines, start=1):
        if _CONFLICT.fullmatch(each):
            hint = "keep one of the two versions, and remove the lines with <<<<<<<, ======= and >>>>>>>"
            return Problem(file, number, 1, "", "is in the middle of a merge", hint)
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return Problem(file, 1, 1, "", f"is not YAML: {error.problem}")
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line[: mark.column + 1].lstrip(" ").startswith("\t"):
        return Problem(file, mark.line + 1, mark.column + 1, "", "a tab cannot indent", "use spaces")
    begun = error.context_mark
    if begun is not None and error.context == "while scanning a quoted scalar":  # where it ends is far from the mistake
        return Problem(
            file, begun.line + 1, begun.column + 1, "", "is not YAML: the quote that opens here is never closed"
        )
    if error.context == "while scanning a simple key" and begun is not None:  # it is noticed a line later
        mark, line = begun, lines[begun.line] if begun.line < len(lines) else ""
    message, hint = _in_words(str(error.problem), line, mark.column)
    return Problem(file, mark.line + 1, mark.column + 1, "", f"is not YAML: {message}", hint)


def _in_words(problem: str, line: str, column: int) -> tuple[str, str]:
    """What the parser says of tokens and contexts, as people say it: what is wrong in this line, and what to write."""
    is_first = not line[:column].strip()
    if problem.startswith("mapping values are not allowed"):
        if ": " in line[:column]:
            return "there is a second `: ` in this line", "put the text in quotes"
        return "this line is indented deeper than the one above it", _SAME_COLUMN
    if "cannot start any token" in problem and column < len(line):
        return f"a text cannot begin with {line[column]}", "put it in quotes"
    if problem.startswith(("did not find expected key", "expected <block end>")):
        if is_first:
            return "this line is indented differently from those above", _SAME_COLUMN
        return "there is more in this line after the end of a value", "put all of it in quotes"
    if problem.startswith("could not find expected ':'"):
        hint = "a key has a `:` behind it, and a text after | is indented deeper than its key"
        return "here is neither a key nor a part of the text above", hint
    return problem, ""


_SAME_COLUMN = "the keys of one block begin in the same column"


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come yet."""

    data: dict[str, Any] | list[Any]
    place: Position
    anchor: str | None
    size: int = 1  # nodes in it, aliases written out
    key: tuple[str, Position] | None = None  # read, its value still to come


class _Builder:
    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, Position, int] | None] = {}  # None while the anchored value is open
        self._nodes = 0
        self._documents = 0
        self._result: tuple[Any, Position] = (None, Position())
        self._problems: list[Problem] = []

    def build(self, events: Iterator[yaml.Event]) -> Source:
        for event in events:
            self._take(event)
        return Source(self._file, *self._result, problems=tuple(self._problems))

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.ScalarEvent():
                self._check_tag(event, allowed=(None, "!", _TEXT_TAG))
                place = _place(event)
                value = event.value if self._is_key_next() else self._scalar(event)
                self._anchor(event.anchor, value, place, 1)
                self._add(value, place, 1)
            case yaml.AliasEvent():
                self._add(*self._aliased(event))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                done = self._open.pop()
                self._anchor(done.anchor, done.data, done.place, done.size)
                self._add(done.data, done.place, done.size, counted=True)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._stop(event, "contains more than one document", "keep what is above the second ---")
            case _:
                pass

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._check_tag(event, allowed=(None, "!"))
        if self._is_key_next():
            raise self._stop(event, "a key must be plain text")
        if len(self._open) >= MAX_DEPTH:
            raise self._stop(event, f"is nested deeper than {MAX_DEPTH} levels")
        self._count(1, event)
        if event.anchor:
            self._anchors[event.anchor] = None
        data: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(data, _place(event), event.anchor))

    def _add(self, value: Any, place: Position, size: int, *, counted: bool = False) -> None:
        if not counted:
            self._count(size, place)
        if not self._open:
            self._result = value, place
            return
        parent = self._open[-1]
        parent.size += size
        if isinstance(parent.data, list):
            parent.place.children[len(parent.data)] = place
            parent.data.append(value)
        elif parent.key is None:
            parent.key = self._key(value, place), place
        else:
            (key, at), parent.key = parent.key, None
            if key in parent.data:
                first = parent.place.keys[key].line
                self._note(at, key, f"this key appears twice, first on line {first}", "remove one")
            elif key == "<<":
                self._note(at, key, "merge keys are not supported", "write the keys out")
            else:
                parent.data[key] = value
                parent.place.children[key] = place
                parent.place.keys[key] = at

    def _key(self, value: Any, place: Position) -> str:
        if not isinstance(value, str):
            raise self._stop(place, "a key must be plain text")
        return value

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = str(event.value)
        if "\0" in text:
            self._note(_place(event), "", "text must not contain the character NUL")
        return plain_value(text) if event.implicit[0] else text  # else quoted, a block, or tagged as text

    def _aliased(self, event: yaml.AliasEvent) -> tuple[Any, Position, int]:
        if event.anchor not in self._anchors:
            raise self._stop(event, f"*{event.anchor} has no anchor &{event.anchor} above it")
        if (known := self._anchors[event.anchor]) is None:
            raise self._stop(event, f"*{event.anchor} is inside what it repeats")
        return known

    def _anchor(self, name: str | None, value: Any, place: Position, size: int) -> None:
        if name:
            self._anchors[name] = value, place, size

    def _is_key_next(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].data, dict) and self._open[-1].key is None

    def _count(self, size: int, at: yaml.Event | Position) -> None:
        self._nodes += size
        if self._nodes > MAX_NODES:
            raise self._stop(at, f"contains more than {MAX_NODES:,} values, counting aliases written out")

    def _check_tag(self, event: yaml.NodeEvent, *, allowed: tuple[str | None, ...]) -> None:
        if event.tag not in allowed:  # type: ignore[attr-defined]  # the stub leaves it out
            self._note(_place(event), "", "YAML tags are not supported", "write the plain value")

    def _note(self, place: Position, field: str, message: str, hint: str = "") -> None:
        self._problems.append(Problem(self._file, place.line, place.column, field, message, hint))

    def _stop(self, at: yaml.Event | Position, message: str, hint: str = "") -> DefinitionError:
        place = at if isinstance(at, Position) else _place(at)
        self._note(place, "", message, hint)
        return DefinitionError(self._problems)


def plain_value(text: str) -> Any:
    """What a word means that stands without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    return number if math.isfinite(number) else text  # 1e999 would be no limit at all


def _place(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position(mark.line + 1, mark.column + 1) if mark else Position()
