"""The power goes: what was answered with success is there, and of what was not there is all or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_worker.core.events import Bus
from agent_worker.database.sqlite import SqliteDatabase
from tests.faults.power_cut import NAME, Disk
from tests.faults.report import LONG, SEED, report
from tests.faults.test_broken_disk import CHANGES, change, stored

pytestmark = pytest.mark.sqlite("cuts the power of the disk below its file")

TRIALS = 20 if LONG else 2
CUTS = 5  # in one trial


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


async def made(path: Path) -> SqliteDatabase:
    """A database that existed before, on the disk that will lose its power."""
    first = await SqliteDatabase.open(path, Bus())
    await first.write(lambda tx: tx.run("insert into project(id, identity, name) values ('p', '/', 'p')"))
    await first.close()
    return await SqliteDatabase.open(path, Bus(), vfs=NAME)


@pytest.mark.parametrize("trial", range(TRIALS))
async def test_D2_what_was_accepted_is_there_after_a_power_cut(disk: Disk, tmp_path: Path, trial: int) -> None:
    with report.seeded("D2", SEED + trial) as chance:
        database = await made(tmp_path / "state.db")
        moments = set(chance.sample(range(0, CHANGES, 2), CUTS))
        answered: set[int] = set()
        for n in range(0, CHANGES, 2):
            answered |= {*await asyncio.gather(database.write(change, n), database.write(change, n + 1))}
            if n in moments:
                disk.cut(tmp_path / f"cut{n}", chance)
                found = stored(tmp_path / f"cut{n}" / "state.db")
                assert answered <= found, f"accepted and lost: {answered - found}"
                report.count("D2 power cuts")
        await database.close()
