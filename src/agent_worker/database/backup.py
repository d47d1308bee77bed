"""A copy of the database, made while it is in use.

It is one SQLite file that holds everything as of one moment, and in a table of its own the few files of the home that
are state too. The daemon makes one when it is asked (sqlite.py), and each upgrade makes one first (migrations.py).
How one is put back: restore.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import apsw

from agent_worker.core.failpoints import failpoint
from agent_worker.files.folder import Folder, sync

#: What makes a backup where PostgreSQL keeps the state. It takes the address from where the daemon has it, password and
#: all.
DUMP = 'pg_dump --format=custom --file=agent-worker.dump "$AGENT_WORKER_DATABASE_URL"'

UNFINISHED = ".unfinished"
FILES = "kept_file"  #: the table of files
NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
_MAKE = f"create table {FILES} (name text primary key, content blob not null)"


def copy(connection: apsw.Connection, target: Path, files: Mapping[str, bytes] | None = None) -> None:
    """Copy the database as of one moment, without holding up a writer. The copy is whole and on the disk when this
    returns, or not there.
    """
    unfinished = target.with_name(target.name + UNFINISHED)
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, NEW_FILE, 0o600))
    try:
        connection.execute("vacuum into ?", (str(unfinished),))
        if files:
            _add(unfinished, files)
        failpoint("backup.rename")
        put(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def put(unfinished: Path, target: Path) -> None:
    """Give a finished backup its name, once everything is on the disk."""
    with unfinished.open("rb") as file:
        sync(file.fileno())  # SQLite does not
    unfinished.rename(target)
    with Folder.at(target.parent) as folder:
        folder.sync()


def _add(path: Path, files: Mapping[str, bytes]) -> None:
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute(_MAKE)
        connection.executemany(f"insert into {FILES} values (?, ?)", files.items())
