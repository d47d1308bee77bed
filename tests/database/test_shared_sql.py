"""The SQL of the product is understood by SQLite and PostgreSQL alike.

Every SQL text of the source is shown to PostgreSQL with the product's schema, which finds the types of its parameters
or refuses it. Nothing is said about types when a statement is run either: what is prepared here is what is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import apsw
import psycopg
import pytest
from tests.database.test_plans import REPAIRS, SCHEMA, SOURCE, read, statements
from tests.postgresql import Cluster

#: About the file of SQLite itself, or the index of memory, which is SQLite's on any machine.
OF_SQLITE = REPAIRS | {
    "database/backup.py",
    "database/event_rows.py",
    "database/migrations.py",
    "database/presence.py",
    "memory/index_tables.py",
}
#: Statements with a part that is chosen when they are run → what it may be.
CHOSEN = {
    "role": "coordinator",
    "chosen": "and id = :workspace",
    "column": "agent",
    "_IDS[kind]": "select id from run where project = :project",
}


@pytest.fixture(scope="module")
def postgres(cluster: Cluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(cluster.new_database(), autocommit=True) as connection:
        connection.execute(SCHEMA.read_text())
        yield connection


def refused(postgres: psycopg.Connection, sql: str) -> str:
    """Why PostgreSQL does not take it; '' when it does."""
    names = dict.fromkeys(re.findall(r"(?<!:):(\w+)", sql))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    numbered = re.sub(r"(?<!:):(\w+)", lambda found: numbers[found[1]], sql)
    done = postgres.pgconn.prepare(b"", numbered.encode())
    return "" if done.status == psycopg.pq.ExecStatus.COMMAND_OK else done.error_message.decode()


def is_whole(sqlite: apsw.Connection, sql: str) -> bool:
    """SQLite takes it; what it does not take is a part of a statement, or no SQL at all."""
    try:
        sqlite.execute(f"explain {sql}", dict.fromkeys(re.findall(r":(\w+)", sql)))
    except (apsw.SQLError, apsw.BindingsError):
        return False
    return True


def test_postgresql_takes_every_statement(postgres: psycopg.Connection) -> None:
    sqlite = apsw.Connection(":memory:")
    sqlite.execute(SCHEMA.read_text())
    whole = {sql: place for place, sql in statements() if place not in OF_SQLITE and is_whole(sqlite, sql)}
    assert len(whole) > 350
    wrong = [f"{place}: {sql}\n{why}" for sql, place in whole.items() if (why := refused(postgres, sql))]
    assert not wrong, "\n".join(wrong)


def chosen_late() -> Iterator[str]:
    """Statements with a part that is known only when they are run, with one of its values."""
    for file in sorted(SOURCE.rglob("*.py")):
        if str(file.relative_to(SOURCE)) in OF_SQLITE:
            continue
        for node in read(file)[1]:
            text = ast.unparse(node)[2:-1] if isinstance(node, ast.JoinedStr) else ""
            parts = set(re.findall(r"{([^}]+)}", text)) & set(CHOSEN)
            if parts and re.match(r"\W*(select|update|delete|insert|{_IDS)", text):
                for part in parts:
                    text = text.replace(f"{{{part}}}", CHOSEN[part])
                yield " ".join(text.strip("'\"").replace("\\n", " ").replace("\\'", "'").split())


def test_postgresql_takes_what_is_chosen_when_it_is_run(postgres: psycopg.Connection) -> None:
    found = list(chosen_late())
    assert len(found) >= 4
    wrong = [f"{sql}\n{why}" for sql in found if (why := refused(postgres, sql))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from audit where project = :project and (:agent is null or agent = :agent)",
        "update agent set ordered = max(ordered, 1) where project = :project",
        "insert or ignore into accepted(project, key, ref, at) values (:project, :key, :ref, :at)",
        "select * from message m where m.project = :project and m.nothing = 1",
    ],
)
def test_what_only_sqlite_takes_is_noticed(postgres: psycopg.Connection, sql: str) -> None:
    assert refused(postgres, sql)
