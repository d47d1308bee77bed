"""The lease of this host, and its ear: one session and one thread that do nothing else.

Each beat renews the lease, and looks whose is over, how far events go, what time it is there, and what other hosts
signal. Between two beats it listens: a number that another host tells is only a hint to look, as is the word that its
signals have changed, and the next beat finds what was not told. A session that breaks, or says nothing for as long as
the lease holds without it, is opened anew.
What follows from a beat, or from none, is for others to decide: agents/hosting.py.
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
from typing import Any, TypeVar

import psycopg

from agent_worker.core.errors import InUse
from agent_worker.database import event_rows, host_rows, signal_rows
from agent_worker.database.host_rows import Beat
from agent_worker.database.postgres_session import (
    Connection,
    HeldElsewhere,
    asked,
    connect,
    hold_shared,
    numbered,
    place_of,
)
from agent_worker.database.signal_rows import Signals

log = logging.getLogger(__name__)

X = TypeVar("X")

AGAIN = 0.2  # seconds until a server that could not be reached is tried again


class HostLease:
    def __init__(self, url: str, host: str, *, hint: Callable[[int], None], now: Callable[[], int]) -> None:
        self._url = url
        self._host = host
        self._ear = signal_rows.ear_of(host)
        self._changed = False  # signals have, somebody said
        self._hint = hint  # told how far events go, in our thread
        self._now = now  # by the clock of this machine, in microseconds
        self._loop = asyncio.get_running_loop()
        self._ending, self._end = os.pipe()
        self._thread: threading.Thread | None = None
        self.beaten: Callable[[Beat], None] = lambda _: None  #: told each beat, in the event loop
        self.signalled: Callable[[Signals], None] = lambda _: None  #: told what other hosts signal, there as well
        self.overheard: Callable[[str], None] = lambda _: None  #: told what is being written on another host

    async def open(self) -> int:
        """Begin; by how many microseconds the database's clock is ahead. Raises InUse while somebody has it alone."""
        try:
            connection = await asyncio.to_thread(self._connected)
            _, ahead = await asyncio.to_thread(self._found, connection)
        except HeldElsewhere as error:
            told = f"the database at {place_of(self._url)} is in use: {error}"
            raise InUse(told, hint="wait until that has ended, and try again") from None
        self._thread = threading.Thread(target=self._keep, args=(connection,), name="lease", daemon=True)
        self._thread.start()
        return ahead

    async def close(self) -> None:
        os.close(self._end)
        if self._thread:
            await asyncio.to_thread(self._thread.join)
        os.close(self._ending)

    def _connected(self) -> Connection:
        connection = connect(self._url)
        try:
            hold_shared(connection)
            for channel in (event_rows.CHANNEL, self._ear):
                asked(connection, f"listen {channel}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, connection: Connection | None) -> None:
        away = False
        while True:
            try:
                connection = connection or self._connected()
                self._beat(connection)
                away = False
                ended = self._listen(connection)
            except psycopg.Error as error:
                if not away:  # it is tried again and again, and said once
                    log.warning("the lease could not be renewed: %s", " ".join(str(error).split()))
                away = True
                if connection:
                    connection.close()
                connection, ended = None, self._waits_for_end(AGAIN)
            if ended:
                break
        if connection:
            connection.close()

    def _beat(self, connection: Connection) -> None:
        began = self._loop.time()
        text, _ = numbered(host_rows.BEAT_ONCE)
        found = asked(connection, text, int(host_rows.LEASE * 1e6), self._host)
        rows, ahead = self._found(connection)
        self._hint(rows[0][0])
        dead = tuple(row[1] for row in rows if row[1] and row[1] != self._host)
        self._tell(self.beaten, Beat(began, bool(found), dead, ahead, rows[0][3]))
        self._look(connection)

    def _found(self, connection: Connection) -> tuple[list[tuple[Any, ...]], int]:
        """What each beat looks at, and by how much the database's clock is ahead: it was read half way, we suppose."""
        began = self._now()
        rows = asked(connection, host_rows.LOOK)
        return rows, rows[0][2] - (began + self._now()) // 2

    def _look(self, connection: Connection) -> None:
        """Look at what other hosts signal, and again if something is said meanwhile."""
        self._changed = False
        rows = asked(connection, numbered(signal_rows.LOOK)[0], self._host)
        self._tell(self.signalled, signal_rows.signals_in((row[0], row[1]) for row in rows))

    def _tell(self, hears: Callable[[X], None], what: X) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(hears, what)

    def _listen(self, connection: Connection) -> bool:
        """Until the next beat is due. True: we are to end."""
        until = time.monotonic() + host_rows.BEAT
        while (left := until - time.monotonic()) > 0:
            while told := connection.pgconn.notifies():  # also what came with an answer
                self._heard(told.relname.decode(), told.extra.decode())
            if self._changed:
                self._look(connection)
                continue
            ready, _, _ = select.select([connection.fileno(), self._ending], [], [], left)
            if self._ending in ready:
                return True
            if ready:
                connection.pgconn.consume_input()  # raises when the session is gone
        return False

    def _waits_for_end(self, seconds: float) -> bool:
        return bool(select.select([self._ending], [], [], seconds)[0])

    def _heard(self, channel: str, payload: str) -> None:
        if channel == self._ear:
            self._tell(self.overheard, payload)
        elif payload == signal_rows.LOOK_AGAIN:
            self._changed = True
        else:
            with suppress(ValueError):  # somebody else's word
                self._hint(int(payload))
