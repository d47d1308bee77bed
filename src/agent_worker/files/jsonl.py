"""Files of records, one JSON object per line, written only at the end: conversations, channels, histories.

A crash may leave half a line, or zeros, at the end. The next append first moves that aside, into
`<name>.corrupt`, so that it never swallows the record that follows. Reading is lenient: a line that is no
record is skipped and counted. Lines are split at newlines only; memory stays bounded whatever a line holds.
Below: root.py.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.files.folder import sync, taken_back, write_all
from agent_worker.files.paths import beside
from agent_worker.files.root import Root

LINE_LIMIT = 8 * 1024 * 1024
CHUNK = 64 * 1024
FARTHEST = 2**48  #: of the numbers that order records: nobody has said so much, whoever wrote it wants to stop us

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """Records in the order of the file."""

    records: tuple[Record, ...]
    skipped: int  #: lines that are no record: torn, foreign, or longer than LINE_LIMIT


def append_records(root: Root, relative: str, records: Iterable[Mapping[str, object]]) -> None:
    """Append records: all are on disk when this returns, none after an OSError, and after a crash the first few, each
    whole."""
    lines = b"".join(map(_line, records))

    def write(file: int) -> None:
        missing = _repair(root, relative, file)
        with taken_back(file):
            failpoint("outbox.before_append")
            write_all(file, missing + lines)
            failpoint("outbox.after_append")
            sync(file)

    root.extend(relative, write)
    failpoint("outbox.after_fsync")


def last_record(root: Root, relative: str) -> Record | None:
    """The last whole record, for deciding what to append again: it is on disk when this returns."""
    try:
        with _opened(root, relative, os.O_RDONLY) as file:
            sync(file)  # a killed writer may have left it in memory only
            return next(filter(None, map(_record, _lines(file, -1))), None)
    except NotFound:
        return None


def read_last(root: Root, relative: str, count: int) -> Reading:
    """The last records, read from the end: the size of the file does not matter."""
    records: list[Record] = []
    skipped = 0
    try:
        with _opened(root, relative, os.O_RDONLY) as file:
            for line in _lines(file, -1):
                if len(records) == count:
                    break
                record = _record(line)
                if record is None:
                    skipped += 1
                else:
                    records.append(record)
    except NotFound:
        pass
    return Reading(tuple(reversed(records)), skipped)


def iterate(root: Root, relative: str) -> Iterator[Record | None]:
    """Read records from the first to the last; None stands for a line that is no record."""
    try:
        with _opened(root, relative, os.O_RDONLY) as file:
            yield from map(_record, _lines(file, 1))
    except NotFound:
        return


def read_all(root: Root, relative: str) -> Reading:
    found = list(iterate(root, relative))
    records = tuple(record for record in found if record is not None)
    return Reading(records, len(found) - len(records))


@contextmanager
def _opened(root: Root, relative: str, flags: int) -> Iterator[int]:
    descriptor = root.open(relative, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _line(record: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(dict(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"this record cannot be written as JSON: {error}") from None
    line = text.encode(errors="backslashreplace") + b"\n"  # half a surrogate pair becomes \ud83d, which is JSON
    if len(line) > LINE_LIMIT:
        raise BadInput(f"a record of {plural(len(line), 'byte')} is too long, the limit is {LINE_LIMIT:,}")
    return line


def _record(line: bytes | None) -> Record | None:
    if line is None:
        return None
    try:
        # A run of zeros is what a power cut leaves before or after a record that is whole.
        value = json.loads(line.strip(b"\0 \t\r\n").decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _repair(root: Root, relative: str, file: int) -> bytes:
    """Move off the end what is no record; returns what must still come before the next record."""
    size = os.fstat(file).st_size
    start = _start_of_last_line(file, size)
    tail = os.pread(file, min(size - start, LINE_LIMIT + 1), start)
    ended = size == 0 or os.pread(file, 1, size - 1) == b"\n"
    if ended and b"\0" not in tail:
        return b""
    if _record(tail) is not None:  # whole: only its newline is missing, or zeros stand around it
        return b"" if ended else b"\n"
    _copy_aside(root, beside(relative, ".corrupt"), file, range(start, size))
    os.ftruncate(file, start)
    return b""


def _copy_aside(root: Root, sidecar: str, file: int, span: range) -> None:
    with _opened(root, sidecar, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as aside:
        for start in span[::CHUNK]:
            chunk = os.pread(file, min(CHUNK, span.stop - start), start)
            if chunk.strip(b"\0"):  # a gigabyte of zeros says nothing
                write_all(aside, chunk)
        write_all(aside, b"\n")
        sync(aside)


def _start_of_last_line(file: int, size: int) -> int:
    end = size - 1  # the last byte may be the newline of that very line
    for start in reversed(range(0, end, CHUNK)):
        newline = os.pread(file, min(CHUNK, end - start), start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
    return 0


class _Line:
    """A line being put together from pieces that arrive forwards (step 1) or backwards (-1)."""

    def __init__(self, step: Literal[1, -1]) -> None:
        self._step = step
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= LINE_LIMIT:
            self._pieces.append(piece)
        else:
            self._pieces.clear()

    def taken(self) -> Iterator[bytes | None]:
        """The line, unless it is blank; None when it was too long."""
        line = b"".join(self._pieces[:: self._step]) if self._length <= LINE_LIMIT else None
        self._pieces, self._length = [], 0
        if line is None or line.strip():
            yield line


def _lines(file: int, step: Literal[1, -1]) -> Iterator[bytes | None]:
    size = os.fstat(file).st_size
    line = _Line(step)
    for start in range(0, size, CHUNK)[::step]:
        first, *others = os.pread(file, min(CHUNK, size - start), start).split(b"\n")[::step]
        line.add(first)
        for other in others:
            yield from line.taken()
            line.add(other)
    yield from line.taken()
