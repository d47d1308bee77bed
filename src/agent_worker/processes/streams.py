"""What a child prints, read to its end however long it is, and kept within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from agent_worker.core.errors import Refused
from agent_worker.core.text import plural

OUTPUT_CAP = 1024 * 1024
CHUNK = 64 * 1024


class Ends:
    """The beginning and the end of a stream, however long it is."""

    def __init__(self, cap: int) -> None:
        self._half = max(cap // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    async def take_all(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(CHUNK):
            self.add(chunk)

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        left = self._half - len(self._head)
        self._head += chunk[:left]
        self._tail += chunk[left:]
        if len(self._tail) > 2 * self._half:  # not at every chunk: moving the rest costs
            del self._tail[: -self._half]

    @property
    def cut(self) -> int:
        return max(self._seen - len(self._head) - self._half, 0)

    def text(self) -> str:
        marker = f"\n[… {plural(self.cut, 'byte')} left out …]\n".encode() if self.cut else b""
        return (self._head + marker + self._tail[-self._half :]).decode(errors="replace")


async def lines(
    stream: asyncio.StreamReader, *, cap: int = OUTPUT_CAP, most: int | None = None
) -> AsyncIterator[bytes]:
    """Lines without their ends; one longer than the cap keeps its beginning and says what is missing.

    Refused when `most` bytes were read and there are still more.
    """
    line, missing, read = bytearray(), 0, 0
    while chunk := await stream.read(CHUNK):
        read += len(chunk)
        if most is not None and read > most:
            raise Refused(f"it wrote more than {most // 1024**2:,} MB")
        for number, piece in enumerate(chunk.split(b"\n")):
            if number:
                yield _whole(line, missing)
                line, missing = bytearray(), 0
            left = cap - len(line)
            line += piece[:left]
            missing += max(len(piece) - left, 0)
    if line:
        yield _whole(line, missing)


def _whole(line: bytearray, missing: int) -> bytes:
    return bytes(line) + (f"[… {plural(missing, 'byte')} left out …]".encode() if missing else b"")
