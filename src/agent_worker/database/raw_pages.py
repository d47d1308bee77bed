"""Rows read from the pages of a database file directly, for when the tables no longer lead to them.

Knows the file format of SQLite (https://sqlite.org/fileformat2.html), as far as rows go, and believes nothing it reads:
what does not make sense is skipped. Which table a row belongs to is for others to find out (recovery.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PAGE = 4096  #: bytes; ours are never of another size
_LEAF = 0x0D
_HEAD = 100  #: bytes before the first page's content
_LARGEST = 64 * 1024 * 1024  #: bytes of one row
_FRAME, _LOG_HEAD = 24, 32

Value = str | int | float | bytes | None


class Nonsense(Exception):
    """Raised for bytes that are no row."""


def rows_in(path: Path) -> Iterator[tuple[Value, ...]]:
    """Every row of every leaf that is not known to be free."""
    with path.open("rb") as file:
        book = _Book(file.fileno(), path.stat().st_size // PAGE)
        free = book.free_pages()
        for number in range(1, book.count + 1):
            if number not in free:
                yield from book.rows(number)


def apply_log(path: Path, log: Path) -> None:
    """Put the pages of the log in place, up to its last commit. For a file that SQLite does not open."""
    if not log.exists():
        return
    with path.open("r+b") as file, log.open("rb") as frames:
        salt = frames.read(_LOG_HEAD)[16:24]
        waiting: list[tuple[int, bytes]] = []
        while len(frame := frames.read(_FRAME + PAGE)) == _FRAME + PAGE and frame[8:16] == salt:
            waiting.append((int.from_bytes(frame[:4], "big"), frame[_FRAME:]))
            if not int.from_bytes(frame[4:8], "big"):
                continue
            for number, page in waiting:
                file.seek((number - 1) * PAGE)
                file.write(page)
            waiting.clear()


class _Book:
    def __init__(self, file: int, count: int) -> None:
        self._file = file
        self.count = count

    def page(self, number: int) -> bytes:
        if not 1 <= number <= self.count:
            raise Nonsense
        return os.pread(self._file, PAGE, (number - 1) * PAGE)

    def free_pages(self) -> set[int]:
        """Pages that are free, as far as their list can be followed."""
        found: set[int] = set()
        with suppress(Nonsense):
            trunk = _number(self.page(1), 32)
            while trunk and trunk not in found:
                page = self.page(trunk)
                found.add(trunk)
                found |= {_number(page, 8 + 4 * n) for n in range(min(_number(page, 4), PAGE // 4 - 2))}
                trunk = _number(page, 0)
        return found

    def rows(self, number: int) -> Iterator[tuple[Value, ...]]:
        page = self.page(number)
        start = _HEAD if number == 1 else 0
        if page[start] != _LEAF:
            return
        cells = min(int.from_bytes(page[start + 3 : start + 5], "big"), PAGE // 4)
        for n in range(cells):
            at = start + 8 + 2 * n
            with suppress(Nonsense, IndexError, UnicodeDecodeError):
                yield _record(self._payload(page, int.from_bytes(page[at : at + 2], "big")))

    def _payload(self, page: bytes, at: int) -> bytes:
        size, at = _varint(page, at)
        _, at = _varint(page, at)  # the row's number
        if size > min(_LARGEST, self.count * PAGE):
            raise Nonsense
        local = _local(size)
        content = page[at : at + local]
        if len(content) < local:
            raise Nonsense
        return content if size == local else content + self._overflow(_number(page, at + local), size - local)

    def _overflow(self, number: int, size: int) -> bytes:
        pieces = []
        while size > 0:
            page = self.page(number)
            pieces.append(page[4 : 4 + min(size, PAGE - 4)])
            number, size = _number(page, 0), size - (PAGE - 4)
        return b"".join(pieces)


def _local(size: int) -> int:
    """How much of a row this long stands in the leaf itself."""
    if size <= PAGE - 35:
        return size
    least = (PAGE - 12) * 32 // 255 - 23
    wanted = least + (size - least) % (PAGE - 4)
    return wanted if wanted <= PAGE - 35 else least


def _record(content: bytes) -> tuple[Value, ...]:
    end, at = _varint(content, 0)
    kinds = []
    while at < end:
        kind, at = _varint(content, at)
        kinds.append(kind)
    if at != end:
        raise Nonsense
    values = []
    for kind in kinds:
        value, at = _value(content, at, kind)
        values.append(value)
    if at != len(content):
        raise Nonsense
    return tuple(values)


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # kind → bytes


def _value(content: bytes, at: int, kind: int) -> tuple[Value, int]:
    match kind:
        case 0:
            return None, at
        case 8 | 9:
            return kind - 8, at
        case _ if kind in _INTEGERS:
            size = _INTEGERS[kind]
            return int.from_bytes(_part(content, at, size), "big", signed=True), at + size
        case _ if kind >= 13 and kind % 2:
            size = (kind - 13) // 2
            return _part(content, at, size).decode(), at + size
        case _:
            raise Nonsense  # neither blobs nor fractions are ours


def _part(content: bytes, at: int, size: int) -> bytes:
    part = content[at : at + size]
    if len(part) < size:
        raise Nonsense
    return part


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(9):
        byte = content[at + n]
        if n == 8:
            return (value << 8) | byte, at + 9
        value = (value << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, at + n + 1
    raise Nonsense


def _number(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "big")
