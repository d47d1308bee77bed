"""kill -9 at every named place in the source, and at the first few passings of each."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import agent_worker
from agent_worker.core.failpoints import VARIABLE
from agent_worker.database.migrations import versions
from tests import engine, stored
from tests.faults.driver import Killed, Life, Nursery, Scene, wait_for
from tests.faults.oracle import check
from tests.faults.report import LONG, report
from tests.faults.worker import Order

#: passed while a team talks, keeps texts and appends to a document
TALKING = (
    "accept.before_message",
    "commit.before",
    "commit.after",
    "lease.before",
    "lease.after",
    "step.after_call",
    "step.after_persist",
    "call.before",
    "call.after",
    "document.before_file",
    "document.after_file",
    "finish.before_commit",
    "finish.after_commit",
    "outbox.before_append",
    "outbox.after_append",
    "outbox.after_fsync",
    "replace.tmp",
    "replace.rename",
    "replace.dirsync",
)
#: passed once, when an instance begins
STARTING = ("attach", "setup.before", "setup.after", *(f"migrate.{number}" for number, _ in versions()))
#: each has a test of its own
APART = (
    *("detach", "schedule.tick", "backup.rename", "restore.rename", "transfer.commit"),
    *("hook.claimed", "hook.started", "otel.sent"),
)

FILES_ONLY = ("document.before_file", "document.after_file")

PASSINGS = range(1, 11) if LONG else (1, 4)
LATER = range(11, 61) if LONG else (12, 20, 30)  # commits: the first ones belong to the start
PLACES = [(name, n) for name in TALKING for n in (*PASSINGS, *(LATER if name.startswith("commit") else ()))]
KICKOFF = 'setup:\n  - { shell: "echo hello", as: greeting }\nkickoff: "@alice work:kick hops:1 ${{ greeting }}"\n'


def names_in_source() -> set[str]:
    found = set()
    for path in Path(agent_worker.__file__).parent.rglob("*.py"):
        for name in re.findall(r'\bfailpoint\(f?"([^"]+)"\)', path.read_text()):
            found |= {f"migrate.{n}" for n, _ in versions()} if name == "migrate.{number}" else {name}
    return found


def test_D1_every_failpoint_of_the_source_is_killed_at() -> None:
    assert names_in_source() == {*TALKING, *STARTING, *APART}


@pytest.mark.parametrize(("name", "passing"), PLACES)
def test_D1_accepted_messages_survive_kill_9_at(nursery: Nursery, tmp_path: Path, name: str, passing: int) -> None:
    if engine.is_postgresql() and name in FILES_ONLY:
        pytest.skip("with PostgreSQL documents are rows, and what is written to files are copies of them")
    scene = Scene(nursery, tmp_path)
    for n, member in enumerate(scene.members):
        scene.intend(f"k{n}", "@review", f"@{member} work:k{n} hops:2")
        scene.intend(f"d{n}", member, f"work:d{n}")
    killed = False
    with scene.life(failpoints=f"{name}=kill:{passing}") as life:
        try:
            life.until("ready")
            scene.send_again(life)
            scene.hear_answers(life)
            life.ask(quiet=True)
            scene.hear_until(life, lambda said: "quiet" in said)
        except Killed:
            killed = True
    assert killed or passing > 1, f"{name} is not passed by this work"
    scene.settle()
    check(scene)
    assert {row["state"] for row in scene.read(stored.instructions)} == {"done"}
    report.count("D1 kills at failpoints", killed)


@pytest.mark.parametrize("name", STARTING)
def test_D1_a_start_that_is_killed_is_gone_on_with_and_kicks_off_once(
    nursery: Nursery, tmp_path: Path, name: str
) -> None:
    if engine.is_postgresql() and name.startswith("migrate."):
        pytest.skip("PostgreSQL makes all tables in one transaction: tests/database/test_postgres.py")
    scene = Scene(nursery, tmp_path, workflow=KICKOFF)
    with scene.life(failpoints=f"{name}=kill") as life, pytest.raises(Killed):
        life.until("ready")
    for _ in range(2):
        scene.settle()
        check(scene)
        assert [row["text"] for row in scene.read(stored.messages, sender="user")] == ["@alice work:kick hops:1 hello"]
    report.count("D1 kills at failpoints")


def test_D1_an_end_that_is_killed_leaves_everything_in_place(nursery: Nursery, tmp_path: Path) -> None:
    scene = Scene(nursery, tmp_path, workflow=KICKOFF)
    with scene.life(failpoints="detach=kill") as life:
        life.until("ready")
        life.ask(quiet=True)
        life.until("quiet")
        life.ask(end=True)
        with pytest.raises(Killed):
            life.until("summary")
    check(scene)
    report.count("D1 kills at failpoints")


@pytest.mark.parametrize("passing", range(1, 5))
def test_R9_a_schedule_slot_fires_once_when_its_tick_is_killed(nursery: Nursery, tmp_path: Path, passing: int) -> None:
    scene = Scene(nursery, tmp_path, ("alice",))
    definition = 'backend: mock\nschedule: { at: "2099-01-01T00:00", prompt: "work:tick" }\n'
    (scene.project / ".agents" / "alice.yaml").write_text(definition)
    with scene.life() as life:
        life.until("ready")
    stored.write(scene.home / "state.db", stored.change, "schedule", due_at=1)  # and then time passed
    with scene.life(failpoints=f"schedule.tick=kill:{passing}") as life, suppress(Killed):
        scene.hear_until(life, lambda said: said.get("event") == "ended")
    with scene.life() as life:
        life.until("ready")
        wait_for(lambda: scene.read(stored.instructions, source="schedule"))
    for _ in range(2):
        scene.settle()
        check(scene)
        assert [row["state"] for row in scene.read(stored.instructions, source="schedule")] == ["done"]
    report.count("R9 kills around a tick")


def test_D1_a_process_of_its_own_dies_at_the_failpoint_its_environment_names(tmp_path: Path, nursery: Nursery) -> None:
    scene = Scene(nursery, tmp_path)
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.worker"],
        stdin=theirs,
        stdout=theirs,
        env={**os.environ, VARIABLE: "commit.after=kill:20"},
    )
    theirs.close()
    life = Life(ours, Order(str(scene.home), scene.members))
    scene.intend("k", "@review", "@alice work:k hops:2")
    life.until("ready")
    scene.send_again(life)
    with pytest.raises(Killed):
        scene.hear_until(life, lambda _: False)
    life.close()
    assert process.wait() == -9
    scene.settle()
    check(scene)
