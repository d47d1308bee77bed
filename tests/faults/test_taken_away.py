"""Row D12: a log that is lost or cut, an older copy, a database that is removed or replaced under a running process."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from agent_worker.core.errors import StorageFault
from agent_worker.core.events import Bus
from agent_worker.database.database import Transaction
from agent_worker.database.recovery import look_at, recover
from agent_worker.database.restore import put_back, saved_copy
from agent_worker.database.sqlite import SqliteDatabase
from tests.faults.driver import wait_for

pytestmark = pytest.mark.sqlite("takes its file and its log away")

STAMP = "20260101T000000"
LOG, MARK = "state.db-wal", "state.db.mark"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    (tmp_path / "home").mkdir()
    opened = await SqliteDatabase.open(tmp_path / "home" / "state.db", Bus())
    yield opened
    await opened.close()


def note(tx: Transaction, key: str) -> None:
    """Something that no event tells of."""
    tx.run("insert into accepted(project, key, ref, at) values ('p', :key, '', 0)", key=key)


def count(tx: Transaction) -> int:
    return len(tx.all("select * from accepted"))


def keys_in(database: Path) -> list[str]:
    with closing(apsw.Connection(str(database))) as connection:
        return sorted(key for (key,) in connection.execute("select key from accepted"))


async def write(database: SqliteDatabase, *keys: str) -> None:
    for key in keys:
        await database.write(note, key)


def reader(path: Path) -> apsw.Connection:
    """As long as it looks at this moment, nothing newer gets from the log into the file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.execute("begin")
    connection.execute("select count(*) from accepted").get  # noqa: B018
    return connection


def as_killed(home: Path, to: Path, *names: str) -> Path:
    """What a process that is killed now leaves, as far as it is named."""
    to.mkdir()
    for name in names:
        shutil.copy(home / name, to / name)
    return to / "state.db"


# --- under a running process


def remove(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def link_elsewhere(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))
    path.symlink_to(path.with_name("elsewhere.db"))


@pytest.mark.parametrize("looked", [True, False], ids=["read before", "not read before"])
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("deed", [remove, move, replace, link_elsewhere])
async def test_D12_nothing_is_accepted_once_a_file_of_the_database_was_taken_away(
    database: SqliteDatabase, tmp_path: Path, suffix: str, deed: Callable[[Path], None], looked: bool
) -> None:
    path = tmp_path / "home" / "state.db"
    await write(database, "one", "two")
    if looked:
        assert await database.read(count) == 2
    deed(path.with_name(path.name + suffix))
    with pytest.raises(StorageFault, match="was removed or replaced while it was in use") as fault:
        await write(database, "three")
    with pytest.raises(StorageFault, match="was removed or replaced"):
        await write(database, "four")
    saved = saved_copy(path)
    assert saved
    assert str(saved) in fault.value.message
    assert {"one", "two"} <= set(keys_in(saved))
    if looked:  # through what is open already
        assert await database.read(count) >= 2
    else:  # what stands there now is not opened for it
        with pytest.raises(StorageFault, match="was removed or replaced"):
            await database.read(count)
    with pytest.raises(StorageFault, match="was removed or replaced"):
        await database.back_up(tmp_path / "backup.db")


def copy_over(path: Path) -> None:
    """As `cp` does it: into the same file."""
    path.write_bytes(path.with_name("older.db").read_bytes())


def write_more(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size + 4096))


def empty(path: Path) -> None:
    os.truncate(path, 0)


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("deed", [copy_over, write_more, empty, halve])
async def test_D12_nothing_is_accepted_once_a_file_of_the_database_was_written_over(
    database: SqliteDatabase, tmp_path: Path, suffix: str, deed: Callable[[Path], None]
) -> None:
    path = tmp_path / "home" / "state.db"
    await write(database, "one")
    await database.back_up(path.with_name("older.db"))
    await write(database, *(f"{n}" for n in range(200)))
    deed(path.with_name(path.name + suffix))
    for _ in range(2):
        with pytest.raises(StorageFault, match="was written over while it was in use"):
            await write(database, "more")
    assert "were removed or replaced" in look_at(path)
    left = as_killed(path.parent, tmp_path / "left", "state.db", LOG, MARK)
    with pytest.raises(StorageFault, match="were removed or replaced"):
        await SqliteDatabase.open(left, Bus())
    recover(left, stamp=STAMP)
    assert look_at(left) == ""


async def test_D12_a_home_that_is_gone_is_noticed_too(database: SqliteDatabase, tmp_path: Path) -> None:
    await write(database, "one")
    shutil.rmtree(tmp_path / "home")
    with pytest.raises(StorageFault, match="could not be saved"):
        await write(database, "two")


async def test_D12_what_was_saved_is_asked_for_at_the_next_start_and_put_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    opened = await SqliteDatabase.open(path, Bus())
    await write(opened, "one", "two")
    path.unlink()
    with pytest.raises(StorageFault):
        await write(opened, "three")
    await opened.close()
    for there in (False, True):
        if there:
            path.touch(0o600)
        assert "is saved in" in look_at(path)
        with pytest.raises(StorageFault, match="is saved in"):
            await SqliteDatabase.open(path, Bus())
    saved = saved_copy(path)
    assert saved
    put_back(saved, path, stamp=STAMP)
    assert look_at(path) == ""
    opened = await SqliteDatabase.open(path, Bus())
    await write(opened, "four")
    await opened.close()
    assert {"one", "two", "four"} <= set(keys_in(path))
    assert saved_copy(path) is None, "it is not the last word any more"


