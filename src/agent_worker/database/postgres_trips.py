"""Statements on their way to PostgreSQL: several in one trip there and back, however many they are.

They are sent in one piece, together with the word that ends them (libpq's pipeline mode). So a host that is stopped or
cut off leaves a session behind that the server knows to be idle, and ends: in psycopg's own pipeline each statement
travels by itself, and a session that waits for the rest of them never counts as idle. After one that fails, the server
makes none of the others. A server that says nothing for too long counts as gone, also when something on the way still
acknowledges what we send. Knows nothing of transactions: postgres_session.py.
"""

from __future__ import annotations

import itertools
import select
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from agent_worker.core.later import dataclass

Connection = psycopg.Connection[tuple[Any, ...]]
Value = bytes | None

AFTER = 3  # times that a statement is sent before the server is to keep how it is done
KEPT = 400  # of those; more would be texts that are made up anew each time
SILENT = 75.0  #: seconds without a word after which a server counts as gone: it ends what we ask for earlier than that
PARTING = 5.0  # seconds, when we are ending
_SLICE = 500  # milliseconds between two looks at whether we are

_LOST = "the connection was lost"
_FINE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY)


@dataclass(slots=True)
class Statement:
    """A statement, and once it was made what came of it."""

    text: bytes
    values: Sequence[Value] = ()
    is_kept: bool = True  #: whether it is worth the server's while to remember it
    result: pq.abc.PGresult | None = None

    @property
    def changed(self) -> int:
        return (self.result.command_tuples or 0) if self.result else 0


class Trips:
    """The way to the server of one session. Used by one thread at a time."""

    def __init__(
        self, connection: Connection, *, silent: float = SILENT, ending: threading.Event | None = None
    ) -> None:
        self._connection = connection
        self._silent = silent
        self._ending = ending or threading.Event()
        self._waiting: list[Statement] = []
        self._owed: list[tuple[Statement, bool]] = []  # sent, and nobody has heard yet what came of it
        self._times: dict[bytes, int] = {}  # that a statement was sent
        self._names: dict[bytes, bytes] = {}  # of those that the server keeps
        self._columns: dict[bytes, list[str]] = {}  # of what a statement finds
        self._numbers = itertools.count()
        self._transformer = Transformer(connection)
        self._readable, self._writable = (
            select.poll(),
            select.poll(),
        )  # not select(): that knows no descriptor above 1023
        self._readable.register(connection.fileno(), select.POLLIN)
        self._writable.register(connection.fileno(), select.POLLIN | select.POLLOUT)

    def add(self, sent: Statement) -> Statement:
        """To be made with the next trip, or the one that is asked for."""
        self._waiting.append(sent)
        return sent

    @property
    def is_due(self) -> bool:
        """Whether anything was added that is not made yet."""
        return bool(self._waiting)

    def forget(self) -> None:
        """What was added is not to be made."""
        self._waiting.clear()

    def go(self) -> None:
        """Have everything made that was added. Raises what the first that failed raises; those after it were not made.

        What else may be raised says that the session is lost, and then it has to be closed.
        """
        if not self._waiting:
            return
        connection = self._connection.pgconn
        connection.enter_pipeline_mode()
        expected = self._sent(connection)
        if self._owed:
            self._receive(connection, self._owed)
            self._owed = []
        failed = self._receive(connection, expected)
        connection.exit_pipeline_mode()
        if failed:
            raise failed

    def leave(self) -> None:
        """Have everything made that was added, and wait for none of it: the next trip hears what came of it first.

        For what cannot fail but with the session.
        """
        connection = self._connection.pgconn
        connection.enter_pipeline_mode()
        self._owed += self._sent(connection)
        connection.flush()

    def rows(self, sent: Statement) -> list[tuple[Any, ...]]:
        assert sent.result is not None
        self._transformer.set_pgresult(sent.result)
        return self._transformer.load_rows(0, sent.result.ntuples, tuple)

    def columns(self, sent: Statement) -> list[str]:
        """The names of what was found."""
        if (known := self._columns.get(sent.text)) is None:
            assert sent.result is not None
            known = [(sent.result.fname(n) or b"").decode() for n in range(sent.result.nfields)]
            if len(self._columns) < KEPT:
                self._columns[sent.text] = known
        return known

    def _sent(self, connection: pq.abc.PGconn) -> list[tuple[Statement, bool]]:
        """What will be received for everything that was added, which is on its way now."""
        going, self._waiting = self._waiting, []
        expected = [each for sent in going for each in self._send(connection, sent)]
        connection.pipeline_sync()
        return expected

    def _send(self, connection: pq.abc.PGconn, sent: Statement) -> list[tuple[Statement, bool]]:
        """What will be received for it: whether it was kept, if it is to be from now on, and what came of it."""
        name, expected = self._names.get(sent.text), [(sent, False)]
        if name is None and self._is_worth_keeping(sent):
            name = self._names[sent.text] = b"s%d" % next(self._numbers)
            connection.send_prepare(name, sent.text)
            expected.insert(0, (sent, True))
        if name is None:
            connection.send_query_params(sent.text, sent.values)
        else:
            connection.send_query_prepared(name, sent.values)
        return expected

    def _is_worth_keeping(self, sent: Statement) -> bool:
        if not sent.is_kept or self._connection.prepare_threshold is None or len(self._names) >= KEPT:
            return False
        times = self._times[sent.text] = self._times.get(sent.text, 0) + 1
        return times > AFTER

    def _receive(self, connection: pq.abc.PGconn, expected: Sequence[tuple[Statement, bool]]) -> psycopg.Error | None:
        failed: psycopg.Error | None = None
        for sent, is_keeping in expected:
            result = self._one(connection)
            if result.status not in _FINE:
                if is_keeping:
                    self._names.pop(sent.text, None)
                if result.status != pq.ExecStatus.PIPELINE_ABORTED:
                    failed = failed or psycopg.errors.error_from_result(result)
            elif not is_keeping:
                sent.result = result
            if connection.status == pq.ConnStatus.BAD:
                raise failed or psycopg.OperationalError(_LOST)
            while self._next(connection) is not None:  # None ends what came of one statement
                pass
        self._one(connection)  # that was all of it
        return failed

    def _one(self, connection: pq.abc.PGconn) -> pq.abc.PGresult:
        if (result := self._next(connection)) is None:
            raise psycopg.OperationalError(_LOST)
        return result

    def _next(self, connection: pq.abc.PGconn) -> pq.abc.PGresult | None:
        while connection.flush():
            self._wait(self._writable)
            connection.consume_input()
        while connection.is_busy():
            self._wait(self._readable)
            connection.consume_input()
        return connection.get_result()

    def _wait(self, ready: select.poll) -> None:
        began = time.monotonic()
        while not ready.poll(_SLICE):
            waited = time.monotonic() - began
            if waited > (min(self._silent, PARTING) if self._ending.is_set() else self._silent):
                raise psycopg.OperationalError(f"the server has not answered for {waited:.0f} seconds")
