"""The HTTP server of the daemon: uvicorn with our way to accept connections, and without its signals.

Never more connections are taken than there are descriptors for. Those for which there is no room yet wait in the
kernel's queue, where they cost us nothing: none is cut. When even those of our own clients are too many, further ones
are answered with 503 and when to come again. Above: daemon/process/process.py serves; connection.py is one connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn

from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.http.connection import Capacity, Connection, OpenConnections

BACKLOG = 4096  #: connections that the kernel holds for us; it may allow fewer
_STREAMS_END = 2  #: seconds that open streams get to say goodbye, of the whole grace
_BATCH = 64  # accepted at once: then others have their turn
_REST = 1.0  # seconds without accepting when the system has nothing left
_LOOK = 0.25  # seconds until it is looked again who makes room
_QUIET = 60.0  # seconds between two lines of the log that say the same
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Allow this process as many open files as its user may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems promise more than they give
            return soft
    return hard if hard != resource.RLIM_INFINITY else 2**20


class Accepting:
    def __init__(
        self, listener: socket.socket, make: Callable[[], asyncio.Protocol], open_connections: OpenConnections
    ) -> None:
        self._listener = listener
        self._make = make
        self._open_connections = open_connections
        self._loop = asyncio.get_running_loop()
        self._open = False
        self._resting: asyncio.TimerHandle | None = None
        self._told = -_QUIET
        self._greeting: set[asyncio.Task[object]] = set()
        open_connections.left = self._go_on
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._go_on()

    def close(self) -> None:
        self._open_connections.left = lambda: None
        self._pause()
        if self._resting is not None:
            self._resting.cancel()

    def _go_on(self) -> None:
        if not self._open and self._resting is None:
            self._open = True
            self._loop.add_reader(self._listener, self._accept)

    def _pause(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            if self._open_connections.is_crowded and not self._open_connections.make_room():
                return self._rest(_LOOK)
            if len(self._greeting) >= self._open_connections.capacity.strangers:
                return self._pause()
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._tell(error)
                return self._rest(_REST)
            connection.setblocking(False)
            greeting = self._loop.create_task(self._greet(connection))
            self._greeting.add(greeting)
            greeting.add_done_callback(self._greeted)

    async def _greet(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # it has gone already
            connection.close()

    def _greeted(self, greeting: asyncio.Task[object]) -> None:
        self._greeting.discard(greeting)
        self._go_on()

    def _rest(self, seconds: float) -> None:
        """Accept nobody for a moment: open connections go on, the others wait in the kernel's queue."""
        self._pause()
        if self._resting is None:
            self._resting = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self._go_on()

    def _tell(self, error: OSError) -> None:
        if self._loop.time() - self._told >= _QUIET:
            self._told = self._loop.time()
            log.warning("no connection can be accepted now: %s. New ones wait", error.strerror)


class DaemonServer(uvicorn.Server):
    """Says when it accepts connections, accepts them in our way, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], capacity: Capacity) -> None:
        super().__init__(config)
        self._announce = announce
        self._open_connections = OpenConnections(capacity)
        self._accepting: list[Accepting] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._accepting = [Accepting(each, self._connection, self._open_connections) for each in sockets or ()]
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._accepting:
            each.close()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(
            self.config, self.server_state, app_state=self.lifespan.state, open_connections=self._open_connections
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def configured(app: App, *, lifespan: Literal["auto", "off"]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Connection,
        ws="none",
        lifespan=lifespan,
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a header must not say who is asking
        server_header=False,
        timeout_graceful_shutdown=_STREAMS_END,
    )
