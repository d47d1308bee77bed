"""One connection, before there is a request: how long a stranger may take, how much it may send, how many there are.

The server's own protocol with limits where it has none. A connection is a stranger's until a request on it has shown
a token. Many strangers may come at once, for our own clients do (server.py); of those who say nothing for a moment
few may stay. Guards the socket, judges no request: that is request_guard.py, which is handed the connection as an
extension of the scope.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, Self

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from agent_worker.core.errors import TooBusy
from agent_worker.core.later import dataclass

CROWD = 2048  #: strangers that there may be for a moment
GLANCE = 2.0  #: seconds after which one that says nothing makes room for another, if there is no more
_REFUSED = 64  # connections beyond the most that are told so
STRANGERS = 64  #: that may stay
_MOMENT = 5.0  #: seconds
HEAD_PATIENCE = 10.0  #: seconds from the first byte, or from connecting, to the end of the head
LARGEST_HEAD = 32 * 1024
_MOST_HEADERS = 100


@dataclass(frozen=True, slots=True)
class Capacity:
    """What there is room for: the database, files and programs need descriptors too."""

    strangers: int
    connections: int

    @classmethod
    def within(cls, descriptors: int) -> Self:
        return cls(min(CROWD, descriptors // 4), min(2 * CROWD, descriptors // 2))


class AcceptedConnection(Protocol):
    def silent_for(self) -> float:
        """How many seconds this connection has kept us waiting; 0 when we keep it waiting."""
        ...

    def drop(self) -> None: ...


class OpenConnections:
    """Keeps count of the open connections, which tell it themselves."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.strangers: dict[AcceptedConnection, None] = {}  # who came first stands first
        self.trusted: set[AcceptedConnection] = set()
        self.left: Callable[[], None] = lambda: None  #: somebody went, or is no stranger any more

    @property
    def is_crowded(self) -> bool:
        """Whether nobody else is let in for now."""
        everybody = len(self.strangers) + len(self.trusted)
        return len(self.strangers) >= self.capacity.strangers or everybody >= self.capacity.connections + _REFUSED

    @property
    def is_full(self) -> bool:
        """Whether whoever is let in is told to come again."""
        return len(self.strangers) + len(self.trusted) >= self.capacity.connections

    def came(self, who: AcceptedConnection) -> None:
        self.strangers[who] = None

    def trust(self, who: AcceptedConnection) -> None:
        if who in self.strangers:
            del self.strangers[who]
            self.trusted.add(who)
            self.left()

    def went(self, who: AcceptedConnection) -> None:
        self.strangers.pop(who, None)
        self.trusted.discard(who)
        self.left()

    def make_room(self) -> bool:
        """Let the first one go that came and says nothing. False: all of them may be about to."""
        found = next((each for each in self.strangers if each.silent_for() >= GLANCE), None)
        if found is None:
            return False
        del self.strangers[found]  # it is counted no longer, though it takes a moment to go
        found.drop()
        return True


class _BadHead(Exception):
    """Raised in the parser for a head that we refuse; the parser makes an error of its own of it."""


class Connection(HttpToolsProtocol):
    def __init__(self, *args: Any, open_connections: OpenConnections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open_connections = open_connections
        self._unwelcome = open_connections.is_full
        self._in_head = True
        self._head = 0
        self._since = self.loop.time()
        self._patience: asyncio.TimerHandle | None = None
        self._looked_at: asyncio.TimerHandle | None = None
        self._status = HTTPStatus.BAD_REQUEST

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._open_connections.came(self)
        self._expect_head()
        self._looked_at = self.loop.call_later(_MOMENT, self._make_space)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._looked_at is not None:
            self._looked_at.cancel()
        super().connection_lost(exc)
        self._open_connections.went(self)

    def drop(self) -> None:
        """Close the connection now, whatever was still to be sent."""
        self.transport.abort()

    def trust(self) -> None:
        self._open_connections.trust(self)

    def silent_for(self) -> float:
        waits_for_it = self._in_head or self.cycle is None or self.cycle.response_complete
        return self.loop.time() - self._since if waits_for_it else 0.0

    def _make_space(self) -> None:
        """Drop a stranger that keeps us waiting, when there are many."""
        if self not in self._open_connections.strangers or self.transport.is_closing():
            return
        silent = self.silent_for()
        if silent >= _MOMENT and len(self._open_connections.strangers) > STRANGERS:
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
        """Count the bytes of a head, and refuse one that does not end: its parts are only handed over when they are
        whole.
        """
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
