"""The n-th write, sync or truncate of the database fails, for every n: all of a change is there, or nothing of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from agent_worker.core.errors import StorageFault
from agent_worker.core.events import Bus, Posted
from agent_worker.database.database import Transaction
from agent_worker.database.sqlite import SqliteDatabase
from tests.faults.broken_disk import NAME, BrokenDisk, Plan
from tests.faults.report import LONG, SEED, report
from tests.patience import PATIENCE

pytestmark = pytest.mark.sqlite("breaks the disk below its file")

CHANGES = 24
EVERY = 1 if LONG else 4  # of the points; which ones, chance decides
KINDS = [(apsw.FullError, False), (apsw.FullError, True), (apsw.IOError, False), (apsw.IOError, True)]


@pytest.fixture(scope="module")
def disk() -> Iterator[BrokenDisk]:
    disk = BrokenDisk()
    yield disk
    disk.unregister()


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A migrated, empty database to start each trial from."""
    path = tmp_path / "fresh.db"

    async def make() -> None:
        database = await SqliteDatabase.open(path, Bus())
        await database.write(lambda tx: tx.run("insert into project(id, identity, name) values ('p', '/', 'p')"))
        await database.close()

    asyncio.run(make())
    return path


def change(tx: Transaction, n: int) -> int:
    """Several rows in two tables that belong together, some of them large."""
    for part in range(3):
        tx.run(
            "insert into accepted(project, key, ref, at) values ('p', :key, :ref, 0)", key=f"{n}/{part}", ref="x" * 500
        )
    tx.run(
        "insert into agent(id, project, name, kind) values (:id, 'p', :id, :kind)",
        id=f"a{n}",
        kind="k" * (3000 if n % 5 == 0 else 10),
    )
    tx.tell(Posted(seq=n, id=str(n), sender="", text=""))
    return n


async def trial(path: Path) -> tuple[set[int], set[int], list[StorageFault], SqliteDatabase]:
    """What was answered with success, what was told, and what was refused. Some changes come alone, some together."""
    bus = Bus()
    told: set[int] = set()
    bus.listen(lambda event: told.add(event.seq) if isinstance(event, Posted) else None)
    database = await SqliteDatabase.open(path, bus, vfs=NAME)
    answered: set[int] = set()
    refused: list[StorageFault] = []
    for first in range(0, CHANGES, 4):
        group = range(first, first + 4)
        if first % 8:
            outcomes = await asyncio.gather(*(database.write(change, n) for n in group), return_exceptions=True)
        else:
            outcomes = [(await asyncio.gather(database.write(change, n), return_exceptions=True))[0] for n in group]
        for outcome in outcomes:
            if isinstance(outcome, StorageFault):
                refused.append(outcome)
            else:
                assert isinstance(outcome, int), outcome
                answered.add(outcome)
    return answered, told, refused, database


def stored(path: Path) -> set[int]:
    """Read with an honest disk: which changes are there. One that is there in part is a failure."""
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("pragma integrity_check").get == "ok"
        keys = {key for (key,) in connection.execute("select key from accepted")}
        agents = {int(id[1:]) for (id,) in connection.execute("select id from agent")}
    finally:
        connection.close()
    whole = {n for n in range(CHANGES) if {f"{n}/{part}" for part in range(3)} <= keys}
    assert len(keys) == 3 * len(whole), "half of a change is there"
    assert agents == whole, "half of a change is there"
    return whole


def copied(fresh: Path, n: int) -> Path:
    path = fresh.with_name(f"trial{n}.db")
    shutil.copy(fresh, path)
    return path


async def points(disk: BrokenDisk, fresh: Path, operations: tuple[str, ...]) -> int:
    disk.plan = Plan(operations=operations)  # type: ignore[arg-type]
    *_, database = await trial(copied(fresh, 0))
    count = disk.plan.passed
    await database.close()
    return count


@pytest.mark.parametrize(("error", "sticky"), KINDS)
async def test_D3_a_failing_write_or_sync_leaves_no_half_effect_and_no_false_success(
    disk: BrokenDisk, fresh: Path, error: type[apsw.Error], sticky: bool
) -> None:
    count = await points(disk, fresh, ("write", "sync", "truncate"))
    assert count > 50
    struck = 0
    for at in range(1 + SEED % EVERY, count + 1, EVERY):
        path = copied(fresh, at)
        disk.plan = Plan(at, error, sticky)
        try:
            answered, told, refused, database = await asyncio.wait_for(trial(path), PATIENCE)
        except (StorageFault, apsw.Error):
            answered, told, refused, database = set(), set(), [], None  # it did not even open: nothing was promised
        struck += disk.plan.struck
        kept_working = await _still_writes(database, disk) if database else None
        assert told == answered
        present = stored(path)
        assert answered <= present, f"point {at}: accepted and lost: {answered - present}"
        if refused and error is apsw.FullError:
            assert present == answered, f"point {at}: refused and there all the same"
            assert kept_working, f"point {at}: a full disk must be a passing thing"
        if refused and error is apsw.IOError:
            assert not kept_working, f"point {at}: D5: a broken disk was trusted again"
        path.unlink()
    report.count("D3 fault points", struck)


async def _still_writes(database: SqliteDatabase, disk: BrokenDisk) -> bool:
    """With an honest disk again: does it accept? What it accepts must be there."""
    disk.plan = Plan()
    try:
        await database.write(lambda tx: tx.run("insert into project(id, identity, name) values ('q', '/q', 'q')"))
    except StorageFault:
        return False
    else:
        return bool(await database.read(lambda tx: tx.all("select id from project where id = 'q'")))
    finally:
        await database.close()


async def test_D5_an_error_on_reading_is_a_storage_fault_and_never_a_wrong_answer(
    disk: BrokenDisk, fresh: Path
) -> None:
    path = copied(fresh, 1)
    for at in range(1, 40):
        disk.plan = Plan()
        database = await SqliteDatabase.open(path, Bus(), vfs=NAME)
        disk.plan = Plan(at, apsw.IOError, True, ("read",))
        for _ in range(3):
            try:
                assert await database.read(lambda tx: tx.all("select id from project")) == [{"id": "p"}]
            except StorageFault:
                report.count("D5 failed reads")
        disk.plan = Plan()
        await database.close()
