"""The daemon asked by a program that awaits: requests, and streams of events.

As connection.py does for the command line, without threads: whoever is cancelled leaves nothing behind. A connection is
proved once, and kept for a moment for the next request.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from agent_worker.client.discovery import NONCE_HEADER, DaemonFile, authority, proof
from agent_worker.client.plain_http import LOGS, Garbled, error_of, json_object, json_of
from agent_worker.core.errors import AgentWorkerError

_LARGEST_LINE = 1024 * 1024
_PROOF_PATIENCE = 5.0  #: seconds, for connecting and the proof together
_KEPT = 2.0  #: seconds that a connection is kept: the daemon keeps it for longer
_MOST_KEPT = 8


class Lost(AgentWorkerError):
    """The daemon is not there any more, or ended before it had answered."""

    code = "lost"


class _DaemonConnection:
    """One connection to a daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, found: DaemonFile) -> None:
        self._reader, self._writer, self._found = reader, writer, found
        self.idle_since = 0.0

    @property
    def is_usable(self) -> bool:
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: so is the socket
            self._writer.close()

    async def ask(self, method: str, path: str, headers: dict[str, str], content: bytes | None) -> int:
        """Send a request and read the status; the headers are kept."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {authority(self._found.host, self._found.port)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1") + (content or b""))
        await self._writer.drain()
        protocol, _, rest = (await self._line()).partition(b" ")
        if not protocol.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise Garbled
        self.headers = dict[str, str]()
        while line := await self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        return int(rest[:3])

    async def body(self) -> bytes:
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            yield await self._reader.readexactly(int(self.headers.get("content-length", "0")))
            return
        while size := int((await self._line()).partition(b";")[0] or b"0", 16):
            yield await self._reader.readexactly(size)
            await self._line()
        await self._line()

    async def _line(self) -> bytes:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        return line.rstrip(b"\r\n")


class AsyncClient:
    """A daemon, asked by one loop."""

    def __init__(self, found: DaemonFile, now: Callable[[], float], headers: dict[str, str]) -> None:
        self.found = found
        self._always = headers  # sent with every request
        self._now = now
        self._kept: list[_DaemonConnection] = []

    def close(self) -> None:
        while self._kept:
            self._kept.pop().close()

    async def request(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        """The JSON of the answer. A refusal is raised as the error it was in the daemon."""
        with _explained(self.found):
            connection = await self._asked(method, path, body, {})
            try:
                content = await connection.body()
            except BaseException:
                connection.close()
                raise
        self._keep(connection)
        return json_of(content, 200)

    def _keep(self, connection: _DaemonConnection) -> None:
        """Keep a connection whose answer was read to the end: the next request can use it."""
        if connection.headers.get("connection", "").lower() == "close" or len(self._kept) >= _MOST_KEPT:
            connection.close()
        else:
            connection.idle_since = self._now()
            self._kept.append(connection)

    async def stream(self, method: str, path: str, body: object = None) -> AsyncIterator[dict[str, Any]]:
        """The events of a stream, as JSON objects: all that happen once this has returned."""
        with _explained(self.found):
            connection = await self._asked(method, path, body, {"Accept": "text/event-stream"})
        return self._events(connection)

    async def _events(self, connection: _DaemonConnection) -> AsyncIterator[dict[str, Any]]:
        try:
            with _explained(self.found):
                async for data in _data(connection.pieces()):
                    yield json_object(data)
        except BaseException:
            connection.close()
            raise
        self._keep(connection)

    async def _asked(self, method: str, path: str, body: object, extra: dict[str, str]) -> _DaemonConnection:
        """Ask on a proven connection; returns that connection, from which the answer can be read."""
        content = None if body is None else json.dumps(body).encode()
        connection = self._take() or await self._proven()
        try:
            headers = {"Authorization": f"Bearer {self.found.token}"} | self._always | extra
            status = await connection.ask(method, path, headers, content)
            if status >= 300:
                raise error_of(status, json_object(await connection.body()))
        except BaseException:
            connection.close()
            raise
        return connection

    def _take(self) -> _DaemonConnection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable and self._now() - connection.idle_since < _KEPT:
                return connection
            connection.close()
        return None

    async def _proven(self) -> _DaemonConnection:
        """A connection whose other end holds the token, listens on that port, and is that instance."""
        found, nonce = self.found, os.urandom(32).hex()
        async with asyncio.timeout(_PROOF_PATIENCE):
            reader, writer = await asyncio.open_connection(found.host, found.port, limit=_LARGEST_LINE)
            connection = _DaemonConnection(reader, writer, found)
            try:
                await connection.ask("GET", "/health", {NONCE_HEADER: nonce}, None)
                answer = json_object(await connection.body())
                if answer.get("proof") != proof(found.token, nonce=nonce, port=found.port, instance=found.instance):
                    raise ConnectionRefusedError
            except BaseException:
                connection.close()
                raise
            return connection


class _explained:
    """Turns what goes wrong on the way to the daemon into a sentence with the next command."""

    def __init__(self, found: DaemonFile) -> None:
        self._where = authority(found.host, found.port)

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        match error:
            case Garbled() | ValueError():
                raise AgentWorkerError(
                    f"the answer from the daemon at {self._where} cannot be read", hint=LOGS
                ) from None
            case asyncio.IncompleteReadError() | OSError():  # TimeoutError is one
                hint = "call it again: that starts the daemon"
                raise Lost(f"the daemon at {self._where} is no longer there", hint=hint) from None


async def _data(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of server-sent events, from bytes that may be cut anywhere. Each of ours is one line."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip()
