"""The wire between a host and its PostgreSQL, which a test may cut: nothing is refused or closed, it goes silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Wire:
    def __init__(self) -> None:
        self.url = ""
        self._there = asyncio.Event()  # what the host sends arrives
        self._back = asyncio.Event()  # what the server sends arrives
        self.heal()

    def cut(self, *, there: bool = True, back: bool = True) -> None:
        """Let nothing through, to the server, back from it, or both ways."""
        if there:
            self._there.clear()
        if back:
            self._back.clear()

    def heal(self) -> None:
        """Let through what comes from now on, and what has been held up."""
        self._there.set()
        self._back.set()

    async def carry(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        ways = (_pass(reader, server_writer, self._there), _pass(server_reader, writer, self._back))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            writer.close()
            server_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_open: asyncio.Event) -> None:
    while data := await reader.read(65536):
        await is_open.wait()
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def open_wire(url: str) -> AsyncIterator[Wire]:
    """A wire to this database; its own `url` is what a host connects to."""
    parts, wire = urlsplit(url), Wire()
    assert parts.port is not None
    to = parts.port
    carried: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        carried.add(task)
        try:
            await wire.carry(to, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # one of the two has gone
        finally:
            carried.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
    try:
        yield wire
    finally:
        wire.heal()
        server.close()
        for task in tuple(carried):
            task.cancel()
