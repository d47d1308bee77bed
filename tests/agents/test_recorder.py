"""The recorder of one run: what it lets a model see, what it remembers of that, and what breaks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.recorders import by_hand, recorder_of
from tests.teams import Team, open_team

from agent_worker.agents import run_end
from agent_worker.agents.call_record import RESULT_LIMIT, SHOWN
from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.events import Called, Delta, Event, Returned
from agent_worker.tools.channel import channel_send
from agent_worker.tools.tool import Call, ToolContext, tool
from agent_worker.work.queue import Ageing
from agent_worker.work.steps import CallPosition

SECRET = "ghp_" + "a1B2" * 9  # put together here: no scanner stumbles over it


@pytest.fixture
async def queued(tmp_path: Path) -> AsyncIterator[Team]:
    """Alice has work, and no loop that would take it."""
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        await team.runtime.supervisor.stop()
        await team.post("user", "@alice go")
        yield team


made: list[str] = []


@tool(personal=True)
async def leak(context: ToolContext) -> str:
    """Return a secret that the longest result would be cut in."""
    return f"{'x' * (RESULT_LIMIT - 20)} {SECRET} and more"


@tool
async def knock(context: ToolContext) -> str:
    """Not to be made twice."""
    made.append("knock")
    return "knocked"


@tool(repeatable=True)
async def look(context: ToolContext) -> str:
    """May be made as often as one likes."""
    made.append("look")
    return "seen"


@tool(repeatable=True, foreign=True)
async def read(context: ToolContext) -> str:
    """What others wrote."""
    return "words of others"


@tool(personal=True)
async def stumble(context: ToolContext) -> str:
    """Break in a way that nobody expected."""
    raise ZeroDivisionError("by zero")


async def test_N5_a_secret_that_stands_where_a_result_is_cut_is_not_shown_by_half(queued: Team) -> None:
    recorder = recorder_of(queued, await by_hand(queued), leak)
    result = await recorder.call(0, Call("c1", "leak", {}))
    assert "ghp_" not in result.text
    assert "[redacted:github]" in result.text
    (row,) = await queued.calls()
    assert "ghp_" not in row["result"]


async def test_N5_a_secret_that_stands_where_what_is_shown_is_cut_is_not_shown_by_half(queued: Team) -> None:
    heard: list[Event] = []
    queued.runtime.bus.listen(heard.append)
    recorder = recorder_of(queued, await by_hand(queued), leak)
    recorder.show(Call("c1", "curl", {"header": f"{'x' * (SHOWN - 30)} {SECRET}"}))
    (called,) = [event for event in heard if isinstance(event, Called)]
    assert "ghp_" not in called.arguments["header"]


async def test_O2_what_is_said_before_a_call_is_shown_before_it(queued: Team) -> None:
    heard: list[Event] = []
    queued.runtime.bus.listen(heard.append)
    recorder = recorder_of(queued, await by_hand(queued), look)
    recorder.say("I shall look")  # the last word is held back: it may become a secret
    await recorder.call(0, Call("c1", "look", {}))
    told = [event for event in heard if isinstance(event, Delta | Called | Returned)]
    assert "".join(event.text for event in told if isinstance(event, Delta)) == "I shall look"
    assert [type(event) for event in told][-2:] == [Called, Returned]


async def test_a_tool_that_breaks_is_told_to_the_model_and_ends_no_work(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.employ("alice", tools=(stumble,))
        team.backends["alice"].then(calls("stumble"), says("I fell"))
        await team.dm("alice", "go")
        await team.still()
        (call,) = await team.calls()
        assert (call["result"], call["ok"]) == ("stumble broke: ZeroDivisionError: by zero", 0)
        assert (await team.thread("alice"))[-1].text == "I fell"


async def test_Q5_nothing_is_made_of_an_answer_that_could_not_be_stored(queued: Team) -> None:
    recorder = recorder_of(queued, await by_hand(queued), knock)
    call = Call("c1", "knock", {})
    made.clear()
    kept, result = await asyncio.gather(
        recorder.keep(0, Reply("half of a character: \ud800", (call,))), recorder.call(0, call), return_exceptions=True
    )
    assert isinstance(kept, UnicodeEncodeError)
    assert made == []
    assert not isinstance(result, asyncio.CancelledError)


async def test_Q5_a_call_with_an_unknown_outcome_is_made_again_only_if_its_tool_may_be_repeated(queued: Team) -> None:
    job = await by_hand(queued)
    begun = recorder_of(queued, job, knock, look)
    for name, each in (("knock", knock), ("look", look)):  # as if we had died in the middle of both
        place = CallPosition(job.lead.work, 0, name)
        assert await queued.write(begun._record.start, place, Call(name, name, {}), each) is None
    made.clear()
    results = [await recorder_of(queued, job, knock, look).call(0, Call(name, name, {})) for name in ("knock", "look")]
    assert made == ["look"]
    assert results[0].text.startswith("The outcome of this call is unknown")
    assert (results[1].text, results[1].ok) == ("seen", True)


async def test_A6_what_a_programs_own_tools_read_is_from_outside(queued: Team) -> None:
    recorder = recorder_of(queued, await by_hand(queued), look)
    await recorder.call(0, Call("c1", "look", {}))
    assert recorder.outside == "", "a tool of ours"
    recorder.show(Call("c2", "WebFetch", {"url": "https://example.com"}))
    assert recorder.outside == "WebFetch"


async def test_A6_what_an_earlier_run_of_the_same_work_read_is_from_outside_too(queued: Team) -> None:
    job = await by_hand(queued)
    first = recorder_of(queued, job, read)
    call = Call("c1", "read", {})
    await first.keep(0, Reply("", calls=(call,)))
    await first.call(0, call)
    assert first.outside == "read"
    await queued.write(run_end.put_back, job, why="stopping", now=queued.now(), ageing=Ageing())
    assert recorder_of(queued, await by_hand(queued), read).outside == "read"


async def test_O2_what_an_agent_was_asked_stands_before_what_it_answered(queued: Team) -> None:
    job = await by_hand(queued)
    await queued.write(run_end.finish, job, 0, Reply("done"), "mock", seen=1, now=queued.now())
    thread = await queued.thread("alice", queued.workspace.id)
    assert [(talk.who, talk.text) for talk in thread] == [("user", "@alice go"), ("alice", "done")]


async def test_Q2_a_stored_tool_that_is_called_again_under_the_same_id_does_nothing_more(queued: Team) -> None:
    recorder = recorder_of(queued, await by_hand(queued), channel_send)
    results = [await recorder.call(0, Call("c1", "channel_send", {"text": "once"})) for _ in range(2)]
    assert (await queued.texts()).count("once") == 1
    assert results[0] == results[1]


async def test_a_call_is_not_made_when_the_answer_that_asked_for_it_is_not_stored(queued: Team) -> None:
    made.clear()
    recorder = recorder_of(queued, await by_hand(queued), knock)
    call = Call("c1", "knock", {})
    unstorable = Reply(text="\ud800", calls=(call,))  # half a character, which no column takes
    kept, called = await asyncio.gather(recorder.keep(0, unstorable), recorder.call(0, call), return_exceptions=True)
    assert isinstance(kept, BaseException)
    assert not made
    assert isinstance(called, BaseException) or not called.ok
