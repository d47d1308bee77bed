"""Group G: what an agent leaves in its working copy, and what a project pretends to be, to reach what is outside."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from tests.needs import needs_sandbox
from tests.repositories import Repository
from tests.teams import open_team
from tests.traps import SPRUNG_BY, Bait

from agent_worker.backends.mock import calls, says
from agent_worker.backends.programs import known
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import Refused
from agent_worker.processes import git
from agent_worker.processes.environment import path_of_ours
from agent_worker.workflows import walk
from agent_worker.workflows.working_copy import WorkingCopy

with_bash = needs_sandbox()


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    made = Repository.at(tmp_path / "project", **{"app.py": "old\n", "src/lib.py": "lib\n", ".gitignore": "ignored/\n"})
    made.add_object("160000", "module", "1" * 40)
    return made


@pytest.fixture
def bait(tmp_path: Path) -> Bait:
    (tmp_path / "bait/taken").mkdir(parents=True)
    return Bait(tmp_path / "bait")


async def prepared(project: Repository, *, place: str = ".workspace/review/main/copies") -> WorkingCopy:
    copy = WorkingCopy("alice", project.path, project.path / place)
    await copy.prepare()
    return copy


def inner(folder: Path) -> Repository:
    folder.mkdir(parents=True, exist_ok=True)
    made = Repository(folder)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit({"inner.txt": "inner\n"})
    return made


@with_bash
async def test_G12s_a_filter_that_an_agent_hides_in_a_repository_of_its_own_does_not_run(tmp_path: Path) -> None:
    """With its own shell, as it would: a nested repository, and a file that changed without changing its length."""
    project = Repository.at(tmp_path / "project", **{"app.py": "old\n"})
    bait = tmp_path / "bitten"
    prepare = (
        "git init -q sub && cd sub && git config user.name a && git config user.email a@b && echo aaaa > x"
        f" && echo '* filter=x' > .gitattributes && git add . && git commit -qm 1"
        f" && git config filter.x.clean 'touch {bait}; cat' && sleep 1 && echo bbbb > x && cd .. && git add sub"
        " && echo new > app.py"
    )
    extra = {"alice": "tools: [bash]\nisolate: worktree\n"}
    async with open_team(project.path, "alice", clock=SystemClock(), extra=extra, quiet_moment=0.05) as team:
        team.backends["alice"].then(calls("bash", command=prepare), says("done"))
        await team.post("user", "@alice go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        (row,) = await team.calls()
        (offer,) = (m for m in await team.messages() if m.kind == "system")
        await team.workspace.stop()
    assert "fatal" not in row["result"]
    assert "alice changed 1 file in its own copy: app.py." in offer.text
    assert "sub is left out (a repository of its own)" in offer.text
    assert not bait.exists()


async def test_G12s_new_repositories_are_left_out_and_named_and_submodules_stay(project: Repository) -> None:
    copy = await prepared(project)
    inner(copy.files / "sub")
    inner(copy.files / "deep/er")
    inner(copy.files / "ignored/sub")  # nobody needs to hear of it
    inner(copy.files / "module")
    inner(copy.files / "src").git("init", "-q", "--bare", "bare.git")  # src is no repository in the project
    (copy.files / "file").mkdir()
    (copy.files / "file/.git").write_text("gitdir: /somewhere/else\n")
    (copy.files / "app.py").write_text("new\n")
    changes = await copy.changes()
    assert changes.files == ("app.py", "src/inner.txt")
    assert changes.notes == (
        "deep/er is left out (a repository of its own)",
        "file is left out (a repository of its own)",
        "module is left out (a submodule)",
        "src/.git is left out (Git's own)",
        "src/bare.git is left out (a repository of its own)",
        "sub is left out (a repository of its own)",
    )
    ref = await copy.keep(changes, "test/alice")
    assert "160000 commit " + "1" * 40 in project.git("ls-tree", ref, "module")
    project.git("merge", "--quiet", ref)


@pytest.mark.parametrize("what", ["gone", "a file", "a link", "files"])
async def test_G12s_a_submodule_stays_whatever_stands_in_its_place(what: str, project: Repository) -> None:
    copy = await prepared(project)
    place = copy.files / "module"
    if what != "files":
        place.rmdir()
    if what == "a file":
        place.write_text("x")
    elif what == "a link":
        place.symlink_to("/etc")
    elif what == "files":
        (place / "x").write_text("x")
    changes = await copy.changes()
    assert changes.files == ()
    assert changes.notes == (() if what == "gone" else ("module is left out (a submodule)",))


async def test_G12s_who_only_makes_a_repository_is_heard_too(tmp_path: Path) -> None:
    project = Repository.at(tmp_path / "project", **{"app.py": "old\n"})
    extra = {"alice": "tools: [read_file]\nisolate: worktree\n"}
    async with open_team(project.path, "alice", clock=SystemClock(), extra=extra, quiet_moment=0.05) as team:
        inner(project.path / ".workspace/review/main/copies/alice/sub")
        team.backends["alice"].then(says("done"))
        await team.post("user", "@alice go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        (offer,) = (m for m in await team.messages() if m.kind == "system")
        assert "sub is left out (a repository of its own)" in offer.text
        await team.workspace.stop()


async def test_G12s_things_that_are_no_files_neither_hold_us_up_nor_lead_out(
    project: Repository, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("the canary")
    copy = await prepared(project)
    for pipe in (".gitignore", ".gitattributes", "src/.gitignore", "pipe", "app.py"):
        (copy.files / pipe).unlink(missing_ok=True)
        os.mkfifo(copy.files / pipe)
    (copy.files / "to-file").symlink_to(secret / "key")
    (copy.files / "to-folder").symlink_to(secret)
    shutil.rmtree(copy.files / "src")
    (copy.files / "src").symlink_to(secret)
    changes = await copy.changes()
    assert changes.files == (".gitignore", "app.py", "src", "src/lib.py", "to-file", "to-folder")
    assert "the canary" not in changes.patch
    ref = await copy.keep(changes, "test/alice")
    assert project.git("cat-file", "blob", f"{ref}:to-file") == str(secret / "key")


@pytest.mark.parametrize("name", [".GIT", ".Git ", "git~1", ".git.", ".g\u200cit", ".git::$INDEX_ALLOCATION"])
async def test_G12s_what_another_disk_takes_for_git_is_not_taken(name: str, project: Repository) -> None:
    assert walk.is_git(name.encode())
    copy = await prepared(project)
    (copy.files / name).mkdir()
    (copy.files / name / "config").write_text("[core]\n\tfsmonitor = touch bitten\n")
    changes = await copy.changes()
    assert changes.files == ()
    assert len(changes.notes) == 1


async def test_G12s_what_is_too_large_is_left_out_and_named(project: Repository) -> None:
    copy = await prepared(project)
    for name in ("app.py", "new.bin"):
        with (copy.files / name).open("wb") as file:
            file.truncate(2**40)
    (copy.files / "src/lib.py").write_text("new\n")
    changes = await copy.changes()
    assert changes.files == ("src/lib.py",)
    assert [note.partition(" (")[0] for note in changes.notes] == ["app.py is left out", "new.bin is left out"]


async def test_G12s_a_project_without_git_is_walked_as_carefully(tmp_path: Path, bait: Bait) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "app.py").write_text("old\n")
    trapped = inner(project / "sub")
    bait.set(trapped.path / ".git", SPRUNG_BY)
    (trapped.path / "inner.txt").write_text("other\n")
    copy = WorkingCopy("alice", project, project / ".workspace/review/main/copies")
    await copy.prepare()
    assert sorted(path.name for path in copy.files.iterdir()) == ["app.py"]
    trapped = inner(copy.files / "sub")
    bait.set(trapped.path / ".git", SPRUNG_BY)
    (trapped.path / "inner.txt").write_text("other\n")
    (copy.files / "app.py").write_text("new\n")
    changes = await copy.changes()
    assert changes.files == ("app.py",)
    kept = await copy.keep(changes, "test/alice")
    assert (copy.place / "test-alice.patch").read_text() == changes.patch
    assert kept == str(copy.place / "test-alice.patch")
    assert bait.taken == []


async def test_G12s_a_missing_object_is_not_fetched_by_a_program_of_the_project(
    project: Repository, bait: Bait
) -> None:
    """Git asks the remote that promised an object for it, by the program that the configuration names."""
    blob = project.git("rev-parse", "HEAD:app.py")
    (project.path / ".git/objects" / blob[:2] / blob[2:]).unlink()
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "trap",
        "remote.trap.promisor": "true",
        "remote.trap.url": str(project.path),
        "remote.trap.uploadpack": str(bait.program("upload-pack")),
    }.items():
        project.git("config", name, value)
    with pytest.raises(Refused, match="git could not prepare a working copy"):
        await prepared(project)
    assert bait.taken == []


# --- what a project pretends to be


@pytest.fixture
def private(tmp_path: Path) -> Repository:
    """A repository of the user that is none of the project's business."""
    return Repository.at(tmp_path / "private", **{"secret.txt": "the canary\n"})


