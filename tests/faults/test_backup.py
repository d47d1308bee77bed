"""A backup that is made while a team talks is whole, ends at one moment, and can be gone on with elsewhere."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.failpoints import VARIABLE
from agent_worker.database.migrations import migrate
from agent_worker.database.restore import look_into, put_back
from agent_worker.database.sqlite import connect
from tests.faults import oracle
from tests.faults.driver import Books, Life, Nursery, Scene
from tests.faults.report import LONG, SEED, report

pytestmark = pytest.mark.sqlite("PostgreSQL makes its own backups")

BACKUPS = 50 if LONG else 4
STAMP = "20260101T000000"


def talk(scene: Scene, life: Life, chance: random.Random) -> None:
    for _ in range(chance.randint(2, 6)):
        key = f"k{len(scene.books.sent)}"
        member = chance.choice(scene.members)
        to, text = chance.choice(((member, f"work:{key}"), ("@review", f"@{member} work:{key} hops:2")))
        scene.send(life, key, to, text)
    scene.hear_lines(life, chance.randint(0, 30))


@pytest.mark.timeout(600)
def test_D9_a_backup_taken_under_load_restores(nursery: Nursery, tmp_path: Path) -> None:
    with report.seeded("D9", SEED) as chance:
        scene = Scene(nursery, tmp_path / "home", workflow="limits: { turns: off, usd: off }\n")
        made: dict[Path, set[str]] = {}
        with scene.life() as life:
            life.until("ready")
            for n in range(BACKUPS):
                talk(scene, life, chance)
                path = tmp_path / f"{n}.db"
                made[path] = set(scene.books.accepted)
                life.ask(backup=str(path))
                talk(scene, life, chance)
                while {"backed_up": str(path)} not in life.seen:
                    scene.books.note(life.next())
        scene.settle()
        for path, accepted in made.items():
            assert path.stat().st_mode & 0o777 == 0o600
            check_moment(scene, path, accepted)
            report.count("D9 backups")
        for path in list(made)[:: 10 if LONG else 2]:
            go_on_elsewhere(scene, path, tmp_path / f"{path.stem}-elsewhere")
            report.count("D9 backups gone on with elsewhere")


def check_moment(scene: Scene, path: Path, accepted: set[str]) -> None:
    """All that was accepted before it was asked for, and of everything else the beginning, without a gap."""
    assert look_into(path).files == {"trust.json": b"{}"}
    with closing(apsw.Connection(str(path))) as backup:
        assert accepted <= {key for (key,) in backup.execute("select key from accepted")}
        ends = dict(backup.execute("select id, seq from workspace"))
        said = list(backup.execute("select workspace, seq, id, text from message order by workspace, seq"))
    kept = [tuple(row.values()) for row in oracle.rows(scene, "select workspace, seq, id, text from message")]
    assert said == sorted(row for row in kept if row[1] <= ends.get(row[0], 0))
    assert len(said) == sum(ends.values())


def go_on_elsewhere(scene: Scene, path: Path, home: Path) -> None:
    """In a home that knows nothing, with files that nobody has written to yet."""
    other = Scene(scene.nursery, home, scene.members, workflow="limits: { turns: off, usd: off }\n")
    put_back(path, home / "state.db", stamp=STAMP)
    with closing(connect(str(home / "state.db"), write=True)) as moved:
        moved.execute("update checkout set root = ?", (str(other.project),))
        known = dict(moved.execute("select key, ref from accepted"))
    books = Books(home / "books.txt")
    books.sent = {key: what for key, what in scene.books.sent.items() if key in known}
    books.accepted = {key: id for key, id in known.items() if key in books.sent}
    other.books = books
    other.settle()
    assert oracle.rows(other, "pragma integrity_check") == [{"integrity_check": "ok"}]
    for looked_at in (oracle.check_accepted, oracle.check_ends, oracle.check_once, oracle.check_logs):
        looked_at(other)


# --- restoring


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "state.db"
    fill(path, "old")
    return path


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    path = tmp_path / "backup.db"
    fill(path, "new")
    return path


def fill(path: Path, word: str) -> None:
    connection = connect(str(path), write=True)
    migrate(connection, path)
    connection.execute("insert into project(id, identity, name) values (?, ?, ?)", (word, word, word))
    connection.close()


def word_in(path: Path) -> str:
    with closing(apsw.Connection(str(path))) as connection:
        return str(connection.execute("select name from project").get)


def test_D9_what_was_there_is_set_aside_with_its_last_commits(database: Path, backup: Path) -> None:
    living = connect(str(database), write=True)
    living.execute("pragma wal_autocheckpoint = 0")
    living.execute("update project set name = 'last words'")
    left = {suffix: Path(f"{database}{suffix}").read_bytes() for suffix in ("", "-wal")}
    living.close()
    for suffix, content in left.items():  # as a killed process leaves it
        Path(f"{database}{suffix}").write_bytes(content)
    found, aside = put_back(backup, database, stamp=STAMP)
    assert aside == database.with_name(f"state.db.replaced-{STAMP}")
    assert word_in(database) == "new"
    assert word_in(aside) == "last words"
    assert found.messages == 0
    assert put_back(backup, database, stamp=STAMP)[1] == database.with_name(f"state.db.replaced-{STAMP}-1")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero_a_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 5)
        file.write(bytes(4096))


def add_a_trigger(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("create trigger t after insert on message begin delete from ledger; end")


def make_it_newer(path: Path) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("insert into migration values (99, '')")


def make_it_foreign(path: Path) -> None:
    path.unlink()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("create table cake (layer)")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (cut, "damaged|not a backup"),
        (zero_a_page, "damaged|not a backup"),
        (lambda path: path.write_bytes(b"a letter to my mother" * 300), "not a backup"),
        (lambda path: path.write_bytes(b""), "not one of ours"),
        (add_a_trigger, "does not have the tables"),
        (make_it_newer, "schema version 99"),
        (make_it_foreign, "not one of ours"),
        (lambda path: path.unlink(), "there is no file"),
        (lambda path: Path(f"{path}-wal").write_bytes(b"x"), "in use"),
    ],
)
def test_D9_what_is_no_whole_backup_is_refused_and_changes_nothing(
    database: Path, backup: Path, spoil: Callable[[Path], Any], told: str
) -> None:
    spoil(backup)
    with pytest.raises((BadInput, Refused), match=told):
        put_back(backup, database, stamp=STAMP)
    assert word_in(database) == "old"
    assert {p.name for p in database.parent.iterdir() if p.name.startswith("state.db")} == {"state.db"}


@pytest.mark.parametrize("point", ["backup.rename", "restore.rename"])
def test_D9_killed_in_the_middle_the_database_is_the_old_one_and_no_half_backup_is_taken_for_one(
    database: Path, backup: Path, point: str
) -> None:
    script = """
import apsw, sys
from pathlib import Path
from agent_worker.database.backup import copy
from agent_worker.database.restore import put_back
database, backup = map(Path, sys.argv[1:])
copy(apsw.Connection(str(database)), database.with_name("made.db"))
put_back(backup, database, stamp="s")
"""
    command = [sys.executable, "-c", script, str(database), str(backup)]
    done = subprocess.run(command, env=os.environ | {VARIABLE: f"{point}=kill"}, check=False)
    assert done.returncode < 0
    assert word_in(database) == "old"
    assert database.with_name("made.db").exists() == (point == "restore.rename")
    found, _ = put_back(backup, database, stamp=STAMP)
    assert (word_in(database), found.messages) == ("new", 0)
