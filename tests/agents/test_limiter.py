"""Fifty agents on one key: when the provider says «later», they wait together and come back one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from tests.teams import open_team

from agent_worker.agents.limiter import CLOSED, Limiter, Pass
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import Clock, TestClock, settle
from agent_worker.core.errors import Overloaded
from agent_worker.tools.tool import Call, ToolContext, tool

KEY = "provider|key"


class Provider:
    """Refuses everybody until the storm is over, then takes two seconds for each."""

    def __init__(self, clock: Clock, *, storm: float, retry_after: float | None = 60) -> None:
        self._clock = clock
        self._until = clock.monotonic() + storm
        self._retry_after = retry_after
        self.refused: list[float] = []
        self.served = 0
        self.inside = 0
        self.most_inside = 0

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            await self._clock.sleep(0.1)
            if self._clock.monotonic() < self._until:
                self.refused.append(self._clock.monotonic())
                raise Overloaded("429", retry_after=self._retry_after)
            await self._clock.sleep(2)
            self.served += 1
            return Reply("served")
        finally:
            self.inside -= 1


async def test_L5_fifty_agents_on_one_key_come_through_a_storm_without_making_it_worse(tmp_path: Path) -> None:
    names = [f"agent{n}" for n in range(50)]
    clock = TestClock()
    async with open_team(tmp_path, *names, clock=clock, runs_at_once=8) as team:
        provider = Provider(clock, storm=300)
        for name in names:
            team.employ(name, provider, credential=KEY)
        await team.post("user", "@all go")
        await team.elapse(299)
        first = [at for at in provider.refused if at < 1]
        assert len(first) <= 8, "no more than could be under way when it began"
        probes = provider.refused[len(first) :]
        assert len(probes) <= 5, "then one probe each time the gate opens"
        await team.elapse(300)
        assert provider.served == 50
        assert provider.most_inside <= 8
        assert set(await team.states()) == {"done"}
        assert {row["failures"] for row in await team.queue()} == {0}, "waiting uses up no tries"


async def test_L5_a_storm_without_advice_is_waited_out_ever_longer(tmp_path: Path) -> None:
    names = [f"agent{n}" for n in range(12)]
    clock = TestClock()
    async with open_team(tmp_path, *names, clock=clock) as team:
        provider = Provider(clock, storm=300, retry_after=None)
        for name in names:
            team.employ(name, provider, credential=KEY)
        await team.post("user", "@all go")
        await team.elapse(800)
        assert provider.served == 12
        assert len(provider.refused) <= 8 + 10


async def test_agents_on_another_key_do_not_wait(tmp_path: Path) -> None:
    clock = TestClock()
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        stormy, calm = Provider(clock, storm=300), Provider(clock, storm=0)
        team.employ("alice", stormy, credential=KEY)
        team.employ("bob", calm, credential="another")
        await team.post("user", "@all go")
        await team.elapse(5)
        assert calm.served == 1
        await team.elapse(400)


class Slow:
    """Answers after so many seconds."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self.served: list[float] = []

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        await self._clock.sleep(self._seconds)
        self.served.append(self._clock.monotonic())
        return Reply(f"served {len(self.served)}")


async def test_L5_who_is_refused_does_not_wait_for_a_slow_neighbour(tmp_path: Path) -> None:
    clock = TestClock()
    async with open_team(tmp_path, "slow", "alice", clock=clock) as team:
        neighbour, provider = Slow(clock, 38), Provider(clock, storm=1, retry_after=1)
        team.employ("slow", neighbour, credential=KEY)
        team.employ("alice", provider, credential=KEY)
        await team.post("user", "@slow think")
        await team.elapse(0.5)
        await team.post("user", "@alice go")
        await team.elapse(5)
        assert provider.refused == [0.6]
        assert provider.served == 1
        assert neighbour.served == []
        await team.elapse(60)


