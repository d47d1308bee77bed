"""SQLite behind the door: one writer thread that commits in groups, readers apart.

Everything queued while the last commit was syncing becomes one transaction; if one change of a group fails they are
made again with a savepoint each, so a bad change hurts only itself. A future is resolved after COMMIT with full
sync: answered means on disk. A full disk refuses the group and goes on; any other I/O error closes the door until a
restart, because a second sync may report success for data that is gone. So does a file that was removed or replaced
while it is open. The log is brought into the file as soon as nobody writes: so there is little to lose with it.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import apsw

from agent_worker.core.errors import DiskFull, Locked, NotRunning, Refused, StorageFault
from agent_worker.core.events import Bus, Event, WorkspaceChanged
from agent_worker.core.failpoints import failpoint
from agent_worker.database import event_rows
from agent_worker.database.backup import copy
from agent_worker.database.database import ProjectDatabase
from agent_worker.database.migrations import migrate
from agent_worker.database.presence import FIX, CommitMarker, Presence, commits_in, count_commit
from agent_worker.database.restore import SAVED, check_not_taken_away
from agent_worker.database.transaction import Redact, SqliteTransaction
from agent_worker.database.write_queue import Job, WriteQueue, fail, settle

P = ParamSpec("P")
T = TypeVar("T")

GROUP = 256  # changes in one commit; past that the first ones would wait too long
READERS = 4
BUSY = 5000  # milliseconds that we wait for another program that writes
READER_TIME = 1000  # milliseconds that everybody waits for a reader of ours when the log is to begin anew
_DAMAGE = (apsw.CorruptError, apsw.NotADBError)
_DISK = (apsw.FullError, apsw.IOError, *_DAMAGE)  # the disk's own word
EVENTS_KEPT = 100_000  # how far back a stream can go on
EVENTS_OVER = 1000  # and how many more there may be until the oldest go
LOG_PAGES = 1000  # in the log, after which it is brought into the file though nobody rests
CALM = 0.2  # seconds without a write after which the log is brought into the file
WAL_KEPT = 16 * 1024 * 1024  # bytes of the log that stay when it begins anew; a long reader had made it longer


def connect(path: str, *, write: bool, vfs: str | None = None) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX
    if write:  # a reader that finds no file must not begin a new one
        flags |= apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(path, flags=flags, vfs=vfs, statementcachesize=300)
    connection.set_busy_timeout(BUSY)
    # Else it looks at each value that is bound before it chooses a plan, and compiles such a statement every time.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    if write:
        # One by one: apsw stops at the first statement that gives a row, and journal_mode does.
        connection.pragma("journal_mode", "wal")
        connection.pragma("journal_size_limit", WAL_KEPT)
        connection.pragma("synchronous", "full")
        connection.pragma("foreign_keys", True)
        connection.pragma("secure_delete", True)  # what was deleted is not left between the rows
    else:
        connection.pragma("query_only", True)
    return connection


class SqliteDatabase(WriteQueue[SqliteTransaction]):
    """A database in one SQLite file: `await SqliteDatabase.open(path, bus)`; the path `:memory:` keeps nothing."""

    here = ""  #: nobody else is anywhere

    def __init__(self, path: Path | str, bus: Bus, *, vfs: str | None = None, redact: Redact = str) -> None:
        super().__init__(bus)
        self._path = self.place = str(path)
        self.trouble = ""
        self.redact = redact
        self._vfs = vfs
        self._fault: StorageFault | None = None
        self._events = 0  # number of the last one; only the writer thread touches it
        self._forgot = 0  # and what that was when the oldest went
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._local = threading.local()
        self._reading: list[apsw.Connection] = []
        self._working: set[apsw.Connection] = set()  # at something that takes long
        self._mark = CommitMarker(Path(path)) if self._path != ":memory:" and vfs is None else None
        self._presence: Presence | None = None
        self._log_pages = 0  # that are in the log
        self._behind = False  # the file lacks some of them
        self._shedding = False  # after the next commit the log is to begin anew

    @classmethod
    async def open(cls, path: Path | str, bus: Bus, *, vfs: str | None = None, redact: Redact = str) -> SqliteDatabase:
        database = cls(path, bus, vfs=vfs, redact=redact)
        ready: asyncio.Future[None] = database._loop.create_future()
        thread = threading.Thread(target=database._write_for_life, args=(ready,), name="writer", daemon=True)
        database._thread = thread
        thread.start()
        try:
            await ready
        except asyncio.CancelledError:
            database._close_later()
            thread.join()  # some milliseconds: whoever opens it next must not meet a writer that is still ending
            raise
        return database

    def of(self, project: str) -> ProjectDatabase:
        return ProjectDatabase(self, project)

    async def read(self, query: Callable[Concatenate[SqliteTransaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._path == ":memory:":  # only the writer's connection can see it
            return await self._enqueue(lambda transaction: query(transaction, *args, **kwargs))
        self._check_open()
        return await self._loop.run_in_executor(
            self._readers, lambda: self._query(lambda transaction: query(transaction, *args, **kwargs))
        )

    async def back_up(self, target: Path, files: Mapping[str, bytes] | None = None) -> None:
        if self._path == ":memory:":
            raise Refused("this database is kept in memory: there is nothing to back up", hint="use the daemon")
        await asyncio.to_thread(self._apart, lambda connection: copy(connection, target, files))

    async def shed(self) -> None:
        if self._path != ":memory:":
            await self._enqueue(lambda _: setattr(self, "_shedding", True))

    async def check(self) -> None:
        if self._path != ":memory:":
            await asyncio.to_thread(self._apart, _quick_check)

    def _close_readers(self) -> None:
        self._readers.shutdown()
        for connection in self._reading:
            connection.close()

    def _hurry(self) -> None:
        for connection in tuple(self._working):
            connection.interrupt()

    def _query(self, query: Callable[[SqliteTransaction], T]) -> T:
        try:
            transaction: SqliteTransaction | None = getattr(self._local, "transaction", None)
            if transaction is None:
                self._check_presence()
                connection = connect(self._path, write=False, vfs=self._vfs)
                self._reading.append(connection)
                transaction = self._local.transaction = SqliteTransaction(connection)
            transaction.begin_change()
            transaction.connection.execute("begin")
            try:
                return query(transaction)
            finally:
                if not transaction.connection.get_autocommit():  # a broken disk has ended it already
                    transaction.connection.execute("rollback")
        except apsw.CantOpenError as error:  # of a reader that is the first on its thread
            told = "the database cannot be opened just now: too many files may be open"
            raise Locked(told, hint="try again in a moment") from error
        except _DISK as error:
            raise self._judge(error) from error

    def _check_presence(self) -> None:
        """Look, before it is opened once more, whether the file is still ours: it may be another by now, or gone."""
        if self._presence and (gone := self._presence.gone()):
            raise self._fault or StorageFault(_taken_away(gone), hint=f"agent-worker stop --all, then {FIX}")

    def _apart(self, work: Callable[[apsw.Connection], None]) -> None:
        """Do something that takes long on a connection of its own; closing the database interrupts it."""
        self._check_presence()
        connection = apsw.Connection(self._path, flags=apsw.SQLITE_OPEN_READONLY, vfs=self._vfs)
        self._working.add(connection)
        try:
            if self._closed:
                raise apsw.InterruptError("closed")
            work(connection)
        except apsw.InterruptError:
            raise NotRunning("the daemon is stopping: this was not finished") from None
        except _DAMAGE as error:
            raise self._judge(error) from error
        except (apsw.FullError, apsw.IOError, OSError) as error:  # of what is written elsewhere, as far as we know
            raise DiskFull(f"the copy cannot be written: {error}", hint="free some space and try again") from error
        finally:
            self._working.discard(connection)
            connection.close()

    # --- the writer thread ---------------------------------------------------------------------------

    def _write_for_life(self, ready: asyncio.Future[None]) -> None:
        try:
            connection = self._open_writer()
        except BaseException as error:
            return self._tell(settle, ready, error)
        self._bus.last = self._events
        self._tell(settle, ready, None)
        transaction = SqliteTransaction(connection, self.redact)
        while (group := self._next_jobs(connection)) is not None:
            self._take_more(group, GROUP)
            self._commit(transaction, group)
            self._tell(self._answer, group)
        connection.close()
        if self._mark:
            self._mark.close()

    def _next_jobs(self, connection: apsw.Connection) -> list[Job[SqliteTransaction]] | None:
        """The next changes to make; whenever none comes for a while, the log is brought into the file."""
        while True:
            try:
                return self._jobs.get(timeout=CALM if self._behind else None)
            except queue.Empty:
                self._fold_in(connection)

    def _fold_in(self, connection: apsw.Connection) -> None:
        """Move into the file as much of the log as nobody still reads. What the disk refuses now stays in the log."""
        self._behind = False
        if self._mark and self._fault is None:
            try:
                in_log, folded = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._behind = folded < in_log
            except (apsw.FullError, apsw.BusyError):
                self._behind = True
            except apsw.Error as error:
                self._judge(error)
            finally:
                if self._presence:
                    self._presence.wrote_file()  # a full disk has taken some of it too

    def _open_writer(self) -> apsw.Connection:
        if self._mark:
            check_not_taken_away(Path(self._path))
            self._mark.check()
            self._mark.check_log()
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        try:
            connection = connect(self._path, write=True, vfs=self._vfs)
            try:
                self._begin(connection)
            except BaseException:
                connection.close()
                raise
        except _DAMAGE as error:
            raise self._judge(error) from error
        return connection

    def _begin(self, connection: apsw.Connection) -> None:
        migrate(connection, None if self._path == ":memory:" else Path(self._path))
        self._events = connection.execute("select coalesce(max(id), 0) from event").get
        if self._mark:
            self._mark.check_end(commits := commits_in(connection))
            self._mark.open(commits)
            connection.set_wal_hook(self._hear_log)  # instead of checkpoints that SQLite makes by itself
        self._forget_events(connection)
        self._fold_in(connection)
        if self._mark:
            self._presence = Presence(Path(self._path))

    def _hear_log(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _forget_events(self, connection: apsw.Connection) -> None:
        connection.execute(event_rows.DROP_UP_TO, (self._events - EVENTS_KEPT,))
        self._forgot = self._events

    def _commit(self, transaction: SqliteTransaction, group: list[Job[SqliteTransaction]]) -> None:
        connection = transaction.connection
        self._look_for_strangers()
        if self._fault is not None:
            return fail(group, self._fault)
        try:
            if not self._try_together(transaction, group):
                connection.execute("rollback")
                self._try_apart(transaction, group)
            _store_events(connection, group)
            if self._events - self._forgot >= EVENTS_OVER:
                self._forget_events(connection)
            if self._mark:
                count_commit(connection)
            failpoint("commit.before")
            connection.execute("commit")
            failpoint("commit.after")
            self._note(connection, group)
        except Exception as error:  # boundary: whatever it was, nobody may wait for an answer for ever
            fail(group, self._judge(error))
            if not connection.get_autocommit():
                connection.execute("rollback")

    def _look_for_strangers(self) -> None:
        """Refuse to go on with a file that another program has written into: it cannot be saved either, as half of it
        is theirs.
        """
        if self._fault or self._mark is None or self._presence is None:
            return
        gone, overwritten = self._presence.before_commit()
        if gone:
            return  # it is noticed after the commit, which can be saved
        path = overwritten or (self._mark.log_was_exchanged() and f"{self._path}-wal")
        if path:
            self._mark.spoil()
            told = f"{path} was written over while it was in use: nothing is accepted any more"
            self._fault = StorageFault(told, hint=f"agent-worker stop --all, then {FIX}")

    def _note(self, connection: apsw.Connection, group: list[Job[SqliteTransaction]]) -> None:
        """Note a group that is committed and whose callers have not been answered yet."""
        if self._mark is None or self._presence is None:
            return
        if gone := self._presence.after_commit():
            self._mark.spoil()
            self._fault = self._saved(connection, gone)
            return fail(group, self._fault)
        self._mark.note(self._mark.commits + 1)
        self._behind = True
        opened = any(isinstance(event, WorkspaceChanged) for job in group if job.error is None for event in job.told)
        if opened or self._log_pages >= LOG_PAGES:  # where a workspace has its files is needed if the log is lost
            self._fold_in(connection)
        if self._shedding:
            self._begin_log_anew(connection)

    def _begin_log_anew(self, connection: apsw.Connection) -> None:
        """Write the log over from its beginning: otherwise it still has what was deleted."""
        self._shedding = False
        connection.set_busy_timeout(READER_TIME)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.FullError):
            pass  # somebody reads all the time, or there is no room: the log begins anew by itself
        except apsw.Error as error:
            self._judge(error)
        finally:
            connection.set_busy_timeout(BUSY)
            if self._mark and self._presence:
                self._mark.forget_log()
                self._presence.wrote_file()
                self._presence.wrote_log()

    def _saved(self, connection: apsw.Connection, gone: str) -> StorageFault:
        """Save the database, all of which is still open here, before it goes with us."""
        saved = Path(f"{self._path}{SAVED}{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        told = _taken_away(gone)
        try:
            copy(connection, saved)
            told = f"{told}; all that was stored is saved in {saved}"
        except (apsw.Error, OSError) as error:
            told = f"{told}, and what was stored could not be saved: {error}"
        return StorageFault(told, hint=f"agent-worker stop --all, then {FIX}")

    def _try_together(self, transaction: SqliteTransaction, group: list[Job[SqliteTransaction]]) -> bool:
        """Most changes succeed, so they need no savepoint. False: one did not, and nothing of this counts."""
        transaction.connection.execute("begin immediate")
        try:
            for job in group:
                self._make(transaction, job)
        except _DISK:
            raise  # it concerns the whole group
        except BaseException:
            return False
        return True

    def _try_apart(self, transaction: SqliteTransaction, group: list[Job[SqliteTransaction]]) -> None:
        """Make each change in a savepoint of its own: one that fails, fails alone."""
        connection = transaction.connection
        connection.execute("begin immediate")
        for job in group:
            connection.execute("savepoint change")
            try:
                self._make(transaction, job)
            except _DISK:
                raise
            except BaseException as error:
                job.error = error
                connection.execute("rollback to change")
            connection.execute("release change")

    def _make(self, transaction: SqliteTransaction, job: Job[SqliteTransaction]) -> None:
        transaction.begin_change()
        job.result = job.change(transaction)
        told = [event.redacted(transaction.redact) for event in transaction.told]
        for event in told:
            if event.kept:
                self._events += 1  # a change or a commit that fails leaves a gap
                object.__setattr__(event, "number", self._events)  # nobody else has seen it yet
        job.told = tuple(told)
        job.records = [_as_row(event) for event in told if event.kept]

    def _judge(self, error: Exception) -> StorageFault:
        if isinstance(error, apsw.FullError):
            return DiskFull("the disk is full: nothing was stored", hint="free some space and try again")
        if isinstance(error, apsw.BusyError):
            return Locked(
                "another program holds the database: nothing was stored",
                hint=f"close whatever has {self._path} open, and try again",
            )
        if isinstance(error, _DAMAGE):
            self._fault = StorageFault(f"the database is damaged: {error}", hint=f"agent-worker stop --all, then {FIX}")
            return self._fault
        self._fault = StorageFault(
            f"the database cannot be written any more: {error}",
            hint="check the disk, then restart: agent-worker doctor",
        )
        return self._fault


def _taken_away(gone: str) -> str:
    return f"{gone} was removed or replaced while it was in use: nothing is accepted any more"


def _quick_check(connection: apsw.Connection) -> None:
    found = connection.execute("pragma quick_check(1)").get
    if found != "ok":
        raise apsw.CorruptError(str(found))


def _as_row(event: Event) -> tuple[object, ...]:
    return event_rows.as_row(event, at=time.time_ns() // 1000)


def _store_events(connection: apsw.Connection, group: list[Job[SqliteTransaction]]) -> None:
    """Store the events of a group at once, after its changes: they come from every change and go to one table."""
    records = [record for job in group if job.error is None for record in job.records]
    if records:
        connection.executemany(event_rows.STORE, records)
