"""Urgent work goes first, between two steps; what was pushed aside goes on where it was."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.backend import PastStep, Reply
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.definitions.script import ScriptEntry
from agent_worker.work import queue
from agent_worker.work.queue import Lane, Order


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


def slowly(tool: str, seconds: float = 10, **arguments: object) -> ScriptEntry:
    return calls(tool, **arguments).model_copy(update={"slow": seconds})


async def runs(team: Team) -> list[tuple[str, str]]:
    texts = {row["id"]: row["text"] for row in await team.queue()}
    return [(texts[run["instruction"]], run["state"]) for run in await team.runs()]


async def put(team: Team, text: str, lane: Lane, agent: str = "alice") -> str:
    order = Order(agent=team.id_of(agent), text=text, source="schedule", sender="schedule", lane=lane, root=text)
    return await team.write(queue.put, order, now=team.now())


async def test_O3_a_direct_message_takes_over_between_two_steps_and_no_call_is_made_twice(team: Team) -> None:
    team.backends["alice"].then(
        slowly("resource_create", text="one"),
        slowly("resource_create", text="two"),
        says("hello"),
        slowly("resource_create", text="three"),
        says("all three are kept"),
    )
    await team.post("user", "keep three things", to="alice")
    await team.elapse(15)
    await team.dm("alice", "hi")
    await team.elapse(0)
    assert await runs(team) == [("keep three things", "running")], "a step is never interrupted"
    await team.elapse(60)
    assert await runs(team) == [("keep three things", "yielded"), ("hi", "done"), ("keep three things", "done")]
    made = await team.calls()
    assert [(row["step"], row["arguments"]) for row in made] == [
        (0, '{"text": "one"}'),
        (1, '{"text": "two"}'),
        (2, '{"text": "three"}'),
    ]
    assert (await team.texts())[-1] == "all three are kept"


async def test_O3_a_mention_does_not_take_over_from_another_mention(team: Team) -> None:
    team.backends["alice"].then(slowly("channel_peek"), slowly("channel_peek"), says("first"), says("second"))
    await team.post("user", "@alice one")
    await team.elapse(5)
    await team.post("bob", "@alice two")
    await team.elapse(60)
    assert await runs(team) == [("@alice one", "done"), ("@alice two", "done")]


async def test_O3_work_pushed_aside_three_times_moves_one_lane_up(team: Team) -> None:
    team.backends["alice"].then(
        *[e for n in range(3) for e in (slowly("channel_peek"), says(f"dm {n}"))],
        slowly("channel_peek"),
        says("done at last"),
    )
    id = await put(team, "housekeeping", Lane.BACKGROUND)
    for n in range(3):
        await team.elapse(5)
        await team.dm("alice", f"hi {n}")
        await team.elapse(5)
    row = (await team.queue(id=id))[0]
    assert (row["lane"], row["preempted"]) == (int(Lane.NORMAL), 0)
    await team.elapse(60)
    assert set(await team.states()) == {"done"}


async def test_O4_background_work_takes_over_from_newer_work_once_it_has_waited_five_minutes(team: Team) -> None:
    team.backends["alice"].then(
        says("hello").model_copy(update={"slow": 10.0}),
        *[slowly("channel_peek", 60) for _ in range(6)],
        says("looked after the house"),
        slowly("channel_peek", 60),
        says("the long work is done"),
    )
    await team.dm("alice", "hi")
    await team.elapse(1)
    await put(team, "housekeeping", Lane.BACKGROUND)
    await team.elapse(8)
    await team.post("user", "a long piece of work", to="alice")
    await team.elapse(291)
    assert [text for text, _ in await runs(team)] == ["hi", "a long piece of work"]
    await team.elapse(70)
    assert ("housekeeping", "done") in await runs(team)
    await team.elapse(200)
    assert (await team.texts())[-1] == "the long work is done"


async def test_Q6_a_busy_agent_queues_and_answers_in_order(team: Team) -> None:
    team.backends["alice"].then(says("long").model_copy(update={"slow": 4.0}), *[says(f"re {n}") for n in range(10)])
    await team.dm("alice", "think")
    await team.elapse(1)
    for n in range(10):
        await team.dm("alice", f"follow-up {n}")
    await team.elapse(10)
    answers = [t.text for t in await team.thread("alice") if t.who == "alice"]
    assert answers == ["long", *[f"re {n}" for n in range(10)]]


async def test_mentions_that_wait_together_are_answered_by_one_run_and_all_acknowledged(team: Team) -> None:
    team.backends["alice"].then(says("busy").model_copy(update={"slow": 10.0}), says("one answer for all"))
    await team.dm("alice", "think")
    await team.elapse(1)
    for n in range(4):
        await team.post("bob" if n % 2 else "user", f"@alice question {n}")
    await team.elapse(30)
    assert await runs(team) == [("think", "done"), ("@alice question 0", "done")]
    assert await team.states() == ["done"] * 5
    deliveries = await team.deliveries()
    assert {row["state"] for row in deliveries} == {"acked"}
    assert len({row["run"] for row in deliveries}) == 1
    assert (await team.texts())[-1] == "one answer for all"


async def test_mentions_that_wait_together_are_all_in_the_prompt(team: Team) -> None:
    seen: list[str] = []

    class Reader:
        async def reply(self, turn, steps: list[PastStep], recorder):  # type: ignore[no-untyped-def]
            seen.append(turn.prompt)
            await team.clock.sleep(10)
            return Reply("read")

    team.employ("alice", Reader())
    await team.dm("alice", "think")
    await team.elapse(1)
    for n in range(3):
        await team.post("user", f"@alice question-{n}")
    await team.elapse(30)
    assert all(f"question-{n}" in seen[1] for n in range(3))


async def test_no_mention_is_answered_without_having_been_shown_however_many_wait(team: Team) -> None:
    seen: list[str] = []

    class Reader:
        async def reply(self, turn, steps: list[PastStep], recorder):  # type: ignore[no-untyped-def]
            seen.append(turn.prompt)
            await team.clock.sleep(10)
            return Reply("read")

    team.employ("alice", Reader())
    await team.dm("alice", "think")
    await team.elapse(1)
    for n in range(60):
        await team.post("user", f"[w{n}w]", to="alice")  # each is work of its own, and older than any mention
    for n in range(130):
        await team.post("user", f"@alice [q{n}q]")
    await team.elapse(41)
    given = ["".join(re.findall(r"(?:your inbox|asks you) «.*?\n«/", prompt, re.DOTALL)) for prompt in seen]
    for n in range(130):
        assert [number for number, shown in enumerate(given) if f"[q{n}q]" in shown] == [1 + n // 50]
    assert {row["state"] for row in await team.queue(source="channel")} == {"done"}
    await team.halt()


async def test_what_the_answer_rule_says_does_not_depend_on_being_pushed_aside(team: Team) -> None:
    team.backends["alice"].then(slowly("channel_send", text="I am at it"), says("hello"), says("as I said"))
    await team.post("user", "say what you do", to="alice")
    await team.elapse(5)
    await team.dm("alice", "hi")
    await team.elapse(60)
    assert await team.texts() == ["say what you do", "I am at it"]
