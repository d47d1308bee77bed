"""Free space is watched: a warning first, then no new runs and nothing lost; and what can go is found and goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent_worker.backends.mock import says
from agent_worker.backends.programs.program import owner_of
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.disk_space import STOP, WARN, Space
from agent_worker.core.errors import BadInput
from agent_worker.definitions.settings import Settings, with_environment
from agent_worker.files.makers import abandoned, scratch
from agent_worker.files.root import Root
from agent_worker.service.backups import LOOK, DiskWatch
from agent_worker.service.cleanup import Leftover, leftovers, leftovers_remove
from agent_worker.service.projects import status
from agent_worker.service.service import Service
from tests import stored
from tests.faults.report import LONG, SEED, report
from tests.teams import Team, open_team, write_project

FALLS = 100 if LONG else 10
MB = 10**6
OLD = time.time() - 40 * 86400


@dataclass
class Disk:
    """One whose free space is whatever the test says."""

    free: int = 5000 * MB
    space: Space = field(init=False)

    def __post_init__(self) -> None:
        self.space = Space(lambda: self.free)


async def test_G6_below_the_limit_no_run_begins_and_all_work_is_done_when_there_is_space_again(tmp_path: Path) -> None:
    with report.seeded("G6", SEED) as chance:
        disk, clock = Disk(), TestClock()
        async with open_team(tmp_path / "p", "alice", clock=clock, space=disk.space) as team:
            team.backends["alice"].then(*(says(f"answer {n}") for n in range(2 * FALLS)))
            for fall in range(FALLS):
                disk.free = chance.randrange(200 * MB)
                began = await runs(team)
                await team.post("user", f"@alice question {fall}")
                await team.elapse(chance.randrange(60))
                assert await runs(team) == began, "a run began"
                assert (await team.states())[-1] == "queued"
                disk.free = chance.randrange(200 * MB, 900 * MB)
                await team.elapse(10)
                assert (await team.states())[-1] == "done"
                report.count("G6 falls of free space")
            assert len(await team.texts()) == 2 * FALLS


async def runs(team: Team) -> int:
    return len(await team.runs())


@asynccontextmanager
async def watched(tmp_path: Path, disk: Disk) -> AsyncIterator[tuple[Team, Service]]:
    async with open_team(tmp_path / "p", "alice", clock=TestClock(), space=disk.space) as team:
        service = Service(team.runtime)
        await service.project(str(tmp_path / "p"))
        DiskWatch(service)
        await team.still()
        yield team, service
        await service.close()


async def test_G6_the_person_is_warned_once_and_the_warning_goes_by_itself(tmp_path: Path) -> None:
    disk = Disk()
    async with watched(tmp_path, disk) as (team, service):
        assert await team.inbox() == []
        disk.free = 999 * MB
        await team.elapse(3 * LOOK)
        ((kind, text),) = await team.inbox()
        assert (kind, text[:39]) == ("space", "only 999 MB is free on the disk; below ")
        disk.free = 199 * MB
        await team.elapse(3 * LOOK)
        ((_, text),) = await team.inbox()
        assert text == (
            "only 199 MB is free on the disk: no new run starts below 200 MB. "
            "What you can remove: agent-worker gc --dry-run"
        )
        assert (await status(service, str(tmp_path / "p"))).disk.state == "stopped"
        disk.free = 1000 * MB
        await team.elapse(LOOK)
        assert await team.inbox() == []
        assert (await status(service, str(tmp_path / "p"))).disk.state == "enough"


def test_G6_both_limits_are_settings(tmp_path: Path) -> None:
    def chosen(**given: str) -> tuple[int, int]:
        found = with_environment(Settings(), given)
        return found.warn_free, found.stop_free

    assert chosen(**{WARN: "1.5 TB", STOP: "10gb"}) == (1_500_000 * MB, 10_000 * MB)
    assert Space.of(tmp_path, *chosen(**{WARN: "0", STOP: "0"})).look().state == "enough"
    assert Space.of(tmp_path, *chosen(**{STOP: "9000 TB"})).look().state == "stopped"
    assert chosen() == (1000 * MB, 200 * MB)


@pytest.mark.parametrize("text", ["much", "-1", "10 apples", "1e9", "1,5GB", "GB"])
def test_G6_a_limit_that_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadInput, match=f"{WARN}=.* is not a size"):
        with_environment(Settings(), {WARN: text})


# --- what can go


def left_by_a_killed_one(tmp: Path) -> Path:
    """A folder of a run whose process died in the middle of it."""
    script = """
