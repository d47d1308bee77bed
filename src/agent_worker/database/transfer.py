"""Everything that SQLite holds put into an empty PostgreSQL, or the other way round; the source stays as it is.

The copy is one transaction (PostgreSQL) or one new file (SQLite): killed at any moment, there is all of it or nothing.
Rows are counted on both sides before it counts. Whoever calls has made sure that nobody works on either of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import psycopg
from psycopg import sql

from agent_worker.core.errors import InUse, NotFound, Refused, StorageFault
from agent_worker.core.failpoints import failpoint
from agent_worker.core.text import plural
from agent_worker.database.database import WholeTransaction
from agent_worker.database.event_rows import NUMBER_ON
from agent_worker.database.migrations import migrate, versions
from agent_worker.database.postgres_session import (
    Connection,
    HeldElsewhere,
    PostgresTransaction,
    connect,
    hold_alone,
    place_of,
    prepare,
)
from agent_worker.database.restore import discard, put_in_place
from agent_worker.database.transaction import Redact, SqliteTransaction

#: Of one engine, and of no use to the other: where SQLite's log is, how far PostgreSQL has numbered its events, and
#: what its writers committed last.
OWN = ("progress", "event_count", "last_commit")
#: Asked of the source and of the copy, in the transaction that made it: they must say the same.
Verdict = Callable[[WholeTransaction], object]
#: Done to the copy in the same transaction: what only the new place calls so is called so. By how many rows it differs
#: from its source then, by table.
Settle = Callable[[WholeTransaction], Mapping[str, int]]
Values = tuple[object, ...]
NOTHING_MOVED = "nothing was moved; look at that, and try again"


def tables() -> list[str]:
    """The names of all tables that hold what happened; those that others refer to come first."""
    made = re.findall(r"create table (\w+)", " ".join(text for _, text in versions()))
    return [name for name in made if name not in OWN]


def to_postgres(source: Path, url: str, verdict: Verdict, settle: Settle, *, redact: Redact = str) -> dict[str, int]:
    """How many rows of each table there are now. Raises Refused when the other one holds something already.

    `redact`: no secret gets there with what `settle` adds.
    """
    if not source.exists():
        raise NotFound(f"there is nothing to move: {source} does not exist", hint="agent-worker doctor")
    with closing(apsw.Connection(str(source))) as sqlite, postgres(url) as connection:
        migrate(sqlite, source)
        with connection.transaction(), sqlite:
            _must_be_empty(connection, place_of(url))
            counts = {table: _into_postgres(sqlite, connection, table) for table in tables()}
            connection.execute(NUMBER_ON)
            there = {table: _count(connection, table) for table in counts}
            _compare(counts, there, verdict(SqliteTransaction(sqlite)), verdict(PostgresTransaction(connection)))
            more = settle(there_too := PostgresTransaction(connection, redact))
            there_too.settle()
            counts = _with(counts, more)
            _compare({each: counts[each] for each in more}, {each: _count(connection, each) for each in more}, "", "")
            failpoint("transfer.commit")
    return counts


def from_postgres(
    url: str, target: Path, verdict: Verdict, settle: Settle, *, aside: str
) -> tuple[dict[str, int], Path | None]:
    """Copy everything into a new file, which takes the place of `target`; returns where that is kept, if there was
    one."""
    arriving = target.with_name(f"{target.name}.arriving")
    discard(arriving)
    try:
        with closing(apsw.Connection(str(arriving))) as sqlite, postgres(url) as connection:
            arriving.chmod(0o600)
            migrate(sqlite, None)
            with connection.transaction(), sqlite:
                connection.execute("set transaction isolation level repeatable read, read only")
                counts = {table: _into_sqlite(connection, sqlite, table) for table in tables()}
                counts = _with(counts, settle(SqliteTransaction(sqlite)))
                here = {table: int(sqlite.execute(f"select count(*) from {table}").get) for table in counts}
                _compare(counts, here, verdict(PostgresTransaction(connection)), verdict(SqliteTransaction(sqlite)))
        return counts, put_in_place(arriving, target, aside=aside)
    finally:
        discard(arriving)


@contextmanager
def postgres(url: str) -> Iterator[Connection]:
    """A session that has the database to itself, with its tables. Raises InUse while a daemon works on it."""
    place = place_of(url)
    try:
        with closing(connect(url)) as connection:
            hold_alone(connection)
            prepare(connection)
            yield connection
    except HeldElsewhere as error:
        raise InUse(f"{place} is in use: {error}", hint="agent-worker stop --all, there; then try again") from None
    except psycopg.Error as error:
        told = " ".join(str(error).split())
        raise StorageFault(
            f"{place} cannot be used: {told}", hint="nothing was moved; look at that, and try again"
        ) from None


def _must_be_empty(connection: Connection, place: str) -> None:
    if held := _count(connection, "project"):
        told = f"the database at {place} holds {plural(held, 'project')} already"
        raise Refused(told, hint="createdb --template=template0 --locale=C --encoding=UTF8 another_name")


def _into_postgres(sqlite: apsw.Connection, connection: Connection, table: str) -> int:
    columns = [str(name) for _, name, *_ in sqlite.execute(f"pragma table_info({table})")]
    count = 0
    with connection.cursor().copy(_copy(table, columns)) as copy:
        for row in sqlite.execute(f"select {', '.join(columns)} from {table}"):
            copy.write_row([_readable(value) for value in row])
            count += 1
    return count


def _copy(table: str, columns: Iterable[str]) -> sql.Composed:
    names = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    return sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), names)


def _readable(value: object) -> object:
    """A value that PostgreSQL can hold: it takes no NUL in a text, which people see as ␀ everywhere."""
    return value.replace("\0", "␀") if isinstance(value, str) else value


def _into_sqlite(connection: Connection, sqlite: apsw.Connection, table: str) -> int:
    columns = [str(name) for _, name, *_ in sqlite.execute(f"pragma table_info({table})")]
    places = ", ".join("?" for _ in columns)
    with connection.cursor(name="moving") as cursor:
        rows = cursor.execute(f"select {', '.join(columns)} from {table}".encode())
        return _store(sqlite, f"insert into {table}({', '.join(columns)}) values ({places})", rows)


def _store(sqlite: apsw.Connection, statement: str, rows: Iterable[Values]) -> int:
    before = sqlite.total_changes()
    sqlite.executemany(statement, rows)
    return sqlite.total_changes() - before


def _count(connection: Connection, table: str) -> int:
    found = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(table))).fetchone()
    assert found is not None
    return int(found[0])


def _with(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {table: count + more.get(table, 0) for table, count in counts.items()}


def _compare(read: dict[str, int], written: dict[str, int], source: object, copy: object) -> None:
    if differing := [table for table in read if read[table] != written[table]]:
        raise StorageFault(f"not all rows arrived: {', '.join(differing)}", hint=NOTHING_MOVED)
    if source != copy:
        raise StorageFault(f"the copy is not as its source: {copy}, not {source}", hint=NOTHING_MOVED)
