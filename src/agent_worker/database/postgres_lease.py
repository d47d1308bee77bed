"""The lease of this host, and its ear: one session and one thread that do nothing else.

Each beat renews the lease, and looks whose is over and how far events go. Between two beats it listens: a number that
another host tells is only a hint to look, and the next beat finds what was not told. A session that breaks is opened
anew. What follows from a beat, or from none, is for others to decide: agents/hosting.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from agent_worker.core.errors import InUse
from agent_worker.database import event_rows, host_rows
from agent_worker.database.host_rows import Beat
from agent_worker.database.postgres_session import (
    Connection,
    HeldElsewhere,
    connect,
    hold_shared,
    numbered,
    place_of,
)

log = logging.getLogger(__name__)

AGAIN = 0.5  # seconds until a server that could not be reached is tried again


class HostLease:
    def __init__(self, url: str, host: str, *, hint: Callable[[int], None]) -> None:
        self._url = url
        self._host = host
        self._hint = hint  # told how far events go, in our thread
        self._loop = asyncio.get_running_loop()
        self._ending, self._end = os.pipe()
        self._thread: threading.Thread | None = None
        self.beaten: Callable[[Beat], None] = lambda _: None  #: told each beat, in the event loop

    async def open(self) -> None:
        """Raises InUse while somebody has the database to itself."""
        try:
            connection = await asyncio.to_thread(self._connected)
        except HeldElsewhere as error:
            told = f"the database at {place_of(self._url)} is in use: {error}"
            raise InUse(told, hint="wait until that has ended, and try again") from None
        self._thread = threading.Thread(target=self._keep, args=(connection,), name="lease", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        os.close(self._end)
        if self._thread:
            await asyncio.to_thread(self._thread.join)
        os.close(self._ending)

    def _connected(self) -> Connection:
        connection = connect(self._url)
        try:
            hold_shared(connection)
            connection.add_notify_handler(lambda told: self._heard(told.payload))
            connection.execute(f"listen {event_rows.CHANNEL}".encode())
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, connection: Connection | None) -> None:
        while True:
            try:
                connection = connection or self._connected()
                self._beat(connection)
                ended = self._listen(connection)
            except psycopg.Error as error:
                log.warning("the lease could not be renewed: %s", " ".join(str(error).split()))
                if connection:
                    connection.close()
                connection, ended = None, self._waits_for_end(AGAIN)
            if ended:
                break
        if connection:
            connection.close()

    def _beat(self, connection: Connection) -> None:
        began = time.monotonic()
        text, _ = numbered(host_rows.BEAT_ONCE)
        found = connection.execute(text.encode(), [int(host_rows.LEASE * 1e6), self._host]).fetchone()
        rows = connection.execute(host_rows.LOOK.encode()).fetchall()
        self._hint(rows[0][0])
        dead = tuple(row[1] for row in rows if row[1] and row[1] != self._host)
        beat = Beat(time.monotonic() - began, found is not None, dead)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.beaten, beat)

    def _listen(self, connection: Connection) -> bool:
        """Until the next beat is due. True: we are to end."""
        until = time.monotonic() + host_rows.BEAT
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([connection.fileno(), self._ending], [], [], left)
            if self._ending in ready:
                return True
            if ready:
                connection.pgconn.consume_input()  # raises when the session is gone
                while told := connection.pgconn.notifies():
                    self._heard(told.extra.decode())
        return False

    def _waits_for_end(self, seconds: float) -> bool:
        return bool(select.select([self._ending], [], [], seconds)[0])

    def _heard(self, payload: str) -> None:
        with suppress(ValueError):  # somebody else's word
            self._hint(int(payload))
