"""Whether the files that a database is open with are still there, still ours, and as far on as we left them.

SQLite writes on into files that somebody has removed, moved or replaced, and everything accepted from then on is gone
with the process. It does not see either that another program has written over them (`Presence`, asked around each
commit, before anybody is answered). Nor does it notice at the next start that a log was lost or exchanged: without its
log a database is simply an older one, and any log fits any database. So each commit is counted in the database and in
a file beside it (`CommitMarker`), which is written after the commit and not synced: it is never ahead of what is on
the disk. Both cost microseconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from agent_worker.core.errors import StorageFault
from agent_worker.core.text import plural

SUFFIXES = ("", "-wal", "-shm")


class Presence:
    """Notices when the files of an open database are taken away or exchanged. Made once it is open: then all three are
    there."""

    def __init__(self, database: Path) -> None:
        self._paths = [f"{database}{suffix}" for suffix in SUFFIXES]
        self._opened = [_identity(_status(path)) for path in self._paths]
        self.wrote_file()
        self.wrote_log()

    def wrote_file(self) -> None:
        """Note that we wrote the file ourselves: as it is now, it is right."""
        self._file = _content(_status(self._paths[0]))

    def wrote_log(self) -> None:
        self._log = _size(_status(self._paths[1]))

    def after_commit(self) -> str:
        """As `gone`, and note the log as we wrote it: as it is now, it is right."""
        files = [_status(path) for path in self._paths]
        self._log = _size(files[1])
        return self._gone(files)

    def before_commit(self) -> tuple[str, str]:
        """The first file that is gone, and the first that somebody else has written into, in one look; '' for none."""
        files = [_status(path) for path in self._paths]
        return self._gone(files), self._overwritten(files)

    def gone(self) -> str:
        """The first that is not there any more, or is another file; '' when all is well."""
        return self._gone([_status(path) for path in self._paths])

    def _gone(self, files: Sequence[os.stat_result | None]) -> str:
        for path, opened, file in zip(self._paths, self._opened, files, strict=True):
            if _identity(file) != opened:
                return path
        return ""

    def _overwritten(self, files: Sequence[os.stat_result | None]) -> str:
        if _content(files[0]) != self._file:
            return self._paths[0]
        log = files[1]
        return self._paths[1] if log and log.st_size < self._log else ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None


def _size(status: os.stat_result | None) -> int:
    return status.st_size if status else 0


def _identity(status: os.stat_result | None) -> tuple[int, int] | None:
    return (status.st_dev, status.st_ino) if status else None


def _content(status: os.stat_result | None) -> tuple[int, int] | None:
    return (status.st_size, status.st_mtime_ns) if status else None


SUFFIX = ".mark"
FIX = "agent-worker doctor --fix"
_SIZE = 64
_SALT_AT, _HEAD = 16, 32  # of a log: where its salt is, and how long its head is
_RESETS = 1000  # each adds one to the salt; a foreign log is off by any number


class CommitMarker:
    """The high-water file of one database. Only the thread that writes uses it."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + SUFFIX)
        self._log_path = database.with_name(f"{database.name}-wal")
        self.commits, self._salt, self.is_bad = _read(self._path)
        self._file: int | None = None
        self._log: int | None = None

    def check(self) -> None:
        """Whether it was left by a process that found its files taken away. Raises StorageFault."""
        if self.is_bad:
            raise StorageFault("the files of the database were removed or replaced while it was in use", hint=FIX)

    def check_log(self) -> None:
        """Check the log before the database is opened, which would take it for its own. Raises StorageFault."""
        found = _salt_in(self._log_path)
        if found is not None and not self._fits(found):
            raise StorageFault(f"{self._log_path} is the log of another database, or of another time", hint=FIX)

    def log_was_exchanged(self) -> bool:
        """Whether the open log does not begin any more as it did."""
        if self._log is None or self._salt is None:
            return False
        found = _salt_of(os.pread(self._log, _HEAD, 0))
        return found is None or not self._fits(found)

    def _fits(self, salt: int) -> bool:
        return self._salt is None or (salt - self._salt) % 2**32 <= _RESETS

    def missing(self, commits: int) -> int:
        """How many commits are missing from a database that has so many."""
        return max(0, self.commits - commits)

    def check_end(self, commits: int) -> None:
        """Check the database that was opened, which has so many commits. Raises StorageFault."""
        if lost := self.missing(commits):
            told = f"{counted(lost)} missing: the database ends at commit {commits:,}, but commit {self.commits:,}"
            raise StorageFault(f"{told} had been stored; its log was lost or cut, or it is an older copy", hint=FIX)

    def open(self, commits: int) -> None:
        """Begin to write the marker of a database that has so many. Which log there will be is not known yet."""
        self.commits = commits  # the note may be gone, or one behind: what it lags would not be missed
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._salt = None
        self._write()

    def note(self, commits: int) -> None:
        """Note commits that are on the disk."""
        self.commits = commits
        with suppress(OSError):
            if self._log is None:
                self._log = os.open(self._log_path, os.O_RDONLY | os.O_CLOEXEC)
            self._salt = _salt_of(os.pread(self._log, _HEAD, 0))
        self._write()

    def forget_log(self) -> None:
        """Forget the log, which begins anew: which one there will be is not known yet."""
        self._salt = None
        self._write()

    def spoil(self) -> None:
        """Note that the files were taken or written over: whatever is there at the next start cannot be trusted."""
        self.is_bad = True
        self._write()

    def close(self) -> None:
        for file in (self._file, self._log):
            if file is not None:
                os.close(file)

    def _write(self) -> None:
        assert self._file is not None
        salt = "null" if self._salt is None else self._salt
        bad = ', "bad": 1' if self.is_bad else ""
        text = f'{{"commits": {self.commits}, "salt": {salt}{bad}}}'.ljust(
            _SIZE - 1
        )  # at each commit: no encoder for it
        with suppress(OSError):  # without it we only notice less
            os.pwrite(self._file, f"{text}\n".encode(), 0)


def counted(commits: int) -> str:
    return f"{plural(commits, 'commit')} {'is' if commits == 1 else 'are'}"


def commits_in(connection: apsw.Connection) -> int:
    """How many commits a database has; 0 when it has no tables."""
    if not connection.execute("select 1 from sqlite_schema where name = 'progress'").get:
        return 0
    return int(connection.execute("select commits from progress").get or 0)


def count_commit(connection: apsw.Connection) -> None:
    """Count a commit, as part of it."""
    connection.execute("update progress set commits = commits + 1")


def never_before(connection: apsw.Connection, commits: int) -> None:
    """Let a database that takes another's place continue its count of commits: so an older copy of
    either is noticed.
    """
    connection.execute("update progress set commits = max(commits, ?)", (commits,))


def _read(path: Path) -> tuple[int, int | None, bool]:
    """What was noted last; nothing when that cannot be read."""
    with suppress(OSError, ValueError):
        match json.loads(path.read_bytes()[:_SIZE]):
            case {"commits": int(commits), "salt": int() | None as salt, **rest}:
                return commits, salt, "bad" in rest
    return 0, None, False


def _salt_in(log: Path) -> int | None:
    with suppress(OSError), log.open("rb") as file:
        return _salt_of(file.read(_HEAD))
    return None


def _salt_of(head: bytes) -> int | None:
    return int.from_bytes(head[_SALT_AT : _SALT_AT + 4], "big") if len(head) == _HEAD else None
