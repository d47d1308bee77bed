"""`isolate: worktree`: a member works in a checkout of its own, and what it changed is offered to the team."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests import stored
from tests.needs import needs_sandbox
from tests.teams import Team, open_team

from agent_worker.backends.backend import Finished, Outcome, Reply, StepSink, Turn
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import SystemClock
from agent_worker.workflows import start as workflows
from agent_worker.workflows import working_copy
from agent_worker.workflows.working_copy import CopyChanges, WorkingCopy
from agent_worker.workspaces import resources
from agent_worker.workspaces.channel import Message

ISOLATED = "tools: [read_file, write_file, bash]\nisolate: worktree\n"


def git(folder: Path, *arguments: str) -> str:
    return git_bytes(folder, *arguments).decode().strip()


def git_bytes(folder: Path, *arguments: str) -> bytes:
    settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    return subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("print('old')\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "app.py")
    git(tmp_path, "commit", "-qm", "begin")
    return tmp_path


def team_of_two(root: Path, **settings: object) -> object:
    extra = {"alice": ISOLATED, "bob": ISOLATED}
    return open_team(root, "alice", "bob", clock=SystemClock(), extra=extra, quiet_moment=0.05, **settings)  # type: ignore[arg-type]


async def write_app(team: Team, agent: str, text: str) -> None:
    team.backends[agent].then(calls("write_file", path="app.py", text=text), says("changed"))


async def test_two_agents_edit_two_checkouts_and_the_project_is_left_alone(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        await write_app(team, "alice", "print('from alice')\n")
        await write_app(team, "bob", "print('from bob')\n")
        await team.post("user", "@alice @bob improve it")
        await team.quiet()
        await team.workspace.working_copies.settle()
        copies = repository / ".workspace/review/main/copies"
        assert (copies / "alice/app.py").read_text() == "print('from alice')\n"
        assert (copies / "bob/app.py").read_text() == "print('from bob')\n"
        assert (repository / "app.py").read_text() == "print('old')\n"
        offers = [m for m in await team.messages() if m.kind == "system" and m.resource]
        assert sorted(offer.text.split(" in its own copy")[0] for offer in offers) == [
            "alice changed 1 file",
            "bob changed 1 file",
        ]
        assert {offer.run for offer in offers} == {row["id"] for row in await team.read(stored.runs)}
        (offer,) = (each for each in offers if each.text.startswith("alice"))
        patch = await team.read(resources.load, team.workspace.id, offer.resource or "")
        assert "-print('old')\n+print('from alice')" in patch.text
        ref = offer.text.rpartition("git merge ")[2]
        assert git(repository, "show", f"{ref}:app.py") == "print('from alice')"
        await team.workspace.stop()
        assert not (copies / "alice").exists()
        assert git(repository, "show", f"{ref}:app.py") == "print('from alice')"
        git(repository, "merge", "-q", ref)
        assert (repository / "app.py").read_text() == "print('from alice')\n"


@needs_sandbox()
async def test_the_shell_of_an_agent_works_in_its_copy_with_git(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        who = "-c user.name=A -c user.email=a@example.org"
        shell = f"echo made > made.txt && git add made.txt && git {who} commit -qm mine; git log -1"
        team.backends["alice"].then(calls("bash", command=shell), says("committed"))
        await team.post("user", "@alice go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        (row,) = await team.calls()
        assert "mine" in row["result"]
        (offer,) = (m for m in await team.messages() if m.kind == "system")
        assert "made.txt" in offer.text


async def test_nothing_is_offered_where_nothing_was_changed(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        team.backends["alice"].then(calls("read_file", path="app.py"), says("it is fine"))
        await team.post("user", "@alice look")
        await team.quiet()
        await team.workspace.working_copies.settle()
        assert not [m for m in await team.messages() if m.kind == "system"]
        await team.workspace.stop()
    assert "refs/agent-worker" not in git(repository, "for-each-ref")


class LateWriter:
    """A program that answers, and changes a file while it ends."""

    def __init__(self, file: Path) -> None:
        self.ends = asyncio.Event()
        self._file = file

    async def work(self, turn: Turn, recorder: StepSink) -> AsyncGenerator[Outcome]:
        try:
            yield Finished(0, Reply("done"))
        finally:
            await self.ends.wait()
            self._file.write_text("print('late')\n")

    async def close(self) -> None:
        pass


async def test_what_a_program_changes_while_it_ends_is_offered_too_and_its_copy_stays_that_long(
    repository: Path,
) -> None:
    copy = repository / ".workspace/review/main/copies/alice"
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        late = LateWriter(copy / "app.py")
        team.employ("alice", backend=late)
        await team.post("user", "@alice go")
        await team.quiet()
        stopping = asyncio.create_task(team.workspace.stop())
        late.ends.set()
        await stopping
        (offer,) = (m for m in await team.messages() if m.kind == "system")
        assert "alice changed 1 file in its own copy: app.py" in offer.text
        assert not copy.exists()


async def test_a_kept_workspace_keeps_its_copies_and_goes_on_in_them(repository: Path) -> None:
    bound = "workspace: { provider: file, bind: ./kept }\n"
    copy = repository / "kept/copies/alice/app.py"
    async with team_of_two(repository, workflow=bound) as team:  # type: ignore[attr-defined]
        await write_app(team, "alice", "print('half')\n")
        await team.post("user", "@alice begin")
        await team.quiet()
        await team.workspace.stop()
        assert copy.read_text() == "print('half')\n"
        again = await workflows.start(
            team.runtime, team.loaded, workflows.Start(team.loaded.project.workflows["review"])
        )
        assert copy.read_text() == "print('half')\n"
        await again.stop()


async def test_without_git_the_files_are_copied_and_the_changes_kept_as_a_patch(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print('old')\n")
    async with team_of_two(tmp_path) as team:  # type: ignore[attr-defined]
        await write_app(team, "alice", "print('new')\n")
        await team.post("user", "@alice go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        await team.workspace.stop()
    (kept,) = (tmp_path / ".workspace/review/main/copies").glob("*.patch")
    assert "+print('new')" in kept.read_text()
    assert (tmp_path / "app.py").read_text() == "print('old')\n"


async def test_what_other_agents_remember_is_not_in_a_copy_nor_in_what_it_changed(repository: Path) -> None:
    memory = repository / ".agents/bob/memory/core.yaml"
    memory.parent.mkdir(parents=True)
    memory.write_text("secret: the canary\n")
    git(repository, "add", "-f", ".agents/bob/memory/core.yaml")
    git(repository, "commit", "-qm", "bob's memory")
    copy = WorkingCopy("alice", repository, repository / ".workspace/review/main/copies")
    await copy.prepare()
    assert not (copy.files / ".agents/bob").exists()
    assert (await copy.changes()).files == ()


def copy_of(project: Path) -> WorkingCopy:
    return WorkingCopy("alice", project, project / ".workspace/review/main/copies")


async def kept_of(copy: WorkingCopy) -> tuple[CopyChanges, str]:
    changes = await copy.changes()
    return changes, await copy.keep(changes, "test/alice")


async def test_a_merge_brings_exactly_what_the_agent_did(repository: Path) -> None:
    """Modes, links, deletions, renames, line ends and odd names, whatever attributes say about them."""
    files = {"gone.txt": "x", "moved.txt": "many lines\n" * 20, "tool.sh": "#!/bin/sh\n", "deep/dir/file": "x"}
    for name, content in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(content)
    (repository / ".gitattributes").write_text(
        "*.bat text eol=crlf\n*.txt text\n*.u text working-tree-encoding=UTF-16\n"
    )
    (repository / "run.bat").write_bytes(b"one\ntwo\n")
    (repository / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n")
    git(repository, "add", "--all")
    git(repository, "commit", "-qm", "more")
    git(repository, "rm", "-q", "--cached", "app.py")  # what is not committed is not in a copy
    git(repository, "reset", "-q", "--hard")
    copy = copy_of(repository)
    await copy.prepare()
    assert (await copy.changes()) == CopyChanges((), "")
    odd = [
        "line\nbreak",
        'quo"te',
        ":colon",
        "-dash",
        "back\\slash",
        " blank ",
        "ünï",
        "*",
        "[x]",
        "a\tb",
        "!not",
        "#no",
    ]
    for name in odd:
        (copy.files / name).write_text(name)
    (copy.files / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (copy.files / "run.bat").write_bytes(b"one\r\nthree\n")
    (copy.files / "x.u").write_bytes(b"not utf-16")
    (copy.files / "gone.txt").unlink()
    (copy.files / "moved.txt").rename(copy.files / "there.txt")
    (copy.files / "tool.sh").chmod(0o755)
    (copy.files / "link").symlink_to("/etc/passwd")
    shutil.rmtree(copy.files / "deep")
    (copy.files / "deep").write_text("a file now")
    (copy.files / "app.py").unlink()
    (copy.files / "app.py").mkdir()
    (copy.files / "app.py/inner").write_text("a folder now")
    (copy.files / "build/out").mkdir(parents=True)
    (copy.files / "build/out/x").write_text("ignored")
    (copy.files / "x.log").write_text("ignored")
    (copy.files / "keep.log").write_text("not ignored")
    changes, ref = await kept_of(copy)
    assert changes.notes == ()
    git(repository, "config", "core.autocrlf", "false")
    git(repository, "merge", "-q", ref)
    for name in odd:
        assert (repository / name).read_text() == name
    for name, content in {"crlf.txt": b"a\r\nb\r\n", "run.bat": b"one\r\nthree\n", "x.u": b"not utf-16"}.items():
        assert git_bytes(repository, "cat-file", "blob", f"{ref}:{name}") == content
    assert os.readlink(repository / "link") == "/etc/passwd"
    assert (repository / "tool.sh").stat().st_mode & 0o100
    assert (repository / "deep").read_text() == "a file now"
    assert (repository / "app.py/inner").read_text() == "a folder now"
    assert not (repository / "gone.txt").exists()
    assert "rename from moved.txt" in changes.patch
    assert not (repository / "x.log").exists()
    assert (repository / "keep.log").exists()
    assert not (repository / "build").exists()


async def test_what_is_tracked_is_taken_even_where_it_is_ignored(repository: Path) -> None:
    (repository / "build").mkdir()
    (repository / "build/kept.txt").write_text("old")
    (repository / ".gitignore").write_text("build/\n")
    git(repository, "add", "-f", "build/kept.txt", ".gitignore")
    git(repository, "commit", "-qm", "ignored and tracked")
    copy = copy_of(repository)
    await copy.prepare()
    (copy.files / "build/kept.txt").write_text("new")
    (copy.files / "build/other.txt").write_text("new")
    assert (await copy.changes()).files == ("build/kept.txt",)


@pytest.mark.parametrize(
    "form", ["sha256", "worktree", "submodule", "shallow", "packed", "detached", "apart", "partial"]
)
async def test_every_form_of_a_repository_has_copies(form: str, repository: Path, tmp_path_factory: object) -> None:
    project = other_form(form, repository, tmp_path_factory.mktemp("form"))  # type: ignore[attr-defined]
    copy = copy_of(project)
    await copy.prepare()
    assert (copy.files / "app.py").read_text() == "print('old')\n"
    assert git(copy.files, "log", "--format=%s", "-1") == "begin"
    (copy.files / "app.py").write_text("print('new')\n")
    changes, ref = await kept_of(copy)
    assert changes.files == ("app.py",)
    git(project, "merge", "-q", ref)
    assert (project / "app.py").read_text() == "print('new')\n"


def other_form(form: str, repository: Path, place: Path) -> Path:
    """The same project, kept in another way."""
    local = ("-c", "protocol.file.allow=always")
    made = place / "made"
    match form:
        case "sha256":
            git(place, "init", "-q", "--object-format=sha256", "made")
            (made / "app.py").write_text("print('old')\n")
            git(made, "add", "app.py")
            git(made, "commit", "-qm", "begin")
        case "worktree":
            git(repository, "worktree", "add", "-q", "-b", "side", str(made))
        case "submodule":
            git(place, "init", "-q", "outer")
            git(place / "outer", *local, "submodule", "--quiet", "add", str(repository), "inner")
            return place / "outer/inner"
        case "shallow":
            (repository / "more").write_text("x")
            git(repository, "add", "more")
            git(repository, "commit", "-qm", "begin")
            git(place, *local, "clone", "-q", "--depth=1", f"file://{repository}", "made")
        case "partial":
            (repository / "app.py").write_text("print('older')\n")
            git(repository, "commit", "-qam", "between")
            (repository / "app.py").write_text("print('old')\n")
            git(repository, "commit", "-qam", "begin")
            git(repository, "config", "uploadpack.allowFilter", "true")
            git(place, *local, "clone", "-q", "--filter=blob:none", f"file://{repository}", "made")
        case "packed":
            git(repository, "pack-refs", "--all")
            git(repository, "repack", "-qad")
            return repository
        case "detached":
            git(repository, "checkout", "-q", "--detach")
            return repository
        case "apart":
            git(place, "clone", "-q", f"--separate-git-dir={place / 'apart.git'}", str(repository), "made")
            git(made, "config", "core.worktree", str(made))
    return made


async def test_a_path_with_a_filter_is_kept_as_it_is_and_the_team_is_told(repository: Path) -> None:
    """We run no filter. Unchanged such a file is as in the commit; changed it is what the agent wrote."""
    (repository / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    for name in ("same.bin", "other.bin"):
        (repository / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    git(repository, "-c", "filter.lfs.clean=cat", "add", "--all")
    git(repository, "commit", "-qm", "large files")
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        script = (calls("write_file", path=name, text="raw") for name in ("other.bin", "new.bin"))
        team.backends["alice"].then(*script, says("done"))
        await team.post("user", "@alice go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        (offer,) = (m for m in await team.messages() if m.kind == "system")
        assert "alice changed 2 files in its own copy: new.bin, other.bin." in offer.text
        assert "new.bin is kept as it is, without its filter lfs; other.bin is kept as it is" in offer.text
        assert "same.bin" not in offer.text
        await team.workspace.stop()


async def test_a_history_that_takes_too_long_is_left_out_of_the_copy(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    slow = tmp_path_factory.mktemp("bin")
    fetches_all = 'case "$*" in *--depth*) ;; fetch*) sleep 600 ;; esac'
    (slow / "git").write_text(f'#!/bin/sh\n{fetches_all}\nexec {shutil.which("git")} "$@"\n')
    (slow / "git").chmod(0o755)
    (repository / "app.py").write_text("print('second')\n")
    git(repository, "commit", "-qam", "second")
    monkeypatch.setattr(working_copy, "HISTORY", 1.0)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    copy = copy_of(repository)
    await copy.prepare()
    assert git(copy.files, "log", "--format=%s") == "second"
    (copy.files / "app.py").write_text("print('new')\n")
    _, ref = await kept_of(copy)
    git(repository, "merge", "-q", ref)
    assert (repository / "app.py").read_text() == "print('new')\n"


# --- two who changed the same


def overlaps(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if "have both changed" in message.text]


async def both_change(team: Team, alice: str, bob: str, path: str = "app.py") -> list[str]:
    """What the team is told when both have written this into the same file, each in its own copy."""
    for agent, text in (("alice", alice), ("bob", bob)):
        team.backends[agent].then(calls("write_file", path=path, text=text), says("changed"))
    await team.post("user", "@alice @bob improve it")
    await team.quiet()
    assert team.workspace.working_copies
    await team.workspace.working_copies.settle()
    return overlaps(await team.messages())


async def test_two_who_changed_the_same_path_are_told_once_that_it_conflicts(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        (told,) = await both_change(team, "print('from alice')\n", "print('from bob')\n")
        assert told == (
            "alice and bob have both changed app.py, each in its own copy. "
            "A trial merge conflicts in app.py: agree on one before you merge both."
        )
        assert await both_change(team, "print('alice again')\n", "print('bob again')\n") == [told], "once"
        (_, another) = await both_change(team, "new\n", "new\n", path="new.py")
        assert "have both changed app.py, new.py" in another, "there is something new to say"


async def test_two_who_changed_the_same_path_are_told_that_it_fits_together(repository: Path) -> None:
    lines = [f"line {n}\n" for n in range(20)]
    (repository / "app.py").write_text("".join(lines))
    git(repository, "commit", "-qam", "longer")
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        first, last = ["alice\n", *lines[1:]], [*lines[:-1], "bob\n"]
        (told,) = await both_change(team, "".join(first), "".join(last))
        assert told.endswith("A trial merge had no conflicts.")
        assert git(repository, "status", "--porcelain", "app.py") == "", "nothing of the trial is kept"
        assert team.workspace.working_copies.overlaps() == [told]
        await both_change(team, "".join(first), "".join(lines))
        assert team.workspace.working_copies.overlaps() == [], "bob has let go of it"


async def test_who_changes_other_paths_hears_nothing(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        team.backends["alice"].then(calls("write_file", path="a.py", text="a"), says("changed"))
        team.backends["bob"].then(calls("write_file", path="b.py", text="b"), says("changed"))
        await team.post("user", "@alice @bob go")
        await team.quiet()
        await team.workspace.working_copies.settle()
        assert overlaps(await team.messages()) == []


async def test_without_git_an_overlap_is_told_but_not_tried(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print('old')\n")
    async with team_of_two(tmp_path) as team:  # type: ignore[attr-defined]
        (told,) = await both_change(team, "print('from alice')\n", "print('from bob')\n")
        assert told.endswith("We could not try whether that fits together.")
