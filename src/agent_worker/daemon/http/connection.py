"""One connection, before there is a request: how long a stranger may take, how much it may send, how many there are.

The server's own protocol with limits where it has none. A connection is a stranger's until a request on it has shown
a token. Many strangers may come at once, for our own clients do (accepting.py); of those who say nothing for a moment
few may stay. Guards the socket, judges no request: that is request_guard.py, which is handed the connection as an
extension of the scope.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from agent_worker.core.errors import TooBusy
from agent_worker.daemon.http.accepting import Doorstep

STRANGERS = 64  #: that may stay
_MOMENT = 5.0  #: seconds
HEAD_PATIENCE = 10.0  #: seconds from the first byte, or from connecting, to the end of the head
LARGEST_HEAD = 32 * 1024
_MOST_HEADERS = 100


class _BadHead(Exception):
    """Raised in the parser for a head that we refuse; the parser makes an error of its own of it."""


class Connection(HttpToolsProtocol):
    def __init__(self, *args: Any, doorstep: Doorstep, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._doorstep = doorstep
        self._unwelcome = doorstep.is_full
        self._in_head = True
        self._head = 0
        self._since = self.loop.time()
        self._patience: asyncio.TimerHandle | None = None
        self._looked_at: asyncio.TimerHandle | None = None
        self._status = HTTPStatus.BAD_REQUEST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._doorstep.came(self)
        self._expect_head()
        self._looked_at = self.loop.call_later(_MOMENT, self._make_space)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._looked_at is not None:
            self._looked_at.cancel()
        super().connection_lost(exc)
        self._doorstep.went(self)

    def drop(self) -> None:
        """Close the connection now, whatever was still to be sent."""
        self.transport.abort()

    def trust(self) -> None:
        self._doorstep.trust(self)

    def silent_for(self) -> float:
        waits_for_it = self._in_head or self.cycle is None or self.cycle.response_complete
        return self.loop.time() - self._since if waits_for_it else 0.0

    def _make_space(self) -> None:
        """Drop a stranger that keeps us waiting, when there are many."""
        if self not in self._doorstep.strangers or self.transport.is_closing():
            return
        silent = self.silent_for()
        if silent >= _MOMENT and len(self._doorstep.strangers) > STRANGERS:
            return self.drop()
        self._looked_at = self.loop.call_later(_MOMENT - silent if silent < _MOMENT else _MOMENT, self._make_space)

    # --- the head

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # refused; what it still sends is not looked at
        if not self._in_head:
            self._since = self.loop.time()  # a head that comes in drops is no sign of life
        super().data_received(data)
        if self._in_head:
            self._count(len(data))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"agent_worker": {"trust": self.trust, "drop": self.drop}}
        self._in_head, self._head = True, 0
        self._expect_head()

    def on_url(self, url: bytes) -> None:
        self._check(len(self.url) + len(url) <= LARGEST_HEAD, HTTPStatus.REQUEST_URI_TOO_LONG)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value)
        fits = self._head <= LARGEST_HEAD and len(self.headers) < _MOST_HEADERS
        self._check(fits, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        self._check(self.url.startswith(b"/"), HTTPStatus.BAD_REQUEST)  # another host's name could stand there
        self._check(not self._unwelcome, HTTPStatus.SERVICE_UNAVAILABLE)
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered like any other, and refused (request_guard.py)."""

    # --- refusing

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._status)

    def _check(self, holds: bool, status: HTTPStatus) -> None:
        if not holds:
            self._status = status
            raise _BadHead

    def _count(self, received: int) -> None:
        """A head that does not end; its parts are not told to us before they are whole."""
        self._head += received
        if self._head > 2 * LARGEST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _expect_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(HEAD_PATIENCE, self._refuse, HTTPStatus.REQUEST_TIMEOUT)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self, status: HTTPStatus) -> None:
        if self.transport.is_closing():
            return
        error = {"code": "bad_request", "message": status.phrase, "hint": ""}
        later = b""
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            error = {"code": TooBusy.code, "message": "too many connections are open", "hint": "try again in a moment"}
            later = b"retry-after: 1\r\n"
        body = json.dumps({"error": error}).encode()
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
        head += later + b"\r\n"
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
