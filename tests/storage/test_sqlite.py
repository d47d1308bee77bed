"""The SQLite door: how its connections are set, and that a bad change hurts only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from agent_worker.events import Bus, Posted
from agent_worker.storage.database import Transaction
from agent_worker.storage.sqlite import SqliteDatabase, connect


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    yield database
    await database.close()


def post(tx: Transaction, text: object) -> None:
    tx.tell(Posted(workspace="w", seq=1, id="m", sender="user", text=text))  # type: ignore[arg-type]


def test_the_writer_syncs_in_full_and_checks_references(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "state.db"), write=True)
    settings = {name: connection.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_a_reference_to_nothing_is_refused(database: SqliteDatabase) -> None:
    with pytest.raises(apsw.ConstraintError):
        await database.write(lambda tx: tx.run("insert into member(workspace, agent, name) values ('w', 'a', 'alice')"))


async def test_an_event_that_cannot_be_stored_fails_its_own_change_only(database: SqliteDatabase) -> None:
    first, second = await asyncio.gather(
        database.write(post, object()), database.write(post, "a lone \ud800 surrogate"), return_exceptions=True
    )
    assert isinstance(first, TypeError)
    assert second is None
    assert await database.write(lambda tx: len(tx.all("select * from event"))) == 1
