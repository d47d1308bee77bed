"""A row that no table leads to any more is known by its shape alone: so no other table may have that of a kept one."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest
from tests.database.test_plans import SCHEMA

from agent_worker.database.recovery import HISTORY


@pytest.fixture
def database() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(SCHEMA.read_text())
    yield connection
    connection.close()


def shapes(database: apsw.Connection) -> dict[str, tuple[bool, ...]]:
    """Of each table, which of its columns are texts."""
    names = [row[0] for row in database.execute("select name from sqlite_schema where type = 'table'")]
    return {
        name: tuple(column[2].lower() == "text" for column in database.execute(f"pragma table_info({name})"))
        for name in names
    }


def alike(found: dict[str, tuple[bool, ...]]) -> set[frozenset[str]]:
    kept = [name for name in HISTORY if name in found]
    return {frozenset({one, other}) for one in kept for other in found if one != other and found[one] == found[other]}


def test_what_is_recovered_by_its_shape_has_a_shape_of_its_own(database: apsw.Connection) -> None:
    assert not alike(shapes(database))


def test_two_tables_of_one_shape_are_noticed(database: apsw.Connection) -> None:
    database.execute("create table diary (id text, page text, words text)")
    assert alike(shapes(database)) == {frozenset({"project", "diary"})}