class Handy:
    """Calls a tool that takes a minute, then answers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked: list[float] = []

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.asked.append(self._clock.monotonic())
        return Reply("done") if steps else Reply(calls=(Call("c1", "dig", {}),))


@tool
async def dig(context: ToolContext) -> str:
    """Take a minute."""
    await context.clock.sleep(60)
    return "deep"


async def test_L5_who_waits_for_a_tool_holds_up_nobody_who_shares_its_key(tmp_path: Path) -> None:
    clock = TestClock()
    async with open_team(tmp_path, "alice", "bob", "carol", clock=clock) as team:
        handy, slow, quick = Handy(clock), Slow(clock, 100), Slow(clock, 1)
        team.employ("alice", handy, credential=KEY, tools=(dig,))
        team.employ("bob", slow, credential=KEY)
        team.employ("carol", quick, credential=KEY)
        team.runtime.supervisor._loop_context.limiter.refused(KEY, 5)  # lets in one then, and two when that got through
        await team.post("user", "@alice go")
        await team.elapse(6)
        await team.post("user", "@bob go")
        await team.elapse(1)
        await team.post("user", "@carol go")
        await team.elapse(10)
        assert handy.asked == [5]
        assert quick.served == [8]
        await team.elapse(100)
        assert handy.asked == [5, 65]
        assert set(await team.states()) == {"done"}


async def test_L5_a_run_asks_its_model_nothing_while_the_gate_of_its_key_is_closed(tmp_path: Path) -> None:
    clock = TestClock()
    async with open_team(tmp_path, "alice", "bob", "carol", clock=clock, runs_at_once=2) as team:
        handy, carol = Handy(clock), Slow(clock, 1)
        team.employ("alice", handy, credential=KEY, tools=(dig,))
        team.employ("bob", Provider(clock, storm=60, retry_after=100), credential=KEY)
        team.employ("carol", carol)
        await team.post("user", "@alice go")
        await team.elapse(30)
        await team.post("user", "@bob go")
        await team.elapse(60)
        (row,) = await team.runs(agent=team.id_of("alice"))
        assert (row["state"], row["reason"]) == ("waiting", CLOSED)
        wait = team.runtime.supervisor.waits.of(team.id_of("alice"))
        assert wait is not None
        assert (wait.what, wait.reason) == ("model", CLOSED)
        await team.post("user", "@carol go")
        await team.elapse(5)
        assert carol.served, "one who waits takes no place among those that run"
        await team.elapse(100)
        first, second = handy.asked
        assert first == 0
        assert second >= 130.1, "when the gate opens"
        assert [call["result"] for call in await team.calls()] == ["deep"], "what it had done is not done again"
        (row,) = await team.runs(agent=team.id_of("alice"))
        assert (row["state"], row["tries"]) == ("done", 2)


class Refusing:
    """Refuses everything, and says nothing of how long."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked: list[float] = []

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.asked.append(self._clock.monotonic())
        raise Overloaded("429")


async def test_L5_the_success_of_one_agent_does_not_make_another_come_back_sooner(tmp_path: Path) -> None:
    clock = TestClock()
    async with open_team(tmp_path, "lucky", "alice", clock=clock) as team:
        lucky, refusing = Slow(clock, 0.1), Refusing(clock)
        team.employ("lucky", lucky, credential=KEY)
        team.employ("alice", refusing, credential=KEY)
        await team.post("user", "@alice go")
        for _ in range(62):
            await team.elapse(1)
            await team.post("user", "@lucky go")
        assert [b - a for a, b in pairwise(refusing.asked)] == pytest.approx([1, 2, 4, 8, 16], abs=1.3)
        assert len(lucky.served) > 40, "and she holds up nobody while she waits"


async def entering(limiter: Limiter, count: int) -> list[asyncio.Task[Pass]]:
    tasks = [asyncio.create_task(limiter.enter(KEY)) for _ in range(count)]
    await settle()
    return tasks


def inside(tasks: list[asyncio.Task[Pass]]) -> int:
    return sum(task.done() and not task.cancelled() for task in tasks)


