"""An upgrade that is killed: the old schema or the new one, never something in between, and a copy to go back to."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import apsw
import pytest

from agent_worker.core.errors import StorageFault, UnknownSchema
from agent_worker.core.events import Bus
from agent_worker.database.migrations import migrate, versions
from agent_worker.database.recovery import look_at
from agent_worker.database.sqlite import SqliteDatabase, connect
from tests.faults.driver import Killed, Nursery
from tests.faults.report import report
from tests.faults.worker import Order, upgraded

pytestmark = pytest.mark.sqlite("kills an upgrade of its file")

NEWEST = versions()[-1][0]
PROJECTS = [("p", "/", "shop")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of today, with something in it."""
    path = tmp_path / "state.db"

    async def make() -> None:
        database = await SqliteDatabase.open(path, Bus())
        await database.write(lambda tx: tx.run("insert into project(id, identity, name) values ('p', '/', 'shop')"))
        await database.close()

    asyncio.run(make())
    return path


def shape(connection: apsw.Connection) -> tuple[int, set[str]]:
    """The version it says it has, and the names of what is in it."""
    names = {name for (name,) in connection.execute("select name from sqlite_schema where name not like 'sqlite_%'")}
    version = connection.execute("select coalesce(max(version), 0) from migration").get if "migration" in names else 0
    return version, names


def shapes_by_version() -> dict[int, set[str]]:
    """What each version looks like when it is made without any trouble."""
    found = {0: {"migration"}}
    for count in range(1, len(upgraded()) + 1):
        connection = apsw.Connection(":memory:")
        migrate(connection, None, upgraded()[:count])
        version, names = shape(connection)
        found[version] = names
    return found


def die_at(nursery: Nursery, home: Path, statement: int) -> bool:
    """Migrate in another process; False when it got to the end."""
    life = nursery.life(Order(str(home), (), kill_at_statement=statement))
    try:
        life.until("bye")
    except Killed:
        return True
    finally:
        life.close()
    return False


@pytest.mark.parametrize("fresh", [True, False])
def test_R10_a_migration_killed_at_any_statement_leaves_the_old_or_the_new_schema(
    nursery: Nursery, path: Path, tmp_path: Path, fresh: bool
) -> None:
    before = path.read_bytes()
    known = shapes_by_version()
    seen = set()
    for statement in range(1, 1000):
        for leftover in tmp_path.glob("state.db*"):
            leftover.unlink()
        if not fresh:
            path.write_bytes(before)
        killed = die_at(nursery, tmp_path, statement)
        connection = connect(str(path), write=True)
        assert connection.execute("pragma integrity_check").get == "ok"
        version, names = shape(connection)
        assert names == known[version] or (names == set() and version == 0), f"statement {statement}"
        migrate(connection, path, upgraded())
        assert shape(connection) == (NEWEST + 2, known[NEWEST + 2])
        if not fresh:
            assert list(connection.execute("select id, identity, name from project")) == PROJECTS
            assert list(connection.execute("select id, colour from shelf")) == [("p", "blue")]
            check_copy(tmp_path / f"state.db.version-{NEWEST:04}")
        connection.close()
        seen.add(version)
        if not killed:
            break
        report.count("R10 kills at statements")
    assert seen >= ({0, NEWEST + 2} if fresh else {NEWEST, NEWEST + 1, NEWEST + 2})


def check_copy(path: Path) -> None:
    """The one made before the first change: the old version, whole, for its owner only."""
    assert path.stat().st_mode & 0o777 == 0o600
    copy = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        assert copy.execute("pragma integrity_check").get == "ok"
        assert shape(copy)[0] == NEWEST
        assert list(copy.execute("select id, identity, name from project")) == PROJECTS
    finally:
        copy.close()


async def test_R10_an_older_program_refuses_a_newer_database_with_a_sentence(path: Path) -> None:
    connection = connect(str(path), write=True)
    migrate(connection, path, upgraded())
    connection.close()
    expected = f"the database has schema version {NEWEST + 2}, this program knows {NEWEST}"
    with pytest.raises(StorageFault, match=re.escape(expected)) as refusal:
        await SqliteDatabase.open(path, Bus())
    assert "backup" in refusal.value.hint


@pytest.mark.parametrize("made", ["alter table migration drop column digest", "update migration set digest = 'other'"])
def test_R10_a_database_that_another_version_made_is_refused_and_left_as_it_is(path: Path, made: str) -> None:
    connection = connect(str(path), write=True)
    connection.execute(made)
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UnknownSchema, match="another version of agent-worker made this database"):
        asyncio.run(_opened(path))
    with pytest.raises(UnknownSchema, match="it is left as it is"):
        look_at(path)  # or it would be taken for damaged, and mended
    assert path.read_bytes() == before


async def _opened(path: Path) -> None:
    await (await SqliteDatabase.open(path, Bus())).close()
