"""N9: whatever a statement calls its parameters, no secret gets into a text column that is not excepted by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

import apsw
import pytest
from tests.database.test_plans import SCHEMA, statements

from agent_worker.core.events import PLAIN as PLAIN_FIELDS
from agent_worker.core.events import Event
from agent_worker.core.redaction import Redactor
from agent_worker.database import columns
from agent_worker.database.columns import JSON, PLAIN, Plan, plan_of
from agent_worker.database.transaction import SqliteTransaction

SECRET = "correct-horse-battery"
HIDDEN = "[redacted:secret]"


@pytest.fixture
def database() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA.read_text())
    return connection


def texts(database: apsw.Connection) -> dict[str, list[str]]:
    tables = [row[0] for row in database.execute("select name from sqlite_schema where type = 'table'")]
    return {
        table: [row[1] for row in database.execute(f"pragma table_info({table})") if row[2].lower() == "text"]
        for table in tables
    }


Exceptions = Mapping[str, Mapping[str, str]]


def unfounded(known: Mapping[str, list[str]], plain: Exceptions, json: Mapping[str, frozenset[str]]) -> list[str]:
    """Exceptions for what is no text column, or without a reason; and JSON columns that are excepted or unknown."""
    wrong = [f"{table}: no such table" for table in {*plain, *json} - set(known)]
    for table, names in plain.items():
        wrong += [f"{table}.{name}" for name, reason in names.items() if name not in known.get(table, ()) or not reason]
    for table, structured in json.items():
        redacted = set(known.get(table, ())) - set(plain.get(table, ()))
        wrong += [f"{table}.{name} holds JSON and is not redacted" for name in structured - redacted]
    return wrong


def test_N9_every_exception_is_a_text_column_with_its_reason(database: apsw.Connection) -> None:
    assert not unfounded(texts(database), PLAIN, JSON)


def test_N9_an_exception_without_a_column_or_a_reason_is_noticed() -> None:
    known = {"message": ["id", "text"]}
    for plain, structured in (
        ({"message": {"gone": "made by us"}}, {}),
        ({"message": {"id": ""}}, {}),
        ({"nowhere": {"id": "made by us"}}, {}),
        ({"message": {"text": "made by us"}}, {"message": frozenset({"text"})}),
    ):
        assert unfounded(known, plain, structured)


def test_N9_a_column_that_nobody_thought_of_is_redacted(database: apsw.Connection) -> None:
    database.execute("create table diary (id integer, confession text)")
    transaction = SqliteTransaction(database, Redactor([SECRET]))
    transaction.run("insert into diary(id, confession) values (:a, :b)", a=1, b=SECRET)
    (row,) = transaction.all("select * from diary")
    assert row["confession"] == HIDDEN


def test_N9_every_text_column_is_either_redacted_or_excepted(database: apsw.Connection) -> None:
    transaction = SqliteTransaction(database, Redactor([SECRET]))
    for table, names in texts(database).items():
        every = [row[1] for row in database.execute(f"pragma table_info({table})")]
        marks = ", ".join(f":p{n}" for n in range(len(every)))  # names that say nothing
        values: dict[str, object] = {f"p{n}": SECRET if name in names else n for n, name in enumerate(every)}
        database.execute(f"delete from {table}")  # some begin with a row
        transaction.run(f"insert into {table}({', '.join(every)}) values ({marks})", **values)
        (row,) = transaction.all(f"select * from {table}")
        assert {name for name in names if row[name] == SECRET} == set(PLAIN.get(table, {})), table
        for name in set(names) - set(PLAIN.get(table, {})):
            assert row[name] == HIDDEN
            transaction.run(f"update {table} set {name} = ''")
            transaction.run(f"update {table} set {name} = coalesce(:anything, '')", anything=SECRET)
            assert transaction.one(f"select {name} from {table}") == {name: HIDDEN}, f"{table}.{name}"


def test_N9_the_shape_of_every_statement_is_understood() -> None:
    writing = [(place, sql) for place, sql in statements() if columns._WRITES.match(sql) and ":" in sql]
    assert len(writing) > 50
    for place, sql in writing:
        tokens = columns._TOKEN.findall(sql)
        assert columns._written(tokens), place


@pytest.mark.parametrize(
    "sql",
    [
        "insert into talk select :a, :b",
        "with x as (select :a) update talk set text = :b",
        "update talk set (who, text) = (:a, :b)",
        "replace into talk values (:a, :b)",
    ],
)
def test_N9_in_a_statement_of_another_shape_every_parameter_is_redacted(sql: str) -> None:
    assert plan_of(sql) == Plan(("a", "b"))


def test_N9_what_is_only_looked_for_is_left_as_it_is() -> None:
    assert plan_of("select * from talk where text = :text") == Plan()
    assert plan_of("update talk set held = 1 where text = :text") == Plan()
    assert plan_of("delete from talk where text = :text") == Plan()


def test_N9_json_stays_json(database: apsw.Connection) -> None:
    """What looks like a key only because one string ends where another begins must not take the rest with it."""
    transaction = SqliteTransaction(database, Redactor([SECRET]))
    begin, end = "-----BEGIN " + "PRIVATE KEY-----", "-----END " + "PRIVATE KEY-----"
    given = {"a": begin, "b": end, "c": f"it is {SECRET}", SECRET: 1}
    transaction.run(
        "insert into proposal(project, id, workspace, n, kind, question, options, electorate, resolution, quorum, "
        "tie_break, fallback, binding, veto, effect, creator, root, hop, state, created_at, expires_at) "
        "values ('', 'p', 'w', 1, '', '', :options, '', '', 1, '', '', 1, 1, :given, '', '', 0, '', 0, 0)",
        options=json.dumps([begin, SECRET, end]),
        given=json.dumps(given),
    )
    row = transaction.one("select options, effect from proposal")
    assert row
    assert json.loads(row["options"]) == [begin, HIDDEN, end]
    assert json.loads(row["effect"]) == {"a": begin, "b": end, "c": f"it is {HIDDEN}", HIDDEN: 1}


def _kinds(kind: type[Event]) -> list[type[Event]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _kinds(child))]


@pytest.mark.parametrize("kind", _kinds(Event), ids=lambda kind: kind.__name__)
def test_N9_no_event_tells_a_secret_that_somebody_wrote(kind: type[Event]) -> None:
    values = {f.name: SECRET if f.type == "str" else 0 for f in dataclasses.fields(kind) if f.type != "str | None"}
    told = kind(**values).redacted(Redactor([SECRET]))  # type: ignore[arg-type]
    assert {name for name in values if getattr(told, name) == SECRET} <= PLAIN_FIELDS
