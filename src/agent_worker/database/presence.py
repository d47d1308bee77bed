"""Whether the files that a database is open with are still there, and still ours.

SQLite writes on into files that somebody has removed, moved or replaced, and everything accepted from then on is gone
with the process. It does not see either that another program has written over them. Asked around each commit, before
anybody is answered: a few looks at the disk, microseconds.
"""

from __future__ import annotations

import os
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm")


class Presence:
    """Of one database. Made when it is open and was read, because then all three are there."""

    def __init__(self, database: Path) -> None:
        self._paths = [f"{database}{suffix}" for suffix in SUFFIXES]
        self._opened = [_identity(_status(path)) for path in self._paths]
        self.wrote_file()
        self.wrote_log()

    def wrote_file(self) -> None:
        """Note that we wrote the file ourselves: as it is now, it is right."""
        self._file = _content(_status(self._paths[0]))

    def wrote_log(self) -> None:
        status = _status(self._paths[1])
        self._log = status.st_size if status else 0

    def gone(self) -> str:
        """The first that is not there any more, or is another file; '' when all is well."""
        for path, opened in zip(self._paths, self._opened, strict=True):
            if _identity(_status(path)) != opened:
                return path
        return ""

    def overwritten(self) -> str:
        """The first file that somebody else has written into; '' when nobody has."""
        if _content(_status(self._paths[0])) != self._file:
            return self._paths[0]
        log = _status(self._paths[1])
        return self._paths[1] if log and log.st_size < self._log else ""


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=False)
    except OSError:
        return None


def _identity(status: os.stat_result | None) -> tuple[int, int] | None:
    return (status.st_dev, status.st_ino) if status else None


def _content(status: os.stat_result | None) -> tuple[int, int] | None:
    return (status.st_size, status.st_mtime_ns) if status else None