def pretend(how: str, folder: Path, private: Repository) -> None:
    git = folder / ".git"
    theirs = private.path / ".git"
    if how == "a link":
        git.symlink_to(theirs)
    elif how == "a file":
        git.write_text(f"gitdir: {theirs}\n")
    elif how == "a worktree of its own making":
        (folder / "fake").mkdir()
        (folder / "fake/HEAD").write_text("ref: refs/heads/main\n")
        (folder / "fake/commondir").write_text(f"{theirs}\n")
        (folder / "fake/gitdir").write_text(f"{git}\n")
        git.write_text("gitdir: fake\n")
    else:
        made = Repository(folder)
        made.git("init", "--quiet", "--initial-branch=main")
        if how == "linked objects and refs":
            for name in ("objects", "refs"):
                shutil.rmtree(git / name)
                (git / name).symlink_to(theirs / name)
        elif how == "a common folder":
            (git / "commondir").write_text(f"{theirs}\n")


PRETENCES = ("a link", "a file", "a worktree of its own making", "linked objects and refs", "a common folder")


@pytest.mark.parametrize("how", PRETENCES)
async def test_G13s_a_project_that_points_at_another_repository_does_not_show_it(
    how: str, tmp_path: Path, private: Repository
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    pretend(how, folder, private)
    copy = WorkingCopy("alice", folder, folder / ".workspace/review/main/copies")
    if how == "a common folder":  # nobody needs it in a folder: it is not read
        await copy.prepare()
    else:
        with pytest.raises(Refused, match=re.escape(str(folder))) as refusal:
            await copy.prepare()
        assert refusal.value.hint
    assert not list(copy.files.rglob("secret.txt"))
    assert "refs/agent-worker" not in private.git("for-each-ref")


async def test_G13s_a_link_for_the_agents_folder_costs_nobody_their_files(tmp_path: Path) -> None:
    (tmp_path / "elsewhere/precious").mkdir(parents=True)
    (tmp_path / "elsewhere/precious/file").write_text("x")
    project = Repository.at(tmp_path / "project", **{"app.py": "old\n"})
    (project.path / ".agents").symlink_to(tmp_path / "elsewhere")
    project.commit({})
    copy = await prepared(project)
    assert (tmp_path / "elsewhere/precious/file").exists()
    assert (await copy.changes()).files == ()


@pytest.mark.parametrize("planted", ["alice", ".base", "."])
async def test_G13s_a_copy_that_is_a_link_out_of_the_project_is_refused(
    planted: str, project: Repository, tmp_path: Path
) -> None:
    """In a workspace that is bound to a folder of the project, a stranger or an agent may have been there before."""
    (tmp_path / "elsewhere").mkdir()
    place = project.path / "kept/copies"
    (place if planted != "." else place.parent).mkdir(parents=True)
    (place / planted if planted != "." else place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="link"):
        await prepared(project, place="kept/copies")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_G13s_refs_that_lead_elsewhere_are_not_written_through(project: Repository, tmp_path: Path) -> None:
    copy = await prepared(project)
    (copy.files / "app.py").write_text("new\n")
    (tmp_path / "elsewhere").mkdir()
    (project.path / ".git/refs/agent-worker").symlink_to(tmp_path / "elsewhere")
    changes = await copy.changes()
    with pytest.raises(Refused, match="link"):
        await copy.keep(changes, "test/alice")
    assert list((tmp_path / "elsewhere").iterdir()) == []


async def test_G13s_a_forged_record_makes_nothing_run(project: Repository, bait: Bait) -> None:
    copy = await prepared(project, place="kept/copies")
    record = project.path / "kept/copies/.base/alice"
    bait.set(record, SPRUNG_BY)
    (copy.files / "app.py").write_text("new\n")
    assert (await copy.changes()).files == ("app.py",)
    (record / "commit").write_text("--output=/etc/passwd")
    with pytest.raises(Refused, match="has lost the commit it began at"):
        await copy.changes()
    assert bait.taken == []


async def test_G12s_a_git_that_an_agent_puts_into_a_folder_of_the_project_is_not_ours(
    project: Repository, bait: Bait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in the project is in PATH as soon as somebody activates it, and agents write there."""
    programs = project.path / ".venv/bin"
    programs.mkdir(parents=True)
    (project.path / "moniro.yaml").write_text("name: p\n")
    for name in ("git", "git-upload-pack", "sh", "claude"):
        (programs / name).write_text(f"#!/bin/sh\n/bin/touch '{bait.folder}/taken/{name}'\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    copy = await prepared(project)
    (copy.files / "app.py").write_text("new\n")
    assert (await copy.changes()).files == ("app.py",)
    assert git.version().startswith("git version")
    assert not known.found("claude", path_of_ours()).startswith(str(project.path))
    assert list((bait.folder / "taken").iterdir()) == []