async def test_the_gate_opens_for_one_then_two_then_four() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    assert limiter.refused(KEY, 10) == 10
    tasks = await entering(limiter, 20)
    assert inside(tasks) == 0
    await clock.advance(10)
    assert inside(tasks) == 1
    for width in (2, 4):
        limiter.succeeded(tasks[0].result())
        await settle()
        assert inside(tasks) == width
    for task in tasks:
        task.cancel()


async def test_L5_whoever_came_first_to_a_closed_gate_is_let_in_first() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    limiter.refused(KEY, 10)
    tasks = await entering(limiter, 5)
    await clock.advance(10)
    for number, task in enumerate(tasks):
        assert [each.done() for each in tasks] == [n <= number for n in range(5)]
        late = asyncio.create_task(limiter.enter(KEY))  # comes in the very moment in which a place is free
        limiter.leave(task.result())
        await settle()
        assert not late.done() or number == 4
        late.cancel()
        await settle()


async def test_L5_a_call_that_was_under_way_when_the_gate_closed_neither_fills_nor_widens_it() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    slow = await limiter.enter(KEY)
    limiter.refused(KEY, 10)
    tasks = await entering(limiter, 3)
    limiter.succeeded(slow)
    await clock.advance(10)
    assert inside(tasks) == 1
    limiter.succeeded(slow)
    limiter.leave(slow)
    await settle()
    assert inside(tasks) == 1
    for task in tasks:
        task.cancel()


async def test_L5_a_gate_that_closes_again_keeps_its_line() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    limiter.refused(KEY, 10)
    first, second, third = await entering(limiter, 3)
    await clock.advance(10)
    limiter.refused(KEY, 20)
    limiter.leave(first.result())
    await clock.advance(19)
    assert not second.done()
    await clock.advance(1)
    assert second.done()
    assert not third.done()
    third.cancel()


async def test_a_late_refusal_of_the_same_storm_does_not_close_the_gate_for_longer() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    assert limiter.refused(KEY, None) == 1
    await clock.advance(0.5)
    assert limiter.refused(KEY, None) == 0.5


async def test_L5_after_a_success_waits_without_advice_are_short_again() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    for expected in (1, 2, 4):
        assert limiter.refused(KEY, None) == expected
        await clock.advance(expected)
    limiter.succeeded(await limiter.enter(KEY))
    assert limiter.refused(KEY, None) == 1


async def test_L5_a_second_refusal_that_asks_for_more_closes_the_gate_for_longer() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    assert limiter.refused(KEY, 10) == 10
    (waiting,) = await entering(limiter, 1)
    await clock.advance(4)
    assert limiter.refused(KEY, 30) == 30
    await clock.advance(29)
    assert not waiting.done()
    await clock.advance(1)
    assert waiting.done()


@pytest.mark.parametrize("asked", [10.0, None])
async def test_L5_the_wait_is_never_shorter_than_asked_and_hosts_with_one_key_do_not_come_back_together(
    asked: float | None,
) -> None:
    waits = set()
    for chance in (0.0, 0.5, 1.0):
        limiter = Limiter(TestClock(), chance=lambda chance=chance: chance)
        waits.add(limiter.refused(KEY, asked) / (asked or 1.0))
    assert waits == {1.0, 1.05, 1.1}


async def test_one_who_gives_up_waiting_passes_its_turn_on() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    limiter.refused(KEY, 10)
    await clock.advance(10)
    inside = await limiter.enter(KEY)
    first, second = await entering(limiter, 2)
    assert not first.done()
    limiter.leave(inside)  # the turn is given to the first, who is told to stop in the same moment
    first.cancel()
    await settle()
    assert second.done()


async def test_one_who_leaves_a_closed_gate_does_not_keep_the_others_there() -> None:
    clock = TestClock()
    limiter = Limiter(clock, chance=lambda: 0.0)
    limiter.refused(KEY, 10)
    first, second = await entering(limiter, 2)
    first.cancel()
    await clock.advance(10)
    assert second.done()
