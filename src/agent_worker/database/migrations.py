"""Numbered schema changes: `schema/0001_name.sql`, applied once each, one transaction each, in order.

Before the first change to a database that already holds data, a copy of it is put beside it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path

import apsw

from agent_worker.core.errors import UnknownSchema
from agent_worker.core.failpoints import failpoint
from agent_worker.database.backup import copy


def versions() -> list[tuple[int, str]]:
    """(number, SQL) of every migration this program knows."""
    folder = resources.files("agent_worker.database") / "schema"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [(int(f.name.split("_", 1)[0]), f.read_text("utf-8")) for f in files]


def migrate(connection: apsw.Connection, path: Path | None, known: Sequence[tuple[int, str]] | None = None) -> None:
    connection.execute("create table if not exists migration (version integer primary key, digest text not null)")
    known = known or versions()
    current = version_of(connection, known)
    pending = [(number, sql) for number, sql in known if number > current]
    if pending and current and path:
        # Named after what it holds: an upgrade of several steps that is cut off keeps the copy it began with.
        copy(connection, path.with_name(f"{path.name}.version-{current:04}"))
    for number, sql in pending:
        with connection:
            connection.execute(sql)
            failpoint(f"migrate.{number}")
            connection.execute("insert into migration(version, digest) values (?, ?)", (number, digest(sql)))


def version_of(connection: apsw.Connection, known: Sequence[tuple[int, str]] | None = None) -> int:
    """The last migration that was applied, 0 for none. Raises UnknownSchema for a database that is not made of ours."""
    if "migration" not in shape(connection):
        return 0
    try:
        applied = dict(connection.execute("select version, digest from migration"))
    except apsw.SQLError:  # it has no digests
        applied = {0: ""}
    return last_applied(applied, known or versions())


def last_applied(applied: Mapping[int, str], known: Sequence[tuple[int, str]]) -> int:
    """The last of the migrations that a database says were applied. Raises UnknownSchema when they are not ours."""
    current = max(applied, default=0)
    if current > known[-1][0]:
        raise UnknownSchema(
            f"the database has schema version {current}, this program knows {known[-1][0]}",
            hint="install the newer agent-worker again, or restore the backup that was made before the upgrade",
        )
    if applied != {number: digest(sql) for number, sql in known if number <= current}:
        raise UnknownSchema(
            "another version of agent-worker made this database and stores things differently; it is left as it is",
            hint="begin in another home, export AGENT_WORKER_HOME=~/.another, or install the version that made it",
        )
    return current


def digest(sql: str) -> str:
    """The hash by which a migration is known. Comments and layout do not count."""
    return hashlib.sha256(plain(sql).encode()).hexdigest()


def plain(sql: str) -> str:
    """SQL without comments, in one line."""
    return " ".join(re.sub(r"--[^\n]*", "", sql).split())


def schema_of(version: int) -> dict[str, str]:
    """What a database of this version consists of."""
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, None, [each for each in versions() if each[0] <= version])
        return shape(connection)


def shape(connection: apsw.Connection) -> dict[str, str]:
    """Tables, indexes and whatever else: name → SQL, without comments."""
    found = connection.execute("select name, coalesce(sql, '') from sqlite_schema")
    return {name: plain(sql) for name, sql in found}
