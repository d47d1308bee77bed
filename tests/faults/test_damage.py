"""A damaged database is noticed, kept, and recovered as far as it can be read; nobody is served half of one unawares.

What is promised about bytes that change inside a text is in docs/decisions/0009: SQLite keeps no sums, so such a text
is as wrong as the disk made it. Everything else that is wrong must be noticed.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_worker.core.errors import StorageFault
from agent_worker.core.events import Bus
from agent_worker.database.recovery import look_at, recover
from agent_worker.database.restore import look_into
from agent_worker.database.sqlite import SqliteDatabase
from tests.faults import oracle
from tests.faults.driver import Books, Nursery, Scene
from tests.faults.report import LONG, SEED, report

pytestmark = pytest.mark.sqlite("damages the pages of its file")

CASES = 500 if LONG else 30
PAGE = 4096
NAMES = ("state.db", "state.db-wal", "state.db.mark")
STAMP = "20260101T000000"
TABLES = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'"
LIMITS = "limits: { turns: off, usd: off }\n"

Row = tuple[Any, ...]
Tables = dict[str, dict[Row, Row]]  # table → key → row


@dataclass(frozen=True)
class Victim:
    """A database as a killed daemon leaves it: most of it in the file, the last of it in the log."""

    scene: Scene
    whole: Tables
    log_before: bytes  #: the same database's, of an earlier life

    def copied(self, to: Path) -> Path:
        to.mkdir()
        for name in NAMES:
            shutil.copy(self.scene.home / name, to / name)
        return to / "state.db"


@pytest.fixture(scope="module", params=["with files and a backup", "alone"])
def victim(request: pytest.FixtureRequest, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Victim:
    alone = request.param == "alone"
    home = tmp_path_factory.mktemp("victim")
    scene = Scene(nursery, home, workflow=LIMITS + ("workspace: { provider: sqlite }\n" if alone else ""))
    chance = random.Random(1)
    with scene.life() as life:
        life.until("ready")
        talk(scene, life, chance, 25)
        log = (home / "state.db-wal").read_bytes()
        life.ask(stop=True)
        scene.hear_until(life, lambda said: "bye" in said)
    with scene.life() as life:
        life.until("ready")
        if not alone:
            life.ask(backup=str(home / "backup.db"))
            scene.hear_until(life, lambda said: "backed_up" in said)
        talk(scene, life, chance, 10)
    assert (home / "state.db-wal").stat().st_size > 10 * PAGE
    assert (home / "state.db").stat().st_size > 40 * PAGE
    copy = tmp_path_factory.mktemp("copy")
    for name in NAMES:
        shutil.copy(home / name, copy / name)
    return Victim(scene, contents(copy / "state.db"), log)


def talk(scene: Scene, life: Any, chance: random.Random, count: int) -> None:
    for _ in range(count):
        key = f"k{len(scene.books.sent)}"
        filler = chance.choice(("", "x" * 300, "long " * 2000))
        scene.send(life, key, "@review", f"@{chance.choice(scene.members)} work:{key} hops:2 {filler}")
    scene.hear_answers(life)
    life.ask(quiet=True)
    scene.hear_until(life, lambda said: "quiet" in said)


def contents(database: Path) -> Tables:
    """Every row of every table, by its primary key."""
    with closing(apsw.Connection(str(database))) as connection:
        return {name: _rows(connection, name) for (name,) in list(connection.execute(TABLES))}


def _rows(connection: apsw.Connection, table: str) -> dict[Row, Row]:
    columns = list(connection.execute(f"pragma table_info({table})"))
    keys = [n for n, column in enumerate(columns) if column[5]]
    return {tuple(row[n] for n in keys): row for row in connection.execute(f"select * from {table}")}


# --- what is done to it


def flip_bits(home: Path, victim: Victim, chance: random.Random) -> int:
    path = home / chance.choice(("state.db", "state.db", "state.db-wal"))
    content = bytearray(path.read_bytes())
    count = chance.choice((1, 1, 3, 20))
    for _ in range(count):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return count


def zero_pages(home: Path, victim: Victim, chance: random.Random) -> int:
    return overwrite(home / "state.db", chance, lambda: bytes(PAGE))


def fill_pages_with_noise(home: Path, victim: Victim, chance: random.Random) -> int:
    return overwrite(home / "state.db", chance, lambda: chance.randbytes(PAGE))


def swap_pages(home: Path, victim: Victim, chance: random.Random) -> int:
    content = (home / "state.db").read_bytes()
    number = chance.randrange(len(content) // PAGE)
    return overwrite(home / "state.db", chance, lambda: content[number * PAGE :][:PAGE])


def overwrite(path: Path, chance: random.Random, page: Callable[[], bytes]) -> int:
    count = chance.choice((1, 1, 2, 10))
    with path.open("r+b") as file:
        for _ in range(count):
            file.seek(chance.randrange(path.stat().st_size // PAGE) * PAGE)
            file.write(page())
    return count


def cut(home: Path, victim: Victim, chance: random.Random) -> int:
    path = home / chance.choice(("state.db", "state.db-wal"))
    size = path.stat().st_size
    os.truncate(path, chance.choice((0, chance.randrange(size), size // PAGE // 2 * PAGE)))
    return 0


def lose_the_log(home: Path, victim: Victim, chance: random.Random) -> int:
    (home / "state.db-wal").unlink()
    return 0


def swap_the_log(home: Path, victim: Victim, chance: random.Random) -> int:
    (home / "state.db-wal").write_bytes(victim.log_before)
    return 0


def spoil_the_head(home: Path, victim: Victim, chance: random.Random) -> int:
    with (home / "state.db").open("r+b") as file:
        file.write(chance.randbytes(chance.choice((16, 100, PAGE))))
    return 0


DAMAGE = (
    flip_bits,
    flip_bits,
    zero_pages,
    fill_pages_with_noise,
    swap_pages,
    cut,
    lose_the_log,
    swap_the_log,
    spoil_the_head,
)


# --- what must hold


async def serve(database: Path) -> Tables | StorageFault:
    """As the daemon does it: open, look at every page, read everything."""
    try:
        opened = await SqliteDatabase.open(database, Bus())
    except StorageFault as fault:
        return fault
    try:
        await opened.check()
        for name in await opened.read(lambda tx: [row["name"] for row in tx.all(TABLES)]):
            await opened.read(lambda tx, name=name: tx.all(f"select * from {name}"))
    except StorageFault as fault:
        with pytest.raises(StorageFault):  # from now on nothing is accepted
            await opened.write(lambda tx: tx.run("update project set name = 'x'"))
        return fault
    finally:
        await opened.close()
    return contents(database)


def check_unnoticed(whole: Tables, found: Tables, spots: int) -> int:
    """Damage that nobody noticed is inside texts: no row is missing or new. How many rows are wrong."""
    wrong = 0
    for name, rows in whole.items():
        assert found[name].keys() == rows.keys() or spots, name
        wrong += sum(found[name].get(key) != row for key, row in rows.items())
    assert wrong <= spots * 60, "a page holds no more rows"
    return wrong


def cases(victim: Victim, tmp_path: Path) -> Iterator[tuple[random.Random, Path, int, str]]:
    for n in range(CASES // 2):
        seed = SEED + n
        with report.seeded("G1", seed) as chance:
            damage = DAMAGE[n % len(DAMAGE)]
            database = victim.copied(tmp_path / str(n))
            yield chance, database, damage(database.parent, victim, chance), damage.__name__
            shutil.rmtree(database.parent)


@pytest.mark.timeout(900)
def test_G1_damage_is_noticed_and_nothing_but_a_text_is_ever_served_wrong(victim: Victim, tmp_path: Path) -> None:
    for _, database, spots, name in cases(victim, tmp_path):
        found = asyncio.run(serve(database))
        if isinstance(found, StorageFault):
            report.count("G1 noticed")
            assert "doctor --fix" in found.hint, found.hint
        elif check_unnoticed(victim.whole, found, spots):
            report.count("G1 bytes inside texts")
            assert name in ("flip_bits", "zero_pages", "fill_pages_with_noise", "swap_pages"), name
        else:
            report.count("G1 harmless")


@pytest.mark.timeout(900)
def test_G1_what_can_be_read_is_recovered_with_numbers_and_the_damaged_file_is_kept(
    victim: Victim, tmp_path: Path
) -> None:
    messages = victim.whole["message"]
    backups = [path] if (path := victim.scene.home / "backup.db").exists() else []
    for _, database, spots, name in cases(victim, tmp_path):
        damaged = database.read_bytes()
        done = recover(database, stamp=STAMP, backups=backups)
        assert done.kept is not None
        assert done.kept.read_bytes() == damaged
        assert look_at(database) == "", name
        assert asyncio.run(serve(database)), name
        found = contents(database)["message"]
        assert len(found) == done.messages <= done.expected
        assert f"{done.messages:,} of {done.expected:,} messages" in done.told()
        strange = [key for key, row in found.items() if key not in messages or said(messages[key]) != said(row)]
        assert len(strange) <= spots * 60, name
        if backups and done.expected:
            lost = messages.keys() - found.keys() - filed(victim)
            assert len(messages.keys() - found.keys()) == len(lost), f"{name}: its file has them"
        report.count("G1 recoveries")
        report.count("G1 messages there afterwards", done.messages)
        report.count("G1 messages there before", len(messages))


def said(message: Row) -> Row:
    """A file does not know the run, and times to the millisecond only."""
    return message[:6]


def filed(victim: Victim) -> set[Row]:
    """The messages that stand in the channel's file."""
    (workspace,) = victim.whole["workspace"].values()
    return {(workspace[0], seq) for (seq,) in oracle.records(victim.scene.workspace / "channel.jsonl", "seq")}


