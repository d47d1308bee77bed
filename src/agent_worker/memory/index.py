"""What an agent can recall, indexed: one SQLite file per agent, or memory when there is no place for one.

The index is derived. The files and logs it was read from are the truth, so an index that is missing,
damaged or of another version is begun anew and read in again; nothing here is worth repairing.
Keeps the tables in step with their sources, alive, and to one thread at a time. Finds nothing itself:
that is recall.py.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from agent_worker.core.later import dataclass
from agent_worker.files.folder import make_directories
from agent_worker.memory.index_tables import PROBE, SCHEMA, IndexChanges, IndexEntry, Tables

T = TypeVar("T")

VERSION = 2  # of the tables, and of what words.py makes of a text
BATCH = 5_000  # entries per transaction, so that a search gets its turn while much is read in

#: What the place of a file can do to us. Any other error is a mistake of ours and must be seen.
BUSY = (apsw.BusyError, apsw.LockedError)
BROKEN = (
    *BUSY,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.FormatError,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    OSError,
)


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A file or log to keep in step with. `read` is called only when the stamp is not the known one."""

    name: str
    read: Callable[[], Iterable[IndexEntry]]
    stamp: str = ""  #: anything that changes when the content does; empty is always read


class IndexClosed(Exception):
    """The index was put away while somebody used it, as what it was made of has changed: look again, in a new one."""

    def __init__(self, index: Index) -> None:
        super().__init__("the index was put away")
        self.index = index


class Index:
    """An index that keeps itself usable, until it is closed: then nothing is read from it any more, nor taken in.

    `sources` lists everything there is to read: with it, an index lost in the middle of a search comes
    back by itself; without it the owner must `sync` again.
    """

    def __init__(self, path: Path | None = None, sources: Callable[[], Iterable[IndexedSource]] = tuple) -> None:
        self.path = path  #: None is memory
        self._sources = sources
        self._lock = threading.RLock()
        self._losses = 0
        self._closed = False
        self._db, self._tables = self._open()

    def refresh(self) -> IndexChanges:
        """Take in whatever changed in the sources this index was made for."""
        return self.sync(self._sources())

    def sync(self, sources: Iterable[IndexedSource], *, under: str = "") -> IndexChanges:
        """Hold exactly these sources, reading those that changed. Names not `under` this are left alone."""
        wanted = list(sources)
        while True:
            losses = self._losses
            changes = self._sync(wanted, under)
            if losses == self._losses:  # else what was known at the beginning is gone
                return changes

    def put(self, name: str, entries: Iterable[IndexEntry], *, stamp: str = "") -> IndexChanges:
        """Let a source hold exactly these entries. Only those that differ from before are indexed."""
        ready = list(entries)
        return self._write(lambda tables: tables.put(name, ready, stamp))

    def append(self, name: str, entries: Iterable[IndexEntry], *, stamp: str = "") -> IndexChanges:
        """Let a source hold these too, behind what it holds. Costs the same however long it is."""
        ready = list(entries)
        return self._write(lambda tables: tables.append(name, ready, stamp))

    def remove(self, name: str) -> IndexChanges:
        return self._write(lambda tables: tables.remove([name]))

    def read(self, question: Callable[[Tables], T]) -> T:
        """Ask the tables something. If they prove damaged they are made anew, and asked again."""
        with self._lock:
            if self._closed:
                raise IndexClosed(self)
            try:
                return question(self._tables)
            except BROKEN as error:
                self._begin_anew(error)
        self.refresh()
        return self.read(question)

    def close(self, last: Callable[[], None] = lambda: None) -> None:
        """Put the index away, sealed, so that damage to it will be noticed; `last`, while nobody else uses it."""
        with self._lock:
            if self._closed:
                return
            last()
            self._closed = True
            self._db.close()
            if self.path is not None:
                with suppress(OSError), open(_seal(self.path), "w", opener=private) as seal:
                    seal.write(_checksum(self.path))

    def _write(self, change: Callable[[Tables], T]) -> T:
        return self.read(lambda tables: tables.in_transaction(change))

    def _sync(self, wanted: Sequence[IndexedSource], under: str) -> IndexChanges:
        known = self.read(Tables.stamps)
        gone = {name for name in known if name.startswith(under)}
        changes, batch, size = IndexChanges(), list[tuple[IndexedSource, list[IndexEntry]]](), 0
        for source in wanted:
            if source.stamp and known.get(source.name) == source.stamp:
                gone.discard(source.name)
                continue
            try:
                batch.append((source, list(source.read())))
            except OSError:  # it went away after it was listed
                continue
            gone.discard(source.name)
            size += 1 + len(batch[-1][1])
            if size >= BATCH:
                changes += self._put(batch)
                batch, size = [], 0
        return changes + self._put(batch) + self._write(lambda tables: tables.remove(gone))

    def _put(self, batch: Sequence[tuple[IndexedSource, list[IndexEntry]]]) -> IndexChanges:
        def put_all(tables: Tables) -> IndexChanges:
            changes = (tables.put(source.name, entries, source.stamp) for source, entries in batch)
            return sum(changes, IndexChanges())

        return self._write(put_all)

    def _begin_anew(self, error: Exception) -> None:
        self._losses += 1
        with suppress(apsw.Error):
            self._db.close()
        if isinstance(error, BUSY) or self._losses > 1:
            self.path = None  # somebody else has it, or something is wrong with the place
        if self.path is not None:
            _delete(self.path)
        self._db, self._tables = self._open()

    def _open(self) -> tuple[apsw.Connection, Tables]:
        if self.path is not None:
            for attempt in (_open_sound, _open_empty):
                with suppress(*BROKEN, apsw.SQLError, OSError, _Unusable):
                    return attempt(self.path)
        self.path = None
        return _create(":memory:")


