"""A session with PostgreSQL: how one is opened, what a transaction in it sees, and the schema that it needs.

Where a pooler stands between, nothing is kept in a session that the next transaction relies on. A statement is
sent as it stands in the source, with numbers for its names and without types: PostgreSQL finds those, as in
tests/database/test_shared_sql.py. `integer` in the schema is as large as SQLite's: 64 bits.
"""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict

from agent_worker.core.errors import BadInput, StorageFault, UnknownSchema
from agent_worker.core.later import pattern
from agent_worker.database import last_commit
from agent_worker.database.database import Row, Soon
from agent_worker.database.migrations import digest, last_applied, plain, versions
from agent_worker.database.postgres_trips import Connection as Connection
from agent_worker.database.postgres_trips import Statement, Trips
from agent_worker.database.transaction import Redact, StoredTransaction

SCHEMES = ("postgresql://", "postgres://")
OLDEST = 140000  #: version of PostgreSQL, as it tells it
CREATE = "createdb --template=template0 --locale=C --encoding=UTF8 agent_worker"
#: Seconds until a server that does not answer counts as gone, while connecting and afterwards.
_PATIENCE = {"connect_timeout": "5", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
_UNANSWERED = "10000"  # milliseconds that what we sent may stay unacknowledged
_ALONE = int.from_bytes(b"agents")  # by which the lock of a daemon is known
_PLACE = pattern(r"'(?:[^']|'')*'|(?<!:):([a-z_]\w*)")

#: For a write. A host that is cut off in the middle of one must not hold the others up for longer than this.
WRITE = """select set_config('idle_in_transaction_session_timeout', '3s', :local),
set_config('lock_timeout', '20s', :local), set_config('statement_timeout', '60s', :local),
set_config('synchronous_commit', 'on', :local)"""
#: For what nobody waits for to be synced.
SIGNAL = """select set_config('idle_in_transaction_session_timeout', '3s', :local),
set_config('lock_timeout', '3s', :local), set_config('statement_timeout', '5s', :local),
set_config('synchronous_commit', 'off', :local)"""
READ = """select set_config('idle_in_transaction_session_timeout', '30s', :local),
set_config('statement_timeout', '60s', :local),
set_config('default_transaction_isolation', 'repeatable read', :local),
set_config('default_transaction_read_only', 'on', :local)"""


class _Whole(Loader):
    """A sum of 64-bit numbers comes as `numeric`; all that are stored are whole."""

    def load(self, data: Buffer) -> int:
        return int(bytes(data))


class SecondTrip(Exception):
    """Raised in a look that was said to take one trip, and takes another: it has to begin anew, as a transaction."""


class HeldElsewhere(psycopg.OperationalError):
    """Raised when another process has the database to itself. It may be gone soon."""


def connect(url: str) -> Connection:
    """Open a session. Raises psycopg.OperationalError while that is not possible."""
    connection: Connection = psycopg.connect(
        url,
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        application_name=f"agent-worker, process {os.getpid()} on {platform.node()}",
        target_session_attrs="read-write",  # of several hosts, the one that is no standby
        tcp_user_timeout=_UNANSWERED,
        **_PATIENCE,  # type: ignore[arg-type]
    )
    connection.adapters.register_loader("numeric", _Whole)
    with _closed_unless_used(connection):
        if is_pooled(connection):
            connection.prepare_threshold = None  # what was prepared in one session, the next may not know
    return connection


@contextmanager
def _closed_unless_used(connection: Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler stands between, which may give each transaction another session."""
    return asked(connection, "select pg_backend_pid()") != [(connection.info.backend_pid,)]


def asked(connection: Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """The rows of one statement. A server that says nothing for as long as connecting may take counts as gone."""
    trips = Trips(connection, silent=float(_PATIENCE["connect_timeout"]))
    sent = trips.add(Statement(sql.encode(), [_sent(value) for value in values], is_kept=False))
    trips.go()
    return trips.rows(sent)


def checked(url: str) -> str:
    """The URL of a database, if it is one. Its password is never part of what is told."""
    try:
        if not url.startswith(SCHEMES):
            raise psycopg.ProgrammingError
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        told = "AGENT_WORKER_DATABASE_URL is not the address of a PostgreSQL database"
        raise BadInput(told, hint="such as postgresql://user:password@host:5432/agent_worker") from None
    return url


def password_in(url: str) -> str:
    return str(conninfo_to_dict(checked(url)).get("password") or "")


def place_of(url: str) -> str:
    """Where a database is, as people may read it: without user and password."""
    parts = conninfo_to_dict(checked(url))
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"postgresql://{host}:{port}/{parts.get('dbname') or parts.get('user') or ''}"


@cache
def numbered(sql: str) -> tuple[str, tuple[str, ...]]:
    """A statement with `$1`, `$2` … for its named parameters, and their names in that order."""
    names: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else found[0]

    return _PLACE.sub(number, sql), tuple(names)


@cache
def _as_sent(sql: str) -> tuple[bytes, tuple[str, ...]]:
    text, names = numbered(sql)
    return text.encode(), names


class PostgresTransaction(StoredTransaction):
    """A session and what is done in it. What nobody waits for is sent with whatever somebody does."""

    def __init__(
        self,
        connection: Connection,
        redact: Redact = str,
        here: str = "",
        *,
        settings: str = "",
        ending: threading.Event | None = None,
    ) -> None:
        """`settings`: those of all its transactions."""
        super().__init__(redact, here)
        self.connection = connection
        self._trips = Trips(connection, ending=ending)
        self._begun: Statement | None = None
        self._is_bare = False  # a look without `begin`
        self.trips = 0  #: that the look under way has taken
        self._settings = settings if connection.prepare_threshold is None else ""  # else the session keeps them
        if settings and not self._settings:
            with _closed_unless_used(connection):
                asked(connection, numbered(settings)[0], "false")

    def begin_write(self, writer: str, number: int, lock: str, **values: object) -> None:
        """Begin, and have to ourselves what this locks: all of it with the first trip, whatever that is for.

        When it was committed, this number of the writer is kept with it (`last_commit`).
        """
        self._begin("begin")
        self._begun = self.send(last_commit.NUMBER, {"writer": writer, "number": number})
        self.send(lock, values)

    def begin_signal(self) -> None:
        self._begin("begin")

    def begin_read(self, *, one_trip: bool = False) -> None:
        """`one_trip`: what is sent together is one transaction by itself, so nothing has to begin or end it.

        It is as readers' sessions say: REPEATABLE READ and READ ONLY. Behind a pooler a session says nothing.
        """
        self.trips, self._is_bare = 0, one_trip and not self._settings
        if not self._is_bare:
            self._begin("begin isolation level repeatable read read only")

    def _begin(self, how: str) -> None:
        self._control(how)
        if self._settings:
            self.send(self._settings, {"local": "true"})

    def begun(self) -> None:
        """Wait until the server has begun it: from then on whoever asks for its number waits for its end."""
        assert self._begun is not None
        if self._begun.result is None:
            self._trips.go()

    def commit(self) -> None:
        """With everything that was not waited for: if any of that fails, there is no commit."""
        self._control("commit")
        self._trips.go()

    def roll_back(self) -> None:
        """Whatever was not sent yet is forgotten."""
        self._trips.forget()
        if self._is_bare:
            return
        self._control("rollback")
        self._trips.go()

    def let_go(self) -> None:
        """End a look at the database: nobody waits for that."""
        if self._is_bare:
            return
        self._control("rollback")
        self._trips.leave()

    def save(self) -> None:
        """What follows can be taken back without what was before, which is made now."""
        self._control("savepoint change")
        self._trips.go()

    def go_back(self) -> None:
        """To where we saved last. What was not sent yet is forgotten."""
        self._trips.forget()
        self._control("rollback to change")

    def release(self) -> None:
        self._control("release change")

    def settle(self) -> None:
        """Wait for everything that was not waited for."""
        if self._trips.is_due:
            self._go()

    def _go(self) -> None:
        if self._is_bare and self.trips:
            raise SecondTrip
        self.trips += 1
        self._trips.go()

    def send(self, sql: str, values: dict[str, Any]) -> Statement:
        text, names = _as_sent(sql)
        hidden = self._hidden(sql, values)
        return self._trips.add(Statement(text, [_sent(hidden[name]) for name in names]))

    def counted(self, sql: str, values: dict[str, Any]) -> int:
        sent = self.send(sql, values)
        self._go()
        return sent.changed

    def rows(self, sql: str, values: dict[str, Any]) -> list[Row]:
        return self._found(self.send(sql, values))

    def rows_soon(self, sql: str, values: dict[str, Any]) -> Soon[list[Row]]:
        sent = self.send(sql, values)
        return lambda: self._found(sent)

    def _found(self, sent: Statement) -> list[Row]:
        if sent.result is None:
            self._go()
        names = self._trips.columns(sent)
        return [dict(zip(names, row, strict=True)) for row in self._trips.rows(sent)]

    def _control(self, sql: str) -> None:
        self._trips.add(Statement(sql.encode()))


def _sent(value: object) -> bytes | None:
    """A value as text of no type, which becomes what its place in the statement needs."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value.replace("\0", "␀") if "\0" in value else value).encode()
    if isinstance(value, int):
        return b"%d" % value
    raise TypeError(f"nothing of this kind is stored: {type(value).__name__}")


def hold_alone(connection: Connection) -> None:
    """Have the database to ourselves for as long as this session lasts. Raises HeldElsewhere."""
    _hold(connection, "select pg_try_advisory_lock($1)")


def hold_shared(connection: Connection) -> None:
    """Be one of the hosts that nobody who wants it to himself comes between. Raises HeldElsewhere."""
    _hold(connection, "select pg_try_advisory_lock_shared($1)")


def _hold(connection: Connection, sql: str) -> None:
    # A session whose machine is gone ends within seconds, and the lock with it.
    for setting, value in (("idle", 5), ("interval", 2), ("count", 3)):
        asked(connection, f"set tcp_keepalives_{setting} = {value}")
    if asked(connection, sql, _ALONE) == [(True,)]:
        return
    holder = asked(
        connection,
        """select a.application_name from pg_locks l join pg_stat_activity a on a.pid = l.pid
            where l.locktype = 'advisory' and l.granted and a.datname = current_database() limit 1""",
    )
    who = holder[0][0] if holder and holder[0][0] else "another program"
    raise HeldElsewhere(f"{who} works on it")


# --- the schema ---------------------------------------------------------------------------------------


def prepare(connection: Connection, known: Sequence[tuple[int, str]] | None = None) -> None:
    """Make the tables that are missing. Of several hosts that start at once, one does it and the others wait.

    Tables that are there are changed when no host works on them: those of an older version would read them wrongly.
    """
    known = known or versions()
    _check(connection)
    made = (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject, psycopg.errors.DuplicateTable)
    with suppress(*made):  # by another host, in the same moment
        connection.execute("create table if not exists migration (version bigint primary key, digest text not null)")
    with connection.transaction():
        connection.execute("lock table migration in exclusive mode")
        current = applied_to(connection, known)
        pending = [(number, sql) for number, sql in known if number > current]
        if pending and current:
            _refuse_beside_others(connection)
        for number, sql in pending:
            connection.execute(schema_for(sql))
            connection.execute("insert into migration values ($1, $2)", [number, digest(sql)])


def schema_for(sql: str) -> bytes:
    return re.sub(r"\binteger\b", "bigint", plain(sql)).encode()


def _refuse_beside_others(connection: Connection) -> None:
    working = connection.execute(
        """select node, version from host where lease_until > extract(epoch from clock_timestamp()) * 1000000
            order by began_at, id"""
    ).fetchall()
    if working:
        told = ", ".join(f"{node} ({version})" for node, version in working)
        raise StorageFault(
            f"this version needs other tables, and hosts of an older one work on them: {told}",
            hint="agent-worker stop --all, on each of them; then start this one first",
        )


def applied_to(connection: Connection, known: Sequence[tuple[int, str]] | None = None) -> int:
    """The last migration that a database has, 0 for none. Raises UnknownSchema."""
    if connection.execute("select to_regclass('migration')").fetchone() == (None,):
        return 0
    found: dict[int, str] = {row[0]: row[1] for row in connection.execute("select version, digest from migration")}
    return last_applied(found, known or versions())


def _check(connection: Connection) -> None:
    if wrong := unfit(connection):
        raise StorageFault(wrong[0], hint=wrong[1])


def unfit(connection: Connection) -> Sequence[str]:
    """What is wrong with a server or a database for our purpose, and what would mend it; empty when nothing is."""
    version = connection.info.server_version
    if version < OLDEST:
        return f"PostgreSQL {version // 10000} is too old: 14 is needed", "use a newer server"
    found = connection.execute(
        """select 'B' < 'a' and 'a-b' < 'aa', pg_encoding_to_char(encoding), current_database()
             from pg_database where datname = current_database()"""
    ).fetchone()
    plain_order, encoding, name = found or (False, "", "")
    if not plain_order:
        return f"the database {name} sorts by a language's rules, which would change the order of names", CREATE
    if encoding != "UTF8":
        return f"the database {name} stores text as {encoding}, not as UTF8", CREATE
    try:
        applied_to(connection)
    except UnknownSchema as error:
        return error.message, f"install the version that made it, or use another database: {CREATE}"
    return ()