@pytest.mark.parametrize("trial", range(10 if LONG else 2))
def test_G1_a_recovered_database_is_gone_on_with_and_everything_left_in_it_comes_to_an_end(
    victim: Victim, tmp_path: Path, trial: int
) -> None:
    with report.seeded("G1", SEED + trial) as chance:
        other = Scene(victim.scene.nursery, tmp_path / "other", victim.scene.members, workflow=LIMITS)
        for name in NAMES:
            shutil.copy(victim.scene.home / name, other.home / name)
        zero_pages(other.home, victim, chance)
        recover(other.home / "state.db", stamp=STAMP)
        with closing(apsw.Connection(str(other.home / "state.db"))) as moved:
            moved.execute("update checkout set root = ?", (str(other.project),))
            moved.execute("update workspace set directory = ''")
        other.books = Books(tmp_path / "books.txt")
        other.settle()
        assert oracle.rows(other, "pragma integrity_check") == [{"integrity_check": "ok"}]
        oracle.check_ends(other)


@pytest.mark.parametrize("emptied", [False, True])
def test_G1_a_database_that_is_gone_is_missed_and_comes_back_from_its_backup(
    victim: Victim, tmp_path: Path, emptied: bool
) -> None:
    database = victim.copied(tmp_path / "gone")
    for name in NAMES[:2]:
        (database.parent / name).unlink()
    if emptied:
        database.touch()
    assert "had been stored" in look_at(database)
    fault = asyncio.run(serve(database))
    assert isinstance(fault, StorageFault)
    backups = list(victim.scene.home.glob("backup.db"))
    done = recover(database, stamp=STAMP, backups=backups)
    assert look_at(database) == ""
    assert bool(done.messages) == bool(backups)


@pytest.mark.parametrize("table", ["workspace", "project"])
def test_G1_what_was_said_is_kept_although_the_place_it_was_said_in_is_lost(
    victim: Victim, tmp_path: Path, table: str
) -> None:
    database = victim.copied(tmp_path / "placeless")
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute(f"delete from {table}")
    done = recover(database, stamp=STAMP)
    assert look_at(database) == ""
    assert done.messages == done.expected == len(victim.whole["message"])
    assert isinstance(asyncio.run(serve(database)), dict)


def test_G1_a_whole_database_is_found_whole(victim: Victim, tmp_path: Path) -> None:
    database = victim.copied(tmp_path / "whole")
    assert look_at(database) == ""
    assert asyncio.run(serve(database)) == victim.whole
    assert look_into(victim.scene.home / "backup.db") if (victim.scene.home / "backup.db").exists() else True