# --- while nobody runs


async def test_D12_a_lost_log_is_missed_with_the_number_of_commits(database: SqliteDatabase, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(reader(home / "state.db")):
        await write(database, *(f"{n}" for n in range(10)))
        left = as_killed(home, tmp_path / "left", "state.db", MARK)
    assert "10 commits are missing" in look_at(left)
    with pytest.raises(StorageFault, match="10 commits are missing") as fault:
        await SqliteDatabase.open(left, Bus())
    assert "doctor --fix" in fault.value.hint
    done = recover(left, stamp=STAMP)
    assert not done.complete
    assert "10 commits are lost" in done.told()
    assert look_at(left) == ""


@pytest.mark.parametrize("pages", [0, 1, 7, 30])
async def test_D12_so_is_one_that_was_cut(database: SqliteDatabase, tmp_path: Path, pages: int) -> None:
    home = tmp_path / "home"
    with closing(reader(home / "state.db")):
        await write(database, *(f"{n}" for n in range(20)))
        left = as_killed(home, tmp_path / "left", "state.db", LOG, MARK)
    os.truncate(left.with_name(LOG), 32 + pages * (24 + 4096))  # twenty commits are more than that
    assert "commits are missing" in look_at(left)
    with pytest.raises(StorageFault, match="commits are missing"):
        await SqliteDatabase.open(left, Bus())


async def test_D12_an_older_copy_put_in_its_place_is_not_taken_for_it(database: SqliteDatabase, tmp_path: Path) -> None:
    home = tmp_path / "home"
    await write(database, "one")
    await database.back_up(tmp_path / "older.db")
    await write(database, "two", "three")
    left = as_killed(home, tmp_path / "left", MARK)
    shutil.copy(tmp_path / "older.db", left)
    assert "2 commits are missing" in look_at(left)
    with pytest.raises(StorageFault, match="or it is an older copy"):
        await SqliteDatabase.open(left, Bus())


def restored(path: Path, older: Path) -> None:
    put_back(older, path, stamp=STAMP)


def recovered(path: Path, older: Path) -> None:
    recover(path, stamp=STAMP)


def note_lost(path: Path, older: Path) -> None:
    path.with_name(MARK).unlink()


@pytest.mark.parametrize("repaired", [restored, recovered, note_lost])
async def test_D12_an_older_copy_is_noticed_also_after_a_repair(
    tmp_path: Path, repaired: Callable[[Path, Path], None]
) -> None:
    path = tmp_path / "state.db"
    opened = await SqliteDatabase.open(path, Bus())
    await write(opened, "one")
    await opened.back_up(tmp_path / "first.db")
    await write(opened, "two", "three")
    await opened.back_up(tmp_path / "second.db")
    await opened.close()
    repaired(path, tmp_path / "first.db")
    opened = await SqliteDatabase.open(path, Bus())
    await write(opened, "four")
    await opened.close()
    for older in ("first.db", "second.db"):
        shutil.copy(tmp_path / older, path)
        assert "missing" in look_at(path)
        with pytest.raises(StorageFault, match="or it is an older copy"):
            await SqliteDatabase.open(path, Bus())


async def test_D12_when_nobody_writes_for_a_moment_there_is_nothing_to_lose_with_the_log(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    keys = [f"{n:02}" for n in range(30)]
    await write(database, *keys)
    tries = iter(range(1000))

    def all_in_the_file() -> bool:
        left = as_killed(home, tmp_path / f"left{next(tries)}", "state.db", MARK)
        return look_at(left) == "" and keys_in(left) == keys

    wait_for(all_in_the_file)


async def test_D12_the_log_follows_when_a_long_reader_has_ended(database: SqliteDatabase, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with closing(reader(home / "state.db")):
        await write(database, "one", "two")
    tries = iter(range(1000))
    wait_for(lambda: look_at(as_killed(home, tmp_path / f"left{next(tries)}", "state.db", MARK)) == "")


async def test_D12_when_even_the_workspaces_are_lost_it_is_said_where_messages_can_be_read(
    tmp_path: Path,
) -> None:
    home, channel = tmp_path / "home", tmp_path / "project" / ".workspace" / "review" / "main" / "channel.jsonl"
    home.mkdir()
    channel.parent.mkdir(parents=True)
    channel.write_text('{"seq": 1, "text": "hello"}\n')
    opened = await SqliteDatabase.open(home / "state.db", Bus())
    await write(opened, "one")
    await opened.close()
    for name in ("state.db", LOG):
        (home / name).unlink(missing_ok=True)
    done = recover(home / "state.db", stamp=STAMP, channels=[channel])
    assert not done.complete
    assert "1 commit is lost" in done.told()
    assert f"can be read in {channel}" in done.told()


async def test_D12_another_program_that_uses_the_database_as_one_is_no_stranger(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    await write(database, "one")
    with closing(apsw.Connection(str(tmp_path / "home" / "state.db"))) as other:
        other.execute("insert into accepted(project, key, ref, at) values ('p', 'theirs', '', 0)")
        await write(database, "two")
    await write(database, "three")
    assert await database.read(count) == 4