import os
from agent_worker.files.makers import scratch
with scratch("run") as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=os.environ | {"TMPDIR": str(tmp)}, capture_output=True, text=True, check=False)
    assert done.returncode < 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


def test_G6_of_folders_for_runs_only_those_of_the_dead_can_go(temporary: Path) -> None:
    killed = left_by_a_killed_one(temporary)
    (temporary / "agent-worker-run-1.1.1-x").mkdir()  # numbered in another container
    (temporary / f"{killed.name}z").symlink_to(killed)
    with scratch("run") as ours:
        assert abandoned() == [killed]
        recycled = killed.with_name(ours.name.replace(ours.name.split(".")[2].split("-")[0], "1") + "z")
        recycled.mkdir()  # its number is ours now, but it was born at another time
        assert abandoned() == sorted([killed, recycled])
    assert not ours.exists()


def old(path: Path) -> Path:
    for each in (*path.rglob("*"), path):
        os.utime(each, (OLD, OLD))
    return path


def made(path: Path, text: str = "x" * 100) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_G6_gc_lists_what_can_go_and_removes_that_and_nothing_else(temporary: Path, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "p"
    gone = project.with_name("gone")
    write_project(project, ["bob"])
    sessions = {
        name: home / "programs" / "codex" / owner_of(name, root, name) / "sessions" / "2026" / "r.jsonl"
        for name, root in (("alice", project), ("bob", project), ("carol", gone), ("zoe", project))
    }
    stays = [made(home / name) for name in ("state.db.replaced-1", "daemon.log", "trust.json", "backups/new.db")]
    stays += [old(made(home / "backups" / f"{n}.db")) for n in (1, 2)]
    stays += [made(sessions["alice"]), made(sessions["alice"].with_name("new.jsonl")), old(made(home / "trust.json"))]
    goes = [left_by_a_killed_one(temporary), old(made(home / "daemon.log.3"))]
    goes += [old(made(home / "state.db.damaged-1")), old(made(home / "backups" / "7.db.unfinished"))]
    async with open_team(project, "alice", clock=SystemClock(), trust=Root.private(home)) as team:
        service = Service(team.runtime)
        await service.project(str(project))
        (project / ".agents" / "bob.yaml").unlink()
        goes += [made(sessions["bob"]).parents[2], made(sessions["zoe"]).parents[2]]
        stays += [made(sessions["carol"])]
        await team.runtime.database.write(stored.add, "project", id="q", identity=str(gone), name="q")
        await team.runtime.database.write(
            stored.add, "checkout", project="q", host=team.runtime.database.here, root=str(gone)
        )
        await team.runtime.database.write(stored.add, "agent", id="c", project="q", name="carol", kind="project")
        goes += [old(made(sessions["alice"].with_name("old.jsonl"))), old(made(home / "backups" / "0.db"))]
        os.utime(goes[-1], (OLD - 10, OLD - 10))
        listed = await leftovers(service)
        assert {Path(each.path) for each in listed} == set(goes)
        assert all(each.bytes >= 100 for each in listed if "killed" not in each.what)
        assert all(path.exists() for path in (*goes, *stays)), "listing removes nothing"
        assert sorted(await leftovers_remove(service), key=by_path) == sorted(listed, key=by_path)
        assert not any(path.exists() for path in goes)
        assert all(path.exists() for path in stays)
        assert await leftovers(service) == []
        await service.close()


def by_path(leftover: Leftover) -> str:
    return leftover.path
