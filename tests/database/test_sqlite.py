"""The SQLite door: how its connections are set, and that a bad change hurts only itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from agent_worker.core.errors import Locked, StorageFault
from agent_worker.core.events import Bus, Posted, WorkspaceChanged
from agent_worker.database import sqlite, write_queue
from agent_worker.database.database import Transaction
from agent_worker.database.presence import commits_in
from agent_worker.database.sqlite import SqliteDatabase, connect

pytestmark = pytest.mark.sqlite("the door of SQLite itself")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    yield database
    await database.close()


def tell(tx: Transaction, reason: object) -> None:
    tx.tell(WorkspaceChanged(workspace="w", state="paused", reason=reason))  # type: ignore[arg-type]


def accept(tx: Transaction, key: str) -> list[str]:
    """All that was accepted until now, in that order."""
    tx.run("insert into accepted(project, key, ref, at) values ('p', :key, 'r', 0)", key=key)
    return [row["key"] for row in tx.all("select key from accepted order by rowid")]


def test_the_writer_syncs_in_full_and_checks_references(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "state.db"), write=True)
    settings = {name: connection.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


async def test_a_reference_to_nothing_is_refused(database: SqliteDatabase) -> None:
    with pytest.raises(apsw.ConstraintError):
        await database.write(
            lambda tx: tx.run("insert into member(project, workspace, agent, name) values ('p', 'w', 'a', 'alice')")
        )


async def test_an_event_that_cannot_be_stored_fails_its_own_change_only(database: SqliteDatabase) -> None:
    first, second = await asyncio.gather(
        database.write(tell, object()), database.write(tell, "a lone \ud800 surrogate"), return_exceptions=True
    )
    assert isinstance(first, TypeError)
    assert second is None
    assert await database.write(lambda tx: len(tx.all("select * from event"))) == 1


async def test_a_database_that_another_program_holds_refuses_and_goes_on_when_it_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY", 50)
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    other = apsw.Connection(str(tmp_path / "state.db"))
    other.execute("begin immediate")
    with pytest.raises(Locked, match="another program holds the database"):
        await database.write(tell, "held")
    other.execute("rollback")
    await database.write(tell, "free")
    assert await database.read(lambda tx: len(tx.all("select * from event"))) == 1
    await database.close()


async def test_old_events_go_while_the_process_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "EVENTS_KEPT", 50)
    monkeypatch.setattr(sqlite, "EVENTS_OVER", 10)
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    for _ in range(200):
        await database.write(tell, "again")
    (row,) = await database.read(lambda tx: tx.all("select min(id) as oldest, max(id) as newest from event"))
    assert row["newest"] == 200
    assert 50 <= 200 - row["oldest"] + 1 <= 60
    await database.close()


async def test_a_change_that_fails_takes_nobody_elses_with_it(database: SqliteDatabase) -> None:
    def put(tx: Transaction, n: int) -> int:
        tx.run("insert into accepted(project, key, ref, at) values ('p', :key, 'r', 0)", key=str(n))
        if n % 3 == 0:
            raise ValueError(n)
        return n

    outcomes = await asyncio.gather(*(database.write(put, n) for n in range(300)), return_exceptions=True)
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [n % 3 == 0 for n in range(300)]
    rows = await database.read(lambda tx: tx.all("select key from accepted"))
    assert {row["key"] for row in rows} == {str(n) for n in range(300) if n % 3}


async def test_a_write_that_may_wait_is_part_of_the_next_commit_and_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "SOON", 3600)
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    reader = connect(str(tmp_path / "state.db"), write=False)
    before = commits_in(reader)
    first = database.write_soon(accept, "soon")
    assert await database.write(accept, "now") == ["soon", "now"]
    assert first.result() == ["soon"]
    assert commits_in(reader) == before + 1
    await database.close()


async def test_a_write_that_may_wait_is_not_lost_when_nothing_follows(database: SqliteDatabase) -> None:
    assert await database.write_soon(accept, "soon") == ["soon"]


async def test_a_write_that_may_wait_is_not_lost_when_the_database_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "SOON", 3600)
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    written = database.write_soon(accept, "soon")
    await database.close()
    assert await written == ["soon"]


async def test_what_is_told_is_heard_after_its_commit_in_the_order_of_commits(tmp_path: Path) -> None:
    bus, heard = Bus(), []
    database = await SqliteDatabase.open(tmp_path / "state.db", bus)
    reader = connect(str(tmp_path / "state.db"), write=False)

    def hear(event: object) -> None:
        assert isinstance(event, Posted)
        stored = reader.execute("select count(*) from accepted").get
        heard.append((event.seq, stored >= event.seq))

    bus.listen(hear)

    def put(tx: Transaction, n: int) -> None:
        tx.tell(Posted(workspace="w", seq=n, id=str(n), sender="user", text=""))
        tx.run("insert into accepted(project, key, ref, at) values ('p', :key, 'r', 0)", key=str(n))

    await asyncio.gather(*(database.write(put, n) for n in range(1, 101)))
    await database.close()
    assert heard == [(n, True) for n in range(1, 101)]


async def test_nothing_is_told_of_a_change_that_failed(tmp_path: Path) -> None:
    bus, heard = Bus(), []
    database = await SqliteDatabase.open(tmp_path / "state.db", bus)
    bus.listen(heard.append)

    def tell_and_fail(tx: Transaction) -> None:
        tell(tx, "never mind")
        raise ValueError("never mind")

    with pytest.raises(ValueError, match="never mind"):
        await database.write(tell_and_fail)
    await database.write(tell, "said")
    await database.close()
    assert [event.reason for event in heard] == ["said"]


async def test_a_write_whose_caller_went_away_is_still_told(tmp_path: Path) -> None:
    bus, heard = Bus(), []
    database = await SqliteDatabase.open(tmp_path / "state.db", bus)
    bus.listen(heard.append)
    database.write(tell, "said").cancel()
    await database.write(lambda tx: None)
    await database.close()
    assert [event.reason for event in heard] == ["said"]


async def test_a_reader_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(apsw.ReadOnlyError):
        await database.read(lambda tx: tx.run("insert into accepted(project, key, ref, at) values ('p', 'k', 'r', 0)"))


async def test_what_was_written_is_seen_by_the_next_read(database: SqliteDatabase) -> None:
    for n in range(50):
        await database.write(lambda tx, n=n: tx.run("insert into accepted values ('p', :key, 'r', 0)", key=str(n)))
        rows = await database.read(lambda tx: tx.all("select key from accepted"))
        assert len(rows) == n + 1


async def test_a_database_of_a_newer_version_is_refused_with_a_sentence(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    await database.write(lambda tx: tx.run("insert into migration(version, digest) values (9999, '')"))
    await database.close()
    with pytest.raises(StorageFault, match="schema version 9999"):
        await SqliteDatabase.open(tmp_path / "state.db", Bus())


async def test_the_file_is_only_the_owners(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(tmp_path / "state.db", Bus())
    await database.close()
    assert (tmp_path / "state.db").stat().st_mode & 0o777 == 0o600
