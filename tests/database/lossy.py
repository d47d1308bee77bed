"""A wire to PostgreSQL that breaks at the worst moment: in a commit, before the server hears of it or after, or
when we look at what others told."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Loses = Literal["", "request", "answer", "look"]


class LossyWire:
    """Passes everything on, but for one thing, which it loses, and cuts the connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), int(parts.port or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        self.loses: Loses = ""  #: the request or the answer of the next commit, or the next look
        self.before_cut: Callable[[], None] = lambda: None  #: done when it is lost, before the connection is cut
        self.lost = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> LossyWire:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for source, target in ((client, server), (server, client)):
                    if source in ready and not self._pass_on(source, target, from_client=source is client):
                        return

    def _pass_on(self, source: socket.socket, target: socket.socket, *, from_client: bool) -> bool:
        data = source.recv(65536)
        asked = from_client and b"\0commit\0" in data  # the statement, and nothing that is called so
        done = not from_client and b"COMMIT\0" in data
        looks = from_client and b"from event e left join" in data
        if (self.loses, True) in (("request", asked), ("answer", done), ("look", looks)):
            self.loses = ""
            self.lost += 1
            self.before_cut()
            return False
        target.sendall(data)
        return bool(data)
