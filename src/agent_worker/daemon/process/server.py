"""The HTTP server of the daemon: uvicorn with our way to accept connections, and without its signals."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn

from agent_worker.daemon.http.accepting import Accepting, Capacity, Doorstep
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.http.connection import Connection

_STREAMS_END = 2  #: seconds that open streams get to say goodbye, of the whole grace


class DaemonServer(uvicorn.Server):
    """Says when it accepts connections, accepts them in our way, and leaves the signals to us."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None], capacity: Capacity) -> None:
        super().__init__(config)
        self._announce = announce
        self._doorstep = Doorstep(capacity)
        self._accepting: list[Accepting] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        self._accepting = [Accepting(each, self._connection, self._doorstep) for each in sockets or ()]
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._accepting:
            each.close()
        await super().shutdown(sockets)

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, app_state=self.lifespan.state, doorstep=self._doorstep)

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
