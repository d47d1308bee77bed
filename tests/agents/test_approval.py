"""A person is asked: the work waits without holding its agent, across restarts, and goes on when they answer."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests import stored
from tests.fakes.model_protocols import Answer, Ask
from tests.fakes.model_server import ModelServer
from tests.models import results_in, sdk
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.backends.mock import calls, says
from agent_worker.backends.models.providers import Approval
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import NotFound
from agent_worker.definitions.script import ScriptEntry

PRESS = """
from pathlib import Path
def press(button: str) -> str:
    '''Press a button that cannot be unpressed.'''
    with (Path(__file__).parent / "pressed.log").open("a") as log:
        log.write(f"{button}\\n")
    return f"pressed {button}"
"""
STAND = """
from pathlib import Path
def stand() -> str:
    '''Stand still until somebody opens the gate.'''
    return (Path(__file__).parent / "gate").read_text()
"""
TOOLS = "tools: [{ name: ./press.py:press, approve: true }]\n"
WANTED = [("approval", "alice wants to use press: red")]
pressing = calls("press", button="red")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "press.py").write_text(PRESS)
    return tmp_path


def pressed(project: Path) -> list[str]:
    log = project / "pressed.log"
    return log.read_text().split() if log.exists() else []


async def waiting(team: Team, count: int = 1) -> None:
    await team.until(lambda rows: len(rows) == count, stored.instructions, state="waiting")


async def answer(team: Team, text: str, *, about: str = "") -> None:
    """As a person does from the inbox."""
    rows = await team.asked(state="open")
    item = next(row["id"] for row in rows if about in row["text"])
    await team.write(commands.answer, item, text, now=team.now())


def both(*parts: ScriptEntry) -> ScriptEntry:
    """Several calls in one step."""
    return ScriptEntry(call=tuple(call for part in parts for call in part.call or ()))


# --- approval -----------------------------------------------------------------------------------------


async def test_a_yes_lets_the_call_happen_once(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(pressing, says("it is done"))
        await team.dm("alice", "press the red one")
        await waiting(team)
        assert await team.inbox() == WANTED
        assert pressed(project) == []
        await answer(team, "yes")
        await team.idle()
        assert pressed(project) == ["red"]
        assert await team.inbox() == []
        assert [t.text for t in await team.thread("alice")] == ["press the red one", "it is done"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no too dangerous", "The person said no. too dangerous"),
        ("no", "The person said no."),
        ("not now", "The person said no. not now"),
        ("maybe tomorrow", "The person said no. maybe tomorrow"),
    ],
)
async def test_anything_but_a_yes_is_a_no_and_told_with_its_reason(
    project: Path, clock: TestClock, server: ModelServer, said: str, told: str
) -> None:
    server.script([Answer("", (Ask("press", {"button": "red"}, "a"),)), "then not"])
    definition = sdk(server, more=TOOLS)
    local = Approval(local=True)
    async with open_team(project, "alice", clock=clock, extra={"alice": definition}, approval=local) as team:
        await team.dm("alice", "press the red one")
        await waiting(team)
        await answer(team, said)
        await team.idle()
        assert await team.states() == ["done"]
    (result,) = results_in(server.requests[-1].body)
    assert f'"{told}"' in result
    assert pressed(project) == []


async def test_meanwhile_the_agent_does_other_work(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(pressing)
        await team.post("user", "@alice press the red one")
        await waiting(team)
        team.backends["alice"].then(says("hello"))
        await team.dm("alice", "hi")
        await team.idle()
        assert [t.text for t in await team.thread("alice")] == ["hi", "hello"]
        assert (await team.agent("alice"))["state"] == "idle"
        team.backends["alice"].then(says("it is done"))
        await answer(team, "yes")
        await team.idle()
        assert await team.texts() == ["@alice press the red one", "it is done"]


async def test_it_survives_a_restart(project: Path, clock: TestClock) -> None:
    database = project / "state.db"
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}, database=database) as team:
        team.backends["alice"].then(pressing)
        await team.dm("alice", "press the red one")
        await waiting(team)
    await clock.advance(hours=72)
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}, database=database) as team:
        assert await team.inbox() == WANTED
        team.backends["alice"].then(pressing, says("it is done"))  # the mock plays its script from the beginning
        await answer(team, "yes")
        await team.idle()
        assert await team.states() == ["done"]
    assert pressed(project) == ["red"]


async def test_an_answer_given_before_a_restart_counts_after_it(project: Path, clock: TestClock) -> None:
    database = project / "state.db"
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}, database=database) as team:
        team.backends["alice"].then(pressing)
        await team.dm("alice", "press the red one")
        await waiting(team)
        await team.runtime.supervisor.stop()  # nobody is there to go on with it
        await answer(team, "yes")
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}, database=database) as team:
        team.backends["alice"].then(pressing, says("it is done"))
        await team.runtime.supervisor.wake_all()
        await team.idle()
    assert pressed(project) == ["red"]


async def test_several_approvals_of_one_step_are_all_waited_for(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(both(pressing, calls("press", button="blue")), says("one of them"))
        await team.dm("alice", "press both")
        await waiting(team)
        await answer(team, "yes", about="red")
        assert await team.states() == ["waiting"]
        assert pressed(project) == []
        await answer(team, "no not that one", about="blue")
        await team.idle()
        results = {row["result"] for row in await team.calls()}
    assert pressed(project) == ["red"]
    assert results == {"pressed red", "The person said no. not that one"}


async def test_wrong_arguments_are_not_put_before_a_person(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(calls("press", knob="red"), says("my mistake"))
        await team.dm("alice", "press the red one")
        await team.idle()
        assert await team.inbox() == []
        assert await team.states() == ["done"]


async def test_work_that_is_cancelled_asks_no_longer(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(pressing)
        await team.post("user", "@alice press the red one")
        await waiting(team)
        await team.workspace.stop()
        assert await team.states() == ["cancelled"]
        assert await team.inbox() == []
    assert pressed(project) == []


async def test_a_second_answer_finds_nothing_open(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": TOOLS}) as team:
        team.backends["alice"].then(pressing, says("it is done"))
        await team.dm("alice", "press the red one")
        await waiting(team)
        (item,) = await team.asked()
        await answer(team, "yes")
        with pytest.raises(NotFound):
            await team.write(commands.answer, item["id"], "no", now=team.now())
        await team.idle()
    assert pressed(project) == ["red"]


# --- ask_user -----------------------------------------------------------------------------------------


async def test_an_answer_becomes_the_result_of_the_question(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.backends["alice"].then(
            calls("ask_user", question="Which one?", options=["red", "blue"]), says("red it is")
        )
        await team.post("user", "@alice choose")
        await waiting(team)
        assert await team.inbox() == [("question", "alice asks: Which one? (red / blue)")]
        await answer(team, "the red one, please")
        await team.idle()
        (call,) = await team.calls()
        assert (call["result"], call["ok"]) == ("the red one, please", 1)
        assert await team.texts() == ["@alice choose", "red it is"]


async def test_a_question_survives_a_restart(tmp_path: Path, clock: TestClock) -> None:
    database = tmp_path / "state.db"
    asking = calls("ask_user", question="Which one?")
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        team.backends["alice"].then(asking)
        await team.post("user", "@alice choose")
        await waiting(team)
    async with open_team(tmp_path, "alice", clock=clock, database=database) as team:
        team.backends["alice"].then(asking, says("red it is"))
        assert await team.states() == ["waiting"]
        await answer(team, "red")
        await team.idle()
        assert await team.texts() == ["@alice choose", "red it is"]


async def test_an_answer_that_comes_before_the_work_is_laid_aside_is_not_lost(project: Path, clock: TestClock) -> None:
    """A person is asked at once, even if the call's turn has not come; the work rests when its other calls ended."""
    (project / "gate.py").write_text(STAND)
    os.mkfifo(project / "gate")
    extra = {"alice": TOOLS.replace("[", "[./gate.py:stand, ")}
    async with open_team(project, "alice", clock=clock, extra=extra) as team:
        team.backends["alice"].then(both(calls("stand"), pressing), says("done"))
        await team.dm("alice", "wait for me")
        await team.until(bool, stored.inbox)
        await answer(team, "yes")
        assert await team.states() == ["running"]
        await asyncio.to_thread((project / "gate").write_text, "stood")
        await team.idle()
        assert await team.states() == ["done"]
        results = {row["tool"]: row["result"] for row in await team.calls()}
    assert results == {"stand": "stood", "press": "pressed red"}


async def test_what_was_done_beside_a_question_is_not_done_again(project: Path, clock: TestClock) -> None:
    async with open_team(project, "alice", clock=clock, extra={"alice": "tools: [./press.py:press]\n"}) as team:
        team.backends["alice"].then(both(pressing, calls("ask_user", question="Good?")), says("fine"))
        await team.dm("alice", "press and ask")
        await waiting(team)
        await answer(team, "good")
        await team.idle()
    assert pressed(project) == ["red"]


async def test_a_waiting_team_is_not_quiet(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.backends["alice"].then(calls("ask_user", question="Which one?"), says("red it is"))
        await team.post("user", "@alice choose")
        await waiting(team)
        quiet = asyncio.ensure_future(team.quiet())
        await team.elapse(60)
        assert not quiet.done()
        await answer(team, "red")
        await team.meanwhile(quiet)
        assert await team.texts() == ["@alice choose", "red it is"]
