"""Group G: Git obeys what it finds. No setting that it knows, in any repository that we come across, springs anything.

Each flow runs all that we ask of Git (`COMMANDS`), with a program in the place of `git` that writes down the calls.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.faults.report import report
from tests.repositories import Repository
from tests.traps import SPRUNG_BY, Bait, plain_git, settings

from agent_worker.core.remote import parse_remote
from agent_worker.files.root import Root
from agent_worker.processes.git import COMMANDS
from agent_worker.workflows.remote import Remotes
from agent_worker.workflows.working_copy import CopyChanges, TrialMerge, WorkingCopy

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ATTRIBUTES = "* filter=trap diff=trap merge=trap\n"
SETS = {"every setting": settings(), "those that work": tuple(SPRUNG_BY)}


@dataclass(frozen=True)
class Calls:
    """What was asked of Git, and of which repository."""

    log: Path

    def made(self) -> list[tuple[str, str, str]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [tuple(line.split("\t")) for line in lines]  # type: ignore[misc]

    @property
    def commands(self) -> set[str]:
        return {command for command, _, _ in self.made()}


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls(tmp_path / "calls")
    folder = tmp_path / "bin"
    folder.mkdir()
    words = '"$1" "$GIT_DIR" "$GIT_WORK_TREE"'
    (folder / "git").write_text(
        f"#!/bin/sh\nprintf '%s\\t%s\\t%s\\n' {words} >> {made.log}\nexec {shutil.which('git')} \"$@\"\n"
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return made


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a submodule, a second branch that conflicts, and objects that it borrows from its neighbour."""
    root = tmp_path_factory.mktemp("honest")
    other = Repository.at(root / "other", **{"x": "x"})
    files = {"app.py": "old\n", "src/lib.py": "lib\n", ".gitignore": "*.log\n", ".gitattributes": ATTRIBUTES}
    project = Repository.at(root / "project", **files)
    project.git("checkout", "-q", "-b", "other")
    project.commit({"app.py": "theirs\n"})
    project.git("checkout", "-q", "main")
    project.commit({"app.py": "ours\n"})
    project.add_object("160000", "module", other.git("rev-parse", "HEAD"))
    alternates = project.path / ".git/objects/info/alternates"
    alternates.write_text("../../../other/.git/objects\n")
    return root


@pytest.fixture
def project(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "here", symlinks=True)
    return tmp_path / "here/project"


@pytest.fixture
def bait(tmp_path: Path) -> Bait:
    (tmp_path / "bait/taken").mkdir(parents=True)
    return Bait(tmp_path / "bait")


def nested(folder: Path, bait: Bait, names: tuple[str, ...]) -> None:
    """A repository with traps and a file that Git must read to know whether it was changed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Repository.at(folder) if not folder.exists() else Repository(folder)
    if not (folder / ".git").exists():
        made.git("init", "--quiet")
    made.commit({"inner.txt": "aaaa\n", ".gitattributes": ATTRIBUTES})
    bait.set(folder / ".git", names)
    (folder / "inner.txt").write_text("bbbb\n")


async def work(copy: WorkingCopy) -> tuple[CopyChanges, str]:
    (copy.files / "app.py").write_text("mine\n")
    (copy.files / "new.log").write_text("ignored\n")
    (copy.files / "src/new.py").write_text("new\n")
    changes = await copy.changes()
    return changes, await copy.keep(changes, "test/alice")


async def fetch(project: Path, home: Path) -> None:
    source = parse_remote(f"git+file://{project}@main//src/lib.py")
    found = await Remotes(Root(home)).get(source, now=NOW)
    assert (found.root / "lib.py").read_text() == "lib\n"


def copy_of(project: Path) -> WorkingCopy:
    return WorkingCopy("alice", project, project / ".workspace/review/main/copies")


@pytest.mark.parametrize("setting", SPRUNG_BY)
def test_G11s_a_plain_command_springs_the_trap(setting: str, project: Path, bait: Bait) -> None:
    """Or the tests below would prove nothing."""
    with (project / ".git/config").open("a") as file:
        file.write(bait.config([setting]))
    if setting != "merge.trap.driver":  # a merge wants a clean tree
        (project / "app.py").write_text("mine\n")
    plain_git(project, *SPRUNG_BY[setting])
    assert len(bait.taken) == 1, f"git {' '.join(SPRUNG_BY[setting])} does not obey {setting}"


def test_G11s_a_plain_command_enters_a_nested_repository(project: Path, bait: Bait) -> None:
    nested(project / "module", bait, ("filter.trap.clean",))
    plain_git(project, "status")
    assert "filter-trap-clean" in bait.taken


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
@pytest.mark.parametrize("place", ["project", "copy", "nested"])
async def test_G11s_no_setting_of_any_repository_makes_us_run_anything(
    place: str, names: tuple[str, ...], project: Path, bait: Bait, calls: Calls, tmp_path: Path
) -> None:
    if place == "project":
        bait.set(project / ".git", names)
        bait.set(project.parent / "other/.git", names)  # from which it borrows
    copy = copy_of(project)
    await copy.prepare()
    if place == "copy":
        bait.set(copy.files / ".git", names)
    if place == "nested":
        for folder in ("sub", "deep/er/sub", "src", "module"):
            nested(copy.files / folder, bait, names)
            shutil.rmtree(bait.folder / "taken")  # its own git, when we committed, obeyed
            (bait.folder / "taken").mkdir()
    changes, kept = await work(copy)
    theirs = (project / ".git/refs/heads/other").read_text().strip()
    tried = await copy.try_merge(changes.commit, theirs)
    await fetch(project, tmp_path / "home")
    await copy.remove()
    assert bait.taken == []
    assert {"app.py", "src/new.py"} <= set(changes.files)
    assert "new.log" not in changes.files
    assert kept == "refs/agent-worker/test/alice"
    assert tried == TrialMerge(("app.py",))
    assert calls.commands == COMMANDS, "what we ask of Git, and what was tried here"
    for command, repository, tree in calls.made():
        for folder in filter(None, (repository, tree)):
            assert folder.startswith(f"{tempfile.gettempdir()}/agent-worker-"), f"git {command} was run in {folder}"
    report.count("G11s settings tried, by call and place", len(names) * len(calls.commands))
