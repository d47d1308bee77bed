"""The engine that the suite runs on: SQLite, or with `--database postgresql` a PostgreSQL.

A test says in which file its state is, as ever. On PostgreSQL a database stands for that file: the same one for
everybody who names it, in this process or in another, so that a daemon that is started again finds what it knew. It is
a copy of one that has all tables, and it goes when the directory of its test has gone.
What is about the file itself says so: `@pytest.mark.sqlite("why")`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

VARIABLE = "AGENT_WORKER_TEST_SERVER"  #: the server, for every process of the suite; not set with SQLite
TABLES = "tables"  #: the database that others are copies of
DATABASE, HOME = "AGENT_WORKER_DATABASE_URL", "AGENT_WORKER_HOME"
#: Where pytest has put what a test may write to.
_OF_TEST = re.compile(r".*?/pytest-\d+/(?:popen-\w+/)?[^/]+")
STANDS_FOR = "at_"  # begins the name of a database that stands for a file
_numbers = itertools.count(1)
DROPPED_AT_ONCE = 20  # for each the server writes everything out


def is_postgresql() -> bool:
    return VARIABLE in os.environ


def state_at(file: Path) -> Path | str:
    """Where what belongs into this file is: there, or at this URL."""
    return _at(os.environ[VARIABLE], file) if is_postgresql() else file


def _at(server: str, file: Path) -> str:
    name = f"{STANDS_FOR}{hashlib.sha256(os.fsencode(file)).hexdigest()[:24]}"
    make(server, name, str(file))
    return f"{server}/{name}"


def new_database(owner: Path) -> str:
    """Where a team that names no file keeps its state: in memory, or in a database of its own."""
    if not (server := os.environ.get(VARIABLE)):
        return ":memory:"
    name = f"new_{os.getpid()}_{next(_numbers)}"
    make(server, name, str(owner))
    return f"{server}/{name}"


def environment(home: Path) -> dict[str, str]:
    """What a process must be told so that the state of this home is where it belongs."""
    return told({HOME: str(home)}, os.environ.get(VARIABLE, ""))


def told(variables: Mapping[str, str], server: str) -> dict[str, str]:
    """The same for a process that is about to begin with these variables: one that was told stays as it is."""
    if not server or DATABASE in variables or HOME not in variables:
        return {}
    return {DATABASE: _at(server, Path(variables[HOME]) / "state.db")}


def make(server: str, name: str, owner: str) -> None:
    """A database with all tables, for as long as the directory of the test that `owner` is in."""
    import psycopg

    of_test = _OF_TEST.match(owner)
    with closing(psycopg.connect(f"{server}/postgres", autocommit=True)) as connection:
        if connection.execute("select 1 from pg_database where datname = %s", [name]).fetchone():
            return
        try:
            connection.execute(f"create database {name} template {TABLES} strategy file_copy")
        except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
            return  # somebody else was quicker
        place = (of_test[0] if of_test else owner).replace("'", "''")
        connection.execute(f"comment on database {name} is '{place}'")


class Sweeper:
    """Drops the databases of tests whose directories are gone: they are 9 MB each."""

    def __init__(self, server: str) -> None:
        import psycopg

        self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(f"{server}/postgres", autocommit=True)

    def sweep(self) -> None:
        found = self._connection.execute(
            """select datname, shobj_description(oid, 'pg_database') from pg_database
                where shobj_description(oid, 'pg_database') like '/%'"""
        ).fetchall()
        gone = [name for name, place in found if not os.path.exists(place)]
        if len(gone) >= DROPPED_AT_ONCE:
            for name in gone:
                self._drop(name)
            return
        for name in gone:
            if name.startswith(STANDS_FOR):  # the next test may get a directory of the same name
                self._set_aside(name)

    def _set_aside(self, name: str) -> None:
        import psycopg

        try:
            self._connection.execute(f"alter database {name} rename to {name.replace(STANDS_FOR, 'was_')}".encode())
        except psycopg.Error:  # somebody who was killed has not left it yet, or it has such a name already
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._connection.execute(f"drop database if exists {name} with (force)".encode())

    def close(self) -> None:
        self._connection.close()
