"""Cancelled is over, and whoever is no longer the one cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.recorders import TERMS, by_hand, recorder_of, taken_by
from tests.teams import Team, open_team

from agent_worker.agents import commands, recovery, run_begin, run_end
from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Fenced, NotRunning
from agent_worker.tools.channel import channel_send
from agent_worker.tools.tool import Call, ToolContext, tool
from agent_worker.work.queue import Ageing


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


async def cancel(team: Team, text: str) -> None:
    (row,) = await team.queue(text=text)
    await team.write(commands.cancel, row["id"], reason="not needed", now=team.now())


async def test_Q10_cancelled_while_queued_never_runs(team: Team) -> None:
    team.backends["alice"].then(says("one").model_copy(update={"slow": 5.0}), says("three"))
    for text in ("one", "two", "three"):
        await team.dm("alice", text)
    await team.elapse(1)
    await cancel(team, "two")
    await team.elapse(10)
    assert await team.states() == ["done", "cancelled", "done"]
    assert [t.text for t in await team.thread("alice") if t.who == "alice"] == ["one", "three"]


async def test_Q10_cancelled_while_it_runs_stops_at_once_and_has_no_later_effect(team: Team) -> None:
    slow = calls("channel_send", text="too late").model_copy(update={"slow": 60.0})
    team.backends["alice"].then(calls("channel_send", text="before"), slow, says("next"))
    await team.post("user", "@alice go")
    await team.elapse(5)
    await cancel(team, "@alice go")
    await team.post("user", "@alice another thing")
    await team.still()
    assert (await team.texts())[-1] == "next", "its agent is free for other work"
    await team.elapse(100)
    assert "too late" not in await team.texts()
    assert await team.states() == ["cancelled", "done"]
    assert [row["state"] for row in await team.runs()] == ["cancelled", "done"]
    assert [row["state"] for row in await team.deliveries()] == ["failed", "acked"]


async def test_Q10_cancelled_while_it_waits_for_another_try_is_not_tried_again(team: Team) -> None:
    team.backends["alice"].then(fails("transient"))
    await team.post("user", "@alice go")
    await team.still()
    await cancel(team, "@alice go")
    await team.elapse(60)
    assert await team.states() == ["cancelled"]


async def test_Q10_cancelled_after_it_was_pushed_aside_does_not_go_on(team: Team) -> None:
    slow = calls("channel_peek").model_copy(update={"slow": 5.0})
    team.backends["alice"].then(slow, says("hello").model_copy(update={"slow": 5.0}))
    await team.post("user", "a long thing", to="alice")
    await team.elapse(1)
    await team.dm("alice", "hi")
    await team.elapse(5)
    await cancel(team, "a long thing")
    await team.elapse(60)
    assert sorted(await team.states()) == ["cancelled", "done"]


async def test_what_was_answered_together_with_the_cancelled_is_not_cancelled(team: Team) -> None:
    slow = says("late").model_copy(update={"slow": 60.0})
    team.backends["alice"].then(says("busy").model_copy(update={"slow": 5.0}), slow, says("to both others"))
    await team.dm("alice", "think")
    await team.elapse(1)
    for n in range(3):
        await team.post("user", f"@alice question {n}")
    await team.elapse(10)
    await cancel(team, "@alice question 0")
    await team.elapse(10)
    rows = await team.queue(source="channel")
    assert [row["state"] for row in rows] == ["cancelled", "done", "done"]
    assert (await team.texts())[-1] == "to both others"


async def test_cancelling_is_told_once_where_the_sender_looks(team: Team) -> None:
    team.backends["alice"].then(says("x").model_copy(update={"slow": 60.0}))
    await team.post("user", "@alice go")
    await team.elapse(1)
    await cancel(team, "@alice go")
    await cancel(team, "@alice go")
    assert [m.text for m in await team.messages() if m.kind == "system"] == ["alice was cancelled: not needed"]


async def test_Q10_stopping_a_workspace_cancels_everything_in_it_and_closes_it(team: Team) -> None:
    team.backends["alice"].then(says("x").model_copy(update={"slow": 60.0}))
    await team.post("user", "@alice go")
    await team.post("user", "and then this", to="alice")
    await team.elapse(1)
    await team.meanwhile(team.workspace.stop(reason="enough"))
    assert set(await team.states()) == {"cancelled"}
    with pytest.raises(NotRunning):
        await team.post("user", "anyone?")
    await team.elapse(100)
    assert set(await team.states()) == {"cancelled"}


# --- the fence ----------------------------------------------------------------------------------------


knocks: list[str] = []


@tool
async def knock(context: ToolContext) -> str:
    """Reach outside."""
    knocks.append(context.key)
    return "knocked"


@pytest.fixture
async def queued(team: Team) -> Team:
    """Alice has work, and no loop that would take it."""
    await team.runtime.supervisor.stop()
    await team.post("user", "@alice go")
    return team


async def test_Q10_a_late_tool_call_of_a_cancelled_run_is_refused(queued: Team) -> None:
    job = await by_hand(queued)
    recorder = recorder_of(queued, job, channel_send, knock)
    await cancel(queued, "@alice go")
    knocks.clear()
    for call in (Call("c1", "channel_send", {"text": "too late"}), Call("c2", "knock", {})):
        with pytest.raises(Fenced):
            await recorder.call(0, call)
    assert knocks == []
    assert "too late" not in await queued.texts()


async def test_a_loop_whose_agent_was_claimed_by_another_host_can_write_nothing(queued: Team) -> None:
    job = await by_hand(queued)
    recorder = recorder_of(queued, job, channel_send, knock)
    await taken_by(queued, "alice", "another host")
    before = await queued.queue()
    now, ageing = queued.now(), Ageing()
    for write in (
        recorder.keep(0, Reply("a step")),
        recorder.call(0, Call("c1", "channel_send", {"text": "I am still here"})),
        queued.write(run_end.finish, job, 0, Reply("done"), "mock", seen=0, now=now),
        queued.write(run_end.put_back, job, why="", now=now, ageing=ageing),
        queued.write(run_end.give_up, job, Fenced("x"), "failed", now=now),
        queued.write(run_end.suspend, job, now=now),
        queued.write(run_begin.begin, job.fence, lambda _: TERMS, now=now, ageing=ageing),
        queued.write(recovery.abandon, job.fence, state="idle", reason="", now=now),
    ):
        with pytest.raises(Fenced):
            await write
    assert await queued.queue() == before
    assert await queued.read(stored.steps) == []
    assert await queued.texts() == ["@alice go"]


async def test_a_running_loop_ends_when_another_host_claims_its_agent(team: Team) -> None:
    slow = calls("channel_send", text="from the old host").model_copy(update={"slow": 5.0})
    team.backends["alice"].then(slow)
    await team.post("user", "@alice go")
    await team.elapse(1)
    await taken_by(team, "alice", "another host")
    await team.elapse(60)
    assert await team.texts() == ["@alice go"]
    assert [t for t in asyncio.all_tasks() if t.get_name() == f"loop {team.id_of('alice')}"] == []


@pytest.mark.sqlite("among several hosts, one asks who has an agent before it claims it")
async def test_a_call_that_came_while_an_agent_was_claimed_is_no_call_for_later(team: Team) -> None:
    """Else the agent would be taken back from another host, with nothing new to do."""
    alice = team.id_of("alice")
    await taken_by(team, "alice", "another host")
    team.runtime.supervisor.wake(alice)
    await team.elapse(1)
    for _ in range(2):
        team.runtime.supervisor.wake(alice)  # nobody runs her: the second call comes while she is claimed
    await team.elapse(1)
    await taken_by(team, "alice", "another host")
    team.runtime.supervisor.wake(alice)
    await team.elapse(1)
    assert [t for t in asyncio.all_tasks() if t.get_name() == f"loop {alice}"] == []
