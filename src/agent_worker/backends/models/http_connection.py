"""One connection to a server that speaks HTTP/1.1: one request at a time, and its answer, parsed as it comes in.

A connection of our own, because a request that nobody waits for any more has to end at once, also before the first
byte of its answer: whoever gives up calls `abort`, at any moment, and the server sees the connection close. Knows no
proxy, no certificate and no model. Nothing is sent twice here.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from contextlib import suppress

import httptools

from agent_worker.core.later import pattern

_HELD = 256 * 1024  # bytes of an answer that its reader has not taken; the server waits beyond that
_LONGEST_BESIDE = 128 * 1024  # bytes in a row that are no body: headers, and what may stand around and behind a body
_ASKED_AFTER, _ASKED_EVERY = 45, 15  # seconds without a word until the other side is asked whether it is there
_FRAMED = (b"content-length", b"transfer-encoding")
_NUMBERED = pattern(r"\[Errno (\d+)\]")


class ConnectionBroken(Exception):
    """The answer did not come to its end; the message says why, if anything is known."""


class HttpConnection(asyncio.Protocol):
    """Used for one request after the other, while `is_free` after each."""

    def __init__(self, address: str = "") -> None:
        self.address = address  #: where it leads to, if that was chosen and not left to the system
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []  #: of the answer, with names in small letters
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self.socket: socket.socket
        self._parser: httptools.HttpResponseParser | None = None
        self._pieces: list[bytes] = []
        self._held = self._beside = 0
        self._is_headed = self._is_kept = self._is_paused = False
        self.is_whole = False  #: all of the answer is here
        self._broken: ConnectionBroken | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._silence = self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def send(self, head: bytes, body: bytes, *, silence: float) -> None:
        """Send a request. From now on the server may be silent for so many seconds at most."""
        self.status, self.headers = 0, []
        self._beside, self._is_headed, self.is_whole = 0, False, False
        self._parser = httptools.HttpResponseParser(self)
        self._silence, self._heard = silence, self._loop.time()
        self._timer = self._loop.call_later(silence, self._look)
        self._transport.write(head + body)

    async def answered(self) -> None:
        """Wait until status and headers are known. Raises ConnectionBroken."""
        while not self._is_headed:
            await self._more()

    async def piece(self) -> bytes | None:
        """What has come of the body since the last piece; None at its end. Raises ConnectionBroken."""
        while not self._pieces:
            if self.is_whole:
                return None
            await self._more()
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        if self._is_paused:
            self._is_paused, self._heard = False, self._loop.time()
            self._transport.resume_reading()
        return piece

    def finish(self, now: float) -> bool:
        """End the request. Returns whether the connection is good for another one; if not, it is closed."""
        if self._timer:
            self._timer.cancel()
        self._parser, self._heard = None, now
        self._pieces.clear()
        if self.is_whole and self._is_kept and not self._is_paused and self.is_open:
            return True
        self.abort()
        return False

    @property
    def is_open(self) -> bool:
        return self._broken is None and not self._transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has come since the last answer, not even the end of the connection, which the event loop may
        not have noticed yet. What is sent then is lost, or answered by what was said before.
        """
        looking = select.poll()
        looking.register(self.socket.fileno(), select.POLLIN)
        return not looking.poll(0)

    def unused(self, now: float) -> float:
        """For how many seconds nothing has happened here."""
        return now - self._heard

    def abort(self) -> None:
        self._transport.abort()

    # What the event loop tells us.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.socket = transport.get_extra_info("socket")
        _keep_alive(self.socket)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        if self._parser is None:  # nobody asked for that
            return self.abort()
        self._beside += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break("what it sends is not HTTP")
        if self._beside > _LONGEST_BESIDE and not self.is_whole:
            self._break("its headers do not end")
        if self._held > _HELD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
        if self._is_headed and exc is None and not any(name in _FRAMED for name, _ in self.headers):
            self.is_whole = True  # an answer without a length ends with its connection
        elif not self.is_whole:
            self._break(in_words(exc) if exc else "the other side closed it")
        self._is_kept = False
        self._wake()

    # What the parser tells us, while it is fed.

    def on_message_begin(self) -> None:
        if self.is_whole:  # a second answer, to a request that nobody sent
            self._is_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_headed:  # not what stands behind a body
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_headed or self._parser is None:
            return
        self.status = self._parser.get_status_code()
        self._is_headed = not 100 <= self.status < 200
        if not self._is_headed:  # "go on", before the answer itself
            self.headers = []

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        if not self.is_whole:
            self._pieces.append(body)
            self._held += len(body)

    def on_message_complete(self) -> None:
        if self._is_headed and self._parser is not None:
            self._is_kept = not self.is_whole and self._parser.should_keep_alive()
            self.is_whole = True

    async def _more(self) -> None:
        if self._broken:
            raise self._broken
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    def _break(self, why: str) -> None:
        self._broken = self._broken or ConnectionBroken(why)
        self.abort()

    def _look(self) -> None:
        """Break off when the silence has lasted too long; what came meanwhile puts that off."""
        now = self._loop.time()
        if self._is_paused:  # it is we who do not listen
            self._heard = now
        left = self._heard + self._silence - now
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
            return
        self._break(f"it said nothing for {self._silence:g} s")
        self._wake()


def _keep_alive(sock: socket.socket) -> None:
    """Let the system ask now and then whether the other side is still there: a model may think for minutes without a
    word, and what lies between forgets connections on which nothing passes.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with suppress(AttributeError):  # not every system lets us say how soon
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _ASKED_AFTER)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_EVERY)


def in_words(error: Exception) -> str:
    """What the system says, without its numbers and addresses: `Connection refused`."""
    import ssl

    if isinstance(error, ssl.SSLError):  # its number is none of the system's
        return getattr(error, "verify_message", "") or str(error.reason or error).replace("_", " ").lower()
    if not isinstance(error, OSError):
        return str(error)
    tried = _NUMBERED.findall(str(error))  # each address of the name, if there are several
    return os.strerror(int(tried[0])) if tried else error.strerror or str(error) or "the other side closed it"
