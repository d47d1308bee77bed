"""`isolate: worktree`: a member works in a checkout of its own, and what it changed is offered to the team."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.backend import Finished, Hands, Outcome, Reply, Turn
from agent_worker.backends.mock import calls, says
from agent_worker.clock import SystemClock
from agent_worker.tools.task import why_bash_is_off
from agent_worker.workflows import instance as workflows
from agent_worker.workflows.copies import Copy
from agent_worker.workspaces import resources

ISOLATED = "tools: [read_file, write_file, bash]\nisolate: worktree\n"


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    done = subprocess.run(["git", *settings, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
        await team.room.checkouts.settle()
        copies = repository / ".workspace/review/main/copies"
        assert (copies / "alice/app.py").read_text() == "print('from alice')\n"
        assert (copies / "bob/app.py").read_text() == "print('from bob')\n"
        assert (repository / "app.py").read_text() == "print('old')\n"
        offers = [m for m in await team.messages() if m.sort == "system"]
        assert sorted(offer.text.split(" in its own copy")[0] for offer in offers) == [
            "alice changed 1 file",
            "bob changed 1 file",
        ]
        (offer,) = (each for each in offers if each.text.startswith("alice"))
        patch = await team.read(resources.load, team.room.id, offer.resource or "")
        assert "-print('old')\n+print('from alice')" in patch.text
        ref = offer.text.rpartition("git merge ")[2]
        assert git(repository, "show", f"{ref}:app.py") == "print('from alice')"
        await team.room.stop()
        assert not (copies / "alice").exists()
        assert git(repository, "show", f"{ref}:app.py") == "print('from alice')"
        git(repository, "merge", "-q", ref)
        assert (repository / "app.py").read_text() == "print('from alice')\n"


@pytest.mark.skipif(why_bash_is_off(unsafe=False) is not None, reason="bash is off: there is no sandbox here")
async def test_the_shell_of_an_agent_works_in_its_copy_with_git(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        who = "-c user.name=A -c user.email=a@example.org"
        shell = f"echo made > made.txt && git add made.txt && git {who} commit -qm mine; git log -1"
        team.backends["alice"].then(calls("bash", command=shell), says("committed"))
        await team.post("user", "@alice go")
        await team.quiet()
        await team.room.checkouts.settle()
        (row,) = await team.rows("select result from call")
        assert "mine" in row["result"]
        (offer,) = (m for m in await team.messages() if m.sort == "system")
        assert "made.txt" in offer.text


async def test_nothing_is_offered_where_nothing_was_changed(repository: Path) -> None:
    async with team_of_two(repository) as team:  # type: ignore[attr-defined]
        team.backends["alice"].then(calls("read_file", path="app.py"), says("it is fine"))
        await team.post("user", "@alice look")
        await team.quiet()
        await team.room.checkouts.settle()
        assert not [m for m in await team.messages() if m.sort == "system"]
        await team.room.stop()
    assert "refs/agent-worker" not in git(repository, "for-each-ref")


class LateWriter:
    """A program that answers, and changes a file while it ends."""

    def __init__(self, file: Path) -> None:
        self.ends = asyncio.Event()
        self._file = file

    async def work(self, turn: Turn, hands: Hands) -> AsyncGenerator[Outcome]:
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
        stopping = asyncio.create_task(team.room.stop())
        late.ends.set()
        await stopping
        (offer,) = (m for m in await team.messages() if m.sort == "system")
        assert "alice changed 1 file in its own copy: app.py" in offer.text
        assert not copy.exists()


async def test_a_kept_workspace_keeps_its_copies_and_goes_on_in_them(repository: Path) -> None:
    bound = "workspace: { provider: file, bind: ./kept }\n"
    copy = repository / "kept/copies/alice/app.py"
    async with team_of_two(repository, workflow=bound) as team:  # type: ignore[attr-defined]
        await write_app(team, "alice", "print('half')\n")
        await team.post("user", "@alice begin")
        await team.quiet()
        await team.room.stop()
        assert copy.read_text() == "print('half')\n"
        again = await workflows.start(
            team.engine.stage, team.admitted, workflows.Start(team.admitted.project.workflows["review"])
        )
        assert copy.read_text() == "print('half')\n"
        await again.stop()


async def test_without_git_the_files_are_copied_and_the_changes_kept_as_a_patch(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print('old')\n")
    async with team_of_two(tmp_path) as team:  # type: ignore[attr-defined]
        await write_app(team, "alice", "print('new')\n")
        await team.post("user", "@alice go")
        await team.quiet()
        await team.room.checkouts.settle()
        await team.room.stop()
    (kept,) = (tmp_path / ".workspace/review/main/copies").glob("*.patch")
    assert "+print('new')" in kept.read_text()
    assert (tmp_path / "app.py").read_text() == "print('old')\n"


async def test_what_other_agents_remember_is_not_in_a_copy_nor_in_what_it_changed(repository: Path) -> None:
    memory = repository / ".agents/bob/memory/core.yaml"
    memory.parent.mkdir(parents=True)
    memory.write_text("secret: the canary\n")
    git(repository, "add", "-f", ".agents/bob/memory/core.yaml")
    git(repository, "commit", "-qm", "bob's memory")
    copy = Copy("alice", repository, repository / ".workspace/review/main/copies")
    await copy.prepare()
    assert not (copy.files / ".agents/bob").exists()
    assert (await copy.changes()).files == ()


async def test_what_an_agent_does_to_its_repository_cannot_make_us_run_anything(repository: Path) -> None:
    """Filters, hooks and external diffs are obeyed by Git where they are found; ours never looks there."""
    copy = Copy("alice", repository, repository / ".workspace/review/main/copies")
    await copy.prepare()
    bait = repository / "bitten"
    with (copy.files / ".git/config").open("a") as config:
        config.write(f'[filter "x"]\n\tclean = touch {bait}\n\tsmudge = touch {bait}\n')
        config.write(f'[diff "x"]\n\tcommand = touch {bait}\n\ttextconv = touch {bait}\n')
        config.write(f"[core]\n\tfsmonitor = touch {bait}\n")
    (copy.files / ".gitattributes").write_text("* filter=x diff=x\n")
    (copy.files / "app.py").write_text("print('new')\n")
    assert (await copy.changes()).files == (".gitattributes", "app.py")
    assert await copy.keep(await copy.changes(), "test/alice")
    await copy.remove()
    assert not bait.exists()
