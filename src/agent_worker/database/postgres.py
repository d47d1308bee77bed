"""PostgreSQL behind the door: what several daemons share, one setting away (`AGENT_WORKER_DATABASE_URL`).

One writer thread commits in groups, as with SQLite. A group first locks the rows of the projects it is about, in one
order everywhere: so each project's changes happen one after another, whoever makes them, and no transaction function
need know of rivals. When the connection is lost in the middle, the group is made again; when it is lost in the commit,
PostgreSQL is asked what became of it first (last_commit.py). A server that is away is waited for, and what could not be
stored for too long is refused with NotNow, as with a full disk.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import psycopg

from agent_worker.core.errors import NotStored, Refused, StorageFault, Unreachable
from agent_worker.core.events import Bus, Event
from agent_worker.core.failpoints import failpoint
from agent_worker.core.ids import new_id
from agent_worker.database import event_rows, last_commit
from agent_worker.database.backup import DUMP
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.database.postgres_faults import (
    PATIENCE,
    PAUSES,
    Reachability,
    fault_of,
    is_passing,
    not_stored,
    pauses,
    said,
)
from agent_worker.database.postgres_feed import AT_ONCE, EventFeed
from agent_worker.database.postgres_readers import PostgresReaders
from agent_worker.database.postgres_session import WRITE, PostgresTransaction, connect, place_of, prepare
from agent_worker.database.transaction import Redact
from agent_worker.database.write_queue import Job, WriteQueue, fail, settle

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
Jobs = list[Job[PostgresTransaction]]

GROUP = 64  # changes in one commit; the others of the project wait for all of them
EVENTS_KEPT = 100_000  # how far back a stream can go on
EVENTS_OVER = 1000  # and how many more there may be until the oldest go
_EVENT = ("id", "project", "workspace", "seq", "record", "at")  # the columns of an event, as in a record
_LOCK = "select 1 from project where id = any(:listed) order by id for update"


class PostgresProject(ProjectDatabase):
    """What PostgreSQL holds of one project: its changes lock the project and nothing else."""

    def __init__(self, database: PostgresDatabase, project: str) -> None:
        super().__init__(database, project)
        self._postgres = database

    async def read(self, query: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._postgres._look(query, lambda tx: query(tx.of(self.project), *args, **kwargs))

    def write(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return self._postgres._enqueue(lambda tx: change(tx.of(self.project), *args, **kwargs), self.project)

    def write_soon(
        self, change: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        return self._postgres._enqueue_soon(lambda tx: change(tx.of(self.project), *args, **kwargs), self.project)


class PostgresDatabase(WriteQueue[PostgresTransaction]):
    """A database on a PostgreSQL server: `await PostgresDatabase.open(url, bus)`."""

    def __init__(self, url: str, bus: Bus, *, redact: Redact = str, here: str = "", patience: float = PATIENCE) -> None:
        super().__init__(bus)
        self.here = here
        self._url = url
        self.redact = redact
        self.place = place_of(url)  #: as people may read it
        self._reach = Reachability(self.place, patience)
        self._writer: PostgresTransaction | None = None
        self._id = new_id("w")  # by which our commits are known
        self._tried = 0  # number of the transaction that is under way, or was the last
        self._unsure = False  # whether that was committed: it can be asked
        self._last = 0  # number of the last event of ours
        self._feed = EventFeed()
        self._forgot = 0  # and what that was when the oldest went
        self._readers = PostgresReaders(url, self._reach, here)

    @classmethod
    async def open(
        cls, url: str, bus: Bus, *, redact: Redact = str, here: str = "", patience: float = PATIENCE
    ) -> PostgresDatabase:
        """Raises StorageFault when the server cannot be reached, or the database is not fit for us."""
        database = cls(url, bus, redact=redact, here=here, patience=patience)
        ready: asyncio.Future[None] = database._loop.create_future()
        database._thread = threading.Thread(target=database._write_for_life, args=(ready,), name="writer", daemon=True)
        database._thread.start()
        try:
            await ready
        except asyncio.CancelledError:
            database._close_later()
            raise
        return database

    @property
    def trouble(self) -> str:
        """Why the server cannot be reached just now."""
        return self._reach.trouble

    def of(self, project: str) -> ProjectDatabase:
        return PostgresProject(self, project)

    async def read(
        self, query: Callable[Concatenate[PostgresTransaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await self._look(query, lambda transaction: query(transaction, *args, **kwargs))

    async def _look(self, known_by: Callable[..., object], query: Callable[[PostgresTransaction], T]) -> T:
        self._check_open()
        return await self._readers.look(known_by, query)

    def _close_readers(self) -> None:
        self._readers.close()

    async def back_up(self, target: Path, files: Mapping[str, bytes] | None = None) -> None:
        raise Refused(f"the daemon's state is at {self.place}, which makes its own backups", hint=DUMP)

    async def shed(self) -> None:
        """Nothing to do: PostgreSQL clears away by itself what was deleted."""

    async def check(self) -> None:
        """Nothing to do: PostgreSQL looks after its own pages."""

    def _hurry(self) -> None:
        self._reach.ending.set()  # then no server is waited for

    # --- the writer thread ---------------------------------------------------------------------------------

    def _write_for_life(self, ready: asyncio.Future[None]) -> None:
        try:
            self._open_writer()
            self._bus.last = self._feed.told = self._newest()
            self._forget(last_commit.FORGET_OLD)
        except psycopg.Error as error:
            told = f"the database at {self.place} cannot be used: {said(error)}"
            return self._tell(settle, ready, StorageFault(told, hint="agent-worker doctor"))
        except BaseException as error:
            return self._tell(settle, ready, error)
        self._tell(settle, ready, None)
        while (group := self._jobs.get()) is not None:
            self._take_more(group, GROUP)
            if group:
                self._commit(group)
            for event in self._told_by_others(group):
                self._tell(self._bus.publish, event)
            self._tell(self._answer, group)
        self._forget(last_commit.FORGET, writer=self._id)
        self._drop_writer()

    # --- what other hosts tell -----------------------------------------------------------------------------

    def hint(self, number: int) -> None:
        """Events go as far as this, says somebody: what was not heard of is read, after what is being written."""
        if self._feed.hint(number):
            self._jobs.put([])

    def _told_by_others(self, group: Jobs) -> Iterator[Event]:
        """What happened elsewhere before this group, or by now: so all events are published in the order of commits."""
        if self._reach.ending.is_set():
            return iter(())  # nobody waits for it any more
        own = [event.number for job in group if job.error is None for event in job.told if event.number]
        return self._feed.missing(own, self._rows_told)

    def _rows_told(self, after: int, before: int) -> list[Row] | None:
        """None: the server cannot be reached."""
        began = time.monotonic()
        for pause in pauses():
            try:
                if self._writer is None:
                    self._open_writer()
                assert self._writer is not None
                values = {"after": after, "before": before, "most": AT_ONCE}
                return self._writer.rows(event_rows.TOLD_BY_OTHERS, values)
            except psycopg.Error as error:
                self._drop_writer()
                try:
                    self._reach.wait_or_refuse(error, pause, began)
                except Unreachable:  # the next beat that succeeds looks again
                    return None
        raise AssertionError  # pauses have no end

    def _newest(self) -> int:
        assert self._writer is not None
        (row,) = self._writer.rows(event_rows.LAST_NUMBER, {})
        return int(row["numbered"])

    def _open_writer(self) -> None:
        connection = connect(self._url)
        try:
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._writer = PostgresTransaction(
            connection, self.redact, self.here, settings=WRITE, ending=self._reach.ending
        )

    def _forget(self, sql: str, **values: object) -> None:
        """What nobody misses if it stays."""
        if self._writer:
            try:
                self._writer.counted(sql, values)
            except psycopg.Error as error:
                self._drop_writer()
                log.warning("%s could not be cleaned up: %s", self.place, said(error))

    def _drop_writer(self) -> None:
        if self._writer:
            self._writer.connection.close()
            self._writer = None

    def _commit(self, group: Jobs) -> None:
        """Store a group, however often the server has to be reached anew for it."""
        began, self._unsure = time.monotonic(), False  # what became of another group says nothing of this one
        unforeseen: NotStored | None = None
        for pause in pauses():
            try:
                if self._unsure and self._was_committed():
                    break
                if unforeseen:
                    return fail(group, unforeseen)
                self._attempt(group)
                break
            except psycopg.Error as error:
                self._drop_writer()
                if not is_passing(error):
                    return fail(group, fault_of(error))
                if fault := self._gives_up(error, pause, began):
                    return fail(group, fault)
            except Exception as error:  # boundary: whatever it was, nobody may wait for an answer for ever
                log.exception("PostgreSQL did not store a change")
                self._drop_writer()
                unforeseen = not_stored(error)
                if not self._unsure:
                    return fail(group, unforeseen)
                if fault := self._gives_up(error, pause, began):
                    return fail(group, fault)
        self._reach.trouble, self._unsure = "", False
        self._forget_events()

    def _gives_up(self, error: Exception, pause: float, began: float) -> StorageFault | None:
        """Why to stop waiting for the server; None to go on. A change that may be stored is waited for: only the server
        knows."""
        try:
            self._reach.wait_or_refuse(error, pause, began)
        except Unreachable as fault:
            if not self._unsure:
                return fault
            if self._reach.ending.is_set():
                self._unsure = False
                return StorageFault("the daemon ended before PostgreSQL said whether the last change was stored")
            self._reach.ending.wait(PAUSES[-1])
        return None

    def _attempt(self, group: Jobs) -> None:
        if self._writer is None:
            self._open_writer()
        transaction = self._writer
        assert transaction is not None
        for job in group:
            job.error = None
        if not self._made_together(transaction, group):
            transaction.roll_back()
            self._make_apart(transaction, group)
        failpoint("commit.after")

    def _begin(self, transaction: PostgresTransaction, group: Jobs) -> None:
        """The transaction says how it is known, and has the projects of the group to itself."""
        self._tried += 1
        projects = {job.project for job in group}
        if None in projects:  # one of the changes does not say which it is about
            return transaction.begin_write(self._id, self._tried, "select 1 from project order by id for update")
        listed = ", ".join(f'"{each}"' for each in sorted(map(str, projects)))
        transaction.begin_write(self._id, self._tried, _LOCK, listed=f"{{{listed}}}")

    def _made_together(self, transaction: PostgresTransaction, group: Jobs) -> bool:
        """Most changes succeed, so they need no savepoint. False: one did not, and nothing of this was stored."""
        self._begin(transaction, group)
        try:
            for job in group:
                self._perform(transaction, job)
            first = self._take_numbers(transaction, group)
        except BaseException as error:
            if isinstance(error, psycopg.Error) and is_passing(error):
                raise
            return False
        try:
            self._end(transaction, group, first)
        except psycopg.Error as error:
            if is_passing(error):
                raise
            self._unsure = False  # the server has said no: to a statement that nobody had waited for
            return False
        return True

    def _make_apart(self, transaction: PostgresTransaction, group: Jobs) -> None:
        """Make each change in a savepoint of its own: one that fails, fails alone."""
        self._begin(transaction, group)
        for job in group:
            transaction.save()
            try:
                self._perform(transaction, job)
                transaction.settle()
            except BaseException as error:
                if isinstance(error, psycopg.Error) and is_passing(error):
                    raise
                job.error = error
                transaction.go_back()
            transaction.release()
        self._end(transaction, group, self._take_numbers(transaction, group))

    def _perform(self, transaction: PostgresTransaction, job: Job[PostgresTransaction]) -> None:
        transaction.begin_change()
        job.result = job.change(transaction)
        job.told = tuple(event.redacted(transaction.redact) for event in transaction.told)
        at = time.time_ns() // 1000
        job.records = [event_rows.as_row(event, at=at) for event in job.told if event.kept]

    def _take_numbers(self, transaction: PostgresTransaction, group: Jobs) -> int:
        """At the end of the transaction, so that numbers grow with the commits: that of our first event, or 0."""
        count = sum(len(job.records) for job in group if job.error is None)
        if not count:
            return 0
        (row,) = transaction.all(event_rows.TAKE_NUMBERS, n=count)
        return int(row["numbered"]) - count + 1

    def _end(self, transaction: PostgresTransaction, group: Jobs, first: int) -> None:
        """One trip: the events, with their numbers, and the commit."""
        transaction.begun()
        records = [record[1:] for job in group if job.error is None for record in job.records]
        for number, record in enumerate(records, first):
            transaction.run(event_rows.STORE_NUMBERED, **dict(zip(_EVENT, (number, *record), strict=True)))
        if records:
            # Before the answer: if that is lost and the commit was made, they are known.
            self._number(group, first)
            transaction.run(event_rows.NOTIFY, last=str(self._last))
        failpoint("commit.before")
        self._unsure = True
        transaction.commit()

    def _number(self, group: Jobs, first: int) -> None:
        kept = (event for job in group if job.error is None for event in job.told if event.kept)
        for number, event in enumerate(kept, first):
            object.__setattr__(event, "number", number)  # nobody else has seen it yet
            self._last = number

    def _forget_events(self) -> None:
        if self._last - self._forgot >= EVENTS_OVER:
            self._forgot = self._last
            self._forget(event_rows.DROP_NUMBERED, last=self._last - EVENTS_KEPT)

    def _was_committed(self) -> bool:
        """The connection broke in the commit: PostgreSQL knows whether it was made, and by then has ended it."""
        if self._writer is None:
            self._open_writer()
        assert self._writer is not None
        (row,) = self._writer.rows(last_commit.ASK, {"writer": self._id})
        made = bool(row["number"] == self._tried)
        log.warning("the connection was lost in a commit, which was %s", "made" if made else "not made")
        self._unsure = False
        return made