class _Unusable(Exception):
    """Raised when there is no index, or not one to go on with."""


def file_stamp(path: Path) -> str:
    """A stamp that costs no reading: replacing, editing and appending to a file all change it."""
    found = path.stat()
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def private(path: str, flags: int) -> int:
    """Opens a file of ours that nobody else may read, and that is no link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _open_sound(path: Path) -> tuple[apsw.Connection, Tables]:
    sealed = _sealed(path)
    connection = _connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        if connection.pragma("user_version") != VERSION:
            raise _Unusable("of another version")
        if not sealed and connection.pragma("quick_check") != "ok":
            raise _Unusable("damaged")
        connection.execute(PROBE)
    except BaseException:
        connection.close()
        raise
    return connection, Tables(connection)


def _open_empty(path: Path) -> tuple[apsw.Connection, Tables]:
    make_directories(path.parent)
    _delete(path)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))  # what SQLite adds is like it
    return _create(str(path))


def _create(filename: str) -> tuple[apsw.Connection, Tables]:
    connection = _connect(filename, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    with connection:
        connection.execute(SCHEMA)
        connection.pragma("application_id", secrets.randbits(31))
        connection.pragma("user_version", VERSION)
    return connection, Tables(connection)


def _connect(filename: str, flags: int) -> apsw.Connection:
    connection = apsw.Connection(filename, flags)
    connection.set_busy_timeout(5_000)
    connection.pragma("trusted_schema", False)  # the file may have come with a repository
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")
    return connection


def _delete(path: Path) -> None:
    for name in (path.name, path.name + "-wal", path.name + "-shm", path.name + ".seal"):
        with suppress(OSError):
            path.with_name(name).unlink(missing_ok=True)


def _sealed(path: Path) -> bool:
    """Whether the index was put away in order and is what it was then. Breaks the seal."""
    if not _seal(path).exists():
        return False  # it was in use when the process ended: SQLite's own checks must do
    if _seal(path).read_text() != _checksum(path):
        raise _Unusable("changed since it was put away")
    _seal(path).unlink()
    return True


def _seal(path: Path) -> Path:
    return path.with_name(path.name + ".seal")


def _checksum(path: Path) -> str:
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            total = zlib.crc32(chunk, total)
    return f"{total:08x}"
