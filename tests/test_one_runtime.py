"""Row S7, in programs of one's own: a project and a home have one runtime at a time, whatever leads to them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import agent_worker
from agent_worker import InUse, NotRunning
from agent_worker.database.runtime_lock import ProjectLocks, RuntimeHolder, holder_of
from tests.needs import skip_without
from tests.teams import write_project

HOLD = """
import asyncio, sys, agent_worker
async def hold():
    async with agent_worker.local(sys.argv[1], home=sys.argv[2] if sys.argv[2:] else None):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(hold())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path / "project", ["alice"])
    return tmp_path / "project"


def led_to(project: Path, way: str) -> Path:
    match way:
        case "a link":
            project.with_name("link").symlink_to(project)
            return project.with_name("link")
        case "a folder inside":
            (project / "src").mkdir()
            return project / "src"
        case "another spelling":
            return project / ".agents" / ".."
    return project.rename(project.with_name("moved"))


def names_in(project: Path) -> list[str]:
    return sorted(str(path) for path in project.rglob("*"))


@contextmanager
def may_not_be_written(project: Path) -> Iterator[None]:
    project.chmod(0o555)
    try:
        yield
    finally:
        project.chmod(0o755)


@contextmanager
def another_program(*arguments: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout
            assert program.stdout.readline() == "open\n"
            yield program
        finally:
            program.kill()


async def test_S7_a_project_that_another_program_has_open_is_refused_with_its_name(project: Path) -> None:
    with another_program(project) as program:
        with pytest.raises(InUse) as refused:
            async with agent_worker.local(project):
                pass
        assert f"process {program.pid}) works on the project {project}" in refused.value.message
        assert refused.value.hint == f"wait until it has ended, or end it: kill {program.pid}"


async def test_S7_a_program_that_was_killed_holds_nothing(project: Path) -> None:
    with another_program(project) as program:
        program.kill()
        program.wait()  # on a busy machine it dies a moment later, and holds the project until then
        async with agent_worker.local(project) as opened:
            await opened.start("review")


async def test_S7_it_is_free_again_when_it_is_closed_and_after_an_error(project: Path) -> None:
    async def fail() -> None:
        async with agent_worker.local(project):
            assert holder_of(project) is not None
            raise RuntimeError

    for _ in range(2):
        with pytest.raises(RuntimeError):
            await fail()
        assert holder_of(project) is None


async def test_S7_the_same_program_cannot_have_it_twice(project: Path) -> None:
    async with agent_worker.local(project) as first:
        with pytest.raises(InUse, match=r"this program has the project .* open already"):
            async with agent_worker.local(project):
                pass
        await first.start("review")  # and the first is none the worse for it


@pytest.mark.parametrize("way", ["a link", "a folder inside", "another spelling", "a new name"])
async def test_S7_whatever_leads_to_a_directory_it_is_one_project(project: Path, way: str) -> None:
    async with agent_worker.local(project):
        path = led_to(project, way)
        with pytest.raises(InUse):
            async with agent_worker.local(path):
                pass


async def test_S7_a_copy_is_another_project_and_so_is_one_inside(project: Path) -> None:
    copy = Path(shutil.copytree(project, project.with_name("copy")))
    inner = project / "packages" / "inner"
    write_project(inner, ["bob"])
    async with (
        agent_worker.local(project) as one,
        agent_worker.local(copy) as two,
        agent_worker.local(inner) as three,
    ):
        assert len({one.project, two.project, three.project}) == 3


async def test_S7_one_home_is_not_opened_twice_even_for_different_projects(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_project(other, ["bob"])
    with another_program(project, tmp_path / "home") as program:
        with pytest.raises(InUse, match=f"process {program.pid}.* works on the database"):
            async with agent_worker.local(other, home=tmp_path / "home"):
                pass
        async with agent_worker.local(other, home=tmp_path / "home2"):
            pass


async def test_S7_nothing_is_left_in_the_project_for_it(project: Path) -> None:
    before = names_in(project)
    async with agent_worker.local(project):
        assert names_in(project) == before


async def test_S7_a_project_that_cannot_be_written_is_held_all_the_same(project: Path) -> None:
    with may_not_be_written(project), another_program(project), pytest.raises(InUse):
        async with agent_worker.local(project):
            pass


def test_S7_a_directory_that_was_exchanged_is_taken_anew(project: Path) -> None:
    locks, others = ProjectLocks(RuntimeHolder()), ProjectLocks(RuntimeHolder())
    locks.take(project)
    project.rename(project.with_name("old"))
    project.mkdir()
    others.take(project)
    with pytest.raises(InUse):
        locks.take(project)
    others.close()
    locks.take(project)
    locks.take(project)
    locks.close()
    assert holder_of(project) is None


def test_S7_who_takes_it_when_all_is_closed_already_keeps_nothing(project: Path) -> None:
    """The thread of somebody who was cancelled may be that late."""
    locks, others = ProjectLocks(RuntimeHolder()), ProjectLocks(RuntimeHolder())
    locks.close()
    with pytest.raises(NotRunning, match="closed meanwhile"):
        locks.take(project)
    others.take(project)
    others.close()


def test_S7_who_holds_it_is_named_also_without_a_note(project: Path) -> None:
    flock = shutil.which("flock")
    if flock is None:
        skip_without("flock, another program to lock with")
    if not os.path.exists("/proc/locks"):
        pytest.skip("the system does not tell who holds a lock")
    command = [flock, str(project), "sh", "-c", "echo locked; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(InUse, match=r"another program \(flock, process \d+\) works on the project"):
            ProjectLocks(RuntimeHolder()).take(project)
        assert other.stdin
        other.stdin.close()
