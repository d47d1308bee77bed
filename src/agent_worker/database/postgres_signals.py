"""The way of what need not last to the other hosts: a session and a thread of its own, opened when it is first needed.

Apart from the writer: it neither waits for a commit to be synced nor makes anybody wait. What cannot be told is not
tried again here. What is told, and when: agents/host_signals.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from agent_worker.core.errors import StorageFault
from agent_worker.database.database import WholeTransaction
from agent_worker.database.postgres_session import SIGNAL, PostgresTransaction, connect
from agent_worker.database.transaction import Redact


class PostgresSignals:
    def __init__(self, url: str, redact: Redact) -> None:
        self._url = url
        self._redact = redact
        self._transaction: PostgresTransaction | None = None
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="signals")

    async def tell(self, change: Callable[[WholeTransaction], None]) -> None:
        """Store it, soon rather than surely. Raises StorageFault."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._tell, change)

    async def close(self) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.shutdown)
        self._drop()

    def _tell(self, change: Callable[[WholeTransaction], None]) -> None:
        try:
            if self._transaction is None:
                self._transaction = PostgresTransaction(
                    connect(self._url), self._redact, settings=SIGNAL, ending=self._ending
                )
            self._transaction.begin_change()
            self._transaction.begin_signal()
            change(self._transaction)
            self._transaction.commit()
        except BaseException as error:
            self._drop()
            if not isinstance(error, psycopg.Error):
                raise
            told = " ".join(str(error).split())
            raise StorageFault(f"the other hosts cannot be told: {told}", hint="agent-worker doctor") from None

    def _drop(self) -> None:
        if self._transaction:
            self._transaction.connection.close()
            self._transaction = None
