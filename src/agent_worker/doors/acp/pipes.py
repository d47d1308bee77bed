"""Our standard streams as a transport of ACP's library: one JSON object a line, and no line longer than we hold.

What is no object is passed over; the library would stop at it, and would keep a line without end.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from acp.stdio import stdio_streams

LARGEST = 8 * 1024 * 1024  #: bytes of one message


class StandardStreams:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        async with self._writing:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of our input, or where a line is too long to be one."""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                return None
            if (message := _object(line)) is not None:
                return message

    async def close(self) -> None:
        self._writer.close()


async def standard_streams() -> StandardStreams:
    return StandardStreams(*await stdio_streams(limit=LARGEST))


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
