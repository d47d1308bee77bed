"""Whether the files that a database is open with still stand where they were opened.

SQLite writes on into files that somebody has removed, moved or replaced, and everything accepted from then on is gone
with the process. Asked after each commit, before anybody is answered: three looks at the disk, microseconds.
"""

from __future__ import annotations

import os
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm")


class Presence:
    """Of one database. Made when it is open and was read, because then all three are there."""

    def __init__(self, database: Path) -> None:
        self._paths = [f"{database}{suffix}" for suffix in SUFFIXES]
        self._opened = [_identity(path) for path in self._paths]

    def gone(self) -> str:
        """The first that is not there any more, or is another file; '' when all is well."""
        for path, opened in zip(self._paths, self._opened, strict=True):
            if _identity(path) != opened:
                return path
        return ""


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino
