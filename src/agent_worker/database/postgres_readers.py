"""Looks at a database on a PostgreSQL server: a few sessions, each in a thread of its own.

A look is a transaction, so that it sees one moment. One whose function has always taken a single trip so far is made
without: the statement is a moment by itself, and beginning and ending one would be trips of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import CodeType
from typing import TypeVar

import psycopg

from agent_worker.database.postgres_faults import Reachability, fault_of, is_passing, pauses
from agent_worker.database.postgres_session import READ, Connection, PostgresTransaction, SecondTrip, connect

T = TypeVar("T")

READERS = 4


class PostgresReaders:
    def __init__(self, url: str, reach: Reachability, here: str) -> None:
        self._url = url
        self._reach = reach
        self._here = here
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._in_one_trip: dict[CodeType, bool] = {}  # whether a query took one trip, each time so far
        self._local = threading.local()
        self._open: list[Connection] = []

    async def look(self, known_by: Callable[..., object], query: Callable[[PostgresTransaction], T]) -> T:
        """What a query finds. `known_by`: the function by which it is known again."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._query, query, _code_of(known_by))

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._open:
            connection.close()

    def _query(self, query: Callable[[PostgresTransaction], T], code: CodeType | None) -> T:
        began = time.monotonic()
        for pause in pauses():
            try:
                return self._asked(query, code)
            except psycopg.Error as error:
                self._drop_reader()
                if not is_passing(error):
                    raise fault_of(error, "answer") from error
                self._reach.wait_or_refuse(error, pause, began)
        raise AssertionError  # pauses have no end

    def _asked(self, query: Callable[[PostgresTransaction], T], code: CodeType | None) -> T:
        """Ask it in a transaction; without one where the same function needed a single trip so far."""
        if code is not None and self._in_one_trip.get(code):
            try:
                return self._asked_once(query, code, one_trip=True)
            except SecondTrip:
                self._in_one_trip[code] = False  # not this time: it is not tried again
        return self._asked_once(query, code, one_trip=False)

    def _asked_once(self, query: Callable[[PostgresTransaction], T], code: CodeType | None, *, one_trip: bool) -> T:
        transaction: PostgresTransaction | None = getattr(self._local, "transaction", None)
        if transaction is None:
            transaction = PostgresTransaction(
                connect(self._url), here=self._here, settings=READ, ending=self._reach.ending
            )
            self._local.transaction = transaction
            self._open.append(transaction.connection)
        transaction.begin_change()
        transaction.begin_read(one_trip=one_trip)
        try:
            found = query(transaction)
            transaction.settle()
        except psycopg.Error:
            raise
        except BaseException:
            transaction.roll_back()
            raise
        self._reach.trouble = ""
        if code is not None:
            self._in_one_trip.setdefault(code, transaction.trips <= 1)
        transaction.let_go()
        return found

    def _drop_reader(self) -> None:
        if transaction := getattr(self._local, "transaction", None):
            self._local.transaction = None
            self._open.remove(transaction.connection)
            transaction.connection.close()


def _code_of(query: Callable[..., object]) -> CodeType | None:
    """By which a query is known again, also one that is made anew each time."""
    while isinstance(query, partial):
        query = query.func
    return getattr(query, "__code__", None)
