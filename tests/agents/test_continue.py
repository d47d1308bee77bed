"""Work that ended incomplete goes on from its saved steps when it is told to continue."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.model_protocols import Answer, Ask
from tests.fakes.model_server import Fault, ModelServer
from tests.models import FAMILIES, results_in, sdk, sent
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.backends.models.providers import Approval
from agent_worker.core.clock import SystemClock

LOCAL = Approval(local=True)
MARK = """
from pathlib import Path
def mark(n: int) -> str:
    '''Leave a mark that nothing takes back.'''
    with (Path(__file__).parent / "marks.log").open("a") as log:
        log.write(f"{n}\\n")
    return f"mark {n} is made"
"""


def marking(n: int) -> Answer:
    return Answer("", (Ask("mark", {"n": n}, f"call_{n}"),))


def marks(root: Path) -> list[str]:
    return (root / "marks.log").read_text().split()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "marks.py").write_text(MARK)
    return tmp_path


def worker(server: ModelServer, *, family: str = "anthropic", steps: int = 2) -> dict[str, str]:
    return {"alice": sdk(server, family=family, more=f"tools: [./marks.py:mark]\nmax_steps: {steps}\n")}


async def last_state(team: Team) -> str:
    return (await team.states())[-1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("word", ["continue", "Please continue."])
async def test_after_max_steps_a_direct_message_continues_with_a_new_allowance(
    project: Path, server: ModelServer, family: str, word: str
) -> None:
    server.script([marking(0), marking(1), marking(2), "done"])
    definitions = worker(server, family=family)
    async with open_team(project, "alice", clock=SystemClock(), extra=definitions, approval=LOCAL) as team:
        await team.dm("alice", "make your marks")
        await team.idle()
        assert await last_state(team) == "incomplete"
        told = (await team.thread("alice"))[-1]
        assert told.kind == "failure"
        assert "continue" in told.text
        await team.dm("alice", word)
        await team.idle()
        assert await last_state(team) == "done"
        assert (await team.thread("alice"))[-1].text == "done"
    assert marks(project) == ["0", "1", "2"]
    assert "make your marks" in sent(server, 2), "it still knows what it was asked"
    assert "mark 0 is made" in sent(server, 2)
    assert "mark 1 is made" in sent(server, 2)


async def test_a_mention_continues_what_was_left_in_that_workspace(project: Path, server: ModelServer) -> None:
    server.script([marking(0), marking(1), "done"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        await team.post("user", "@alice make your marks")
        await team.idle()
        assert await last_state(team) == "incomplete"
        await team.post("user", "@alice continue")
        await team.idle()
        assert (await team.texts())[-1] == "done"
    assert marks(project) == ["0", "1"]
    assert [r.count("is made") for r in results_in(server.requests[2].body)] == [1, 1]


async def test_after_an_overflow_the_finished_steps_are_kept(project: Path, server: ModelServer) -> None:
    server.script([marking(0), Fault("overflow"), "done"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        await team.dm("alice", "make your marks")
        await team.idle()
        assert await last_state(team) == "incomplete"
        await team.dm("alice", "continue")
        await team.idle()
        assert await last_state(team) == "done"
    assert marks(project) == ["0"]
    assert results_in(server.requests[2].body) == results_in(server.requests[1].body)


async def test_it_may_be_continued_again_and_again(project: Path, server: ModelServer) -> None:
    server.script([*map(marking, range(5)), "done"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        await team.dm("alice", "make your marks")
        for _ in range(3):
            await team.idle()
            if await last_state(team) == "incomplete":
                await team.dm("alice", "continue")
        await team.idle()
        assert await team.states() == ["incomplete", "incomplete", "done"]
    assert marks(project) == ["0", "1", "2", "3", "4"]


async def test_the_person_may_retry_it_from_the_inbox(project: Path, server: ModelServer) -> None:
    server.script([marking(0), marking(1), "done"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        await team.dm("alice", "make your marks")
        await team.idle()
        (left,) = await team.queue()
        assert await team.write(commands.continue_work, left["id"], now=team.now())
        await team.idle()
        assert await last_state(team) == "done"
        assert await team.inbox() == []
    assert marks(project) == ["0", "1"]


async def test_continue_after_something_else_is_only_a_word(project: Path, server: ModelServer) -> None:
    server.script([marking(0), marking(1), "hello", "continue with what?"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        for text in ("make your marks", "hi", "continue"):
            await team.dm("alice", text)
            await team.idle()
        assert await team.states() == ["incomplete", "done", "done"]
    assert results_in(server.requests[3].body) == []


async def test_what_was_left_in_a_workspace_is_not_continued_by_a_direct_message(
    project: Path, server: ModelServer
) -> None:
    server.script([marking(0), marking(1), "continue with what?"])
    async with open_team(project, "alice", clock=SystemClock(), extra=worker(server), approval=LOCAL) as team:
        await team.post("user", "@alice make your marks")
        await team.idle()
        await team.dm("alice", "continue")
        await team.idle()
    assert results_in(server.requests[2].body) == []


async def test_a_restart_lies_between(project: Path, server: ModelServer, tmp_path: Path) -> None:
    server.script([marking(0), marking(1), "done"])
    again = {"clock": SystemClock(), "extra": worker(server), "approval": LOCAL, "database": tmp_path / "state.db"}
    async with open_team(project, "alice", **again) as team:  # type: ignore[arg-type]
        await team.post("user", "@alice make your marks")
        await team.idle()
    async with open_team(project, "alice", **again) as team:  # type: ignore[arg-type]
        await team.post("user", "@alice continue")
        await team.idle()
        assert await last_state(team) == "done"
    assert marks(project) == ["0", "1"]
