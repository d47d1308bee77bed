"""Places on one machine: who waits for what, and that nobody waits for somebody who waits for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.teams import Team, open_team

from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.slots import Slots
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.mock import says
from agent_worker.core.clock import Clock, TestClock, settle
from agent_worker.core.errors import Permanent


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


class Visitor:
    """Wants a place, and keeps it until it is told to go."""

    def __init__(self, slots: Slots, worker: AgentRuntime, *, alone: bool = False) -> None:
        self._slots, self._worker, self._alone = slots, worker, alone
        self.inside = asyncio.Event()
        self._go = asyncio.Event()
        self._task = asyncio.create_task(self._stay())

    async def _stay(self) -> None:
        async with self._slots.all(self._worker) if self._alone else self._slots.one(self._worker):
            self.inside.set()
            await self._go.wait()

    async def leave(self) -> None:
        self._go.set()
        await self._task

    def give_up(self) -> None:
        self._task.cancel()


async def test_I2_programs_that_wait_for_their_turn_keep_no_place_from_others(team: Team) -> None:
    worker = team.runtime.registry.worker(team.id_of("alice"))
    program = replace(worker, definition=worker.definition.model_copy(update={"backend": "claude"}))
    slots = Slots(runs=2, programs=1)
    hanging = [Visitor(slots, program) for _ in range(5)]
    await settle()
    assert [each.inside.is_set() for each in hanging] == [True, False, False, False, False]
    other = Visitor(slots, worker)
    await settle()
    assert other.inside.is_set(), "one of two places is free: four programs only wait for the first"
    for each in (*hanging, other):
        each.give_up()


async def test_Q3_two_that_want_to_run_alone_do_so_one_after_the_other(team: Team) -> None:
    worker = team.runtime.registry.worker(team.id_of("alice"))
    slots = Slots(runs=3)
    running = [Visitor(slots, worker) for _ in range(2)]
    await settle()
    alone = [Visitor(slots, worker, alone=True) for _ in range(2)]
    for each in running:
        await settle()
        assert not any(each.inside.is_set() for each in alone)
        await each.leave()
    await settle()
    assert [each.inside.is_set() for each in alone] == [True, False]
    assert slots.all_taken(worker) == "alice works alone for now, because the daemon has died during that work before"
    await alone[0].leave()
    await settle()
    assert alone[1].inside.is_set()
    await alone[1].leave()
    assert slots.all_taken(worker) == ""


class Diarist:
    """Writes down when it begins and ends a step of ten seconds. At first it may take its loop down with it."""

    def __init__(self, name: str, diary: list[str], clock: Clock, *, deaths: int = 0) -> None:
        self._name, self._diary, self._clock = name, diary, clock
        self._deaths = deaths

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if self._deaths:
            self._deaths -= 1
            raise Permanent("\ud800")  # cannot be stored, so the loop cannot even give the work up
        self._diary.append(f"{self._name} begins")
        await self._clock.sleep(10)
        self._diary.append(f"{self._name} ends")
        return Reply("done")


async def test_Q3_the_last_try_of_a_suspect_waits_for_those_who_run_and_lets_nobody_run_beside_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # what cannot be stored cannot be reported by pytest either
    clock, diary = TestClock(), list[str]()
    async with open_team(tmp_path, "suspect", "before", "while", clock=clock) as team:
        for name in ("suspect", "before", "while"):
            team.employ(name, Diarist(name, diary, clock, deaths=2 if name == "suspect" else 0))
        await team.dm("suspect", "go")
        await team.elapse(2)
        assert [run["state"] for run in await team.runs()] == ["lost", "lost"]
        await team.dm("before", "go")
        await team.elapse(5)
        assert diary == ["before begins"], "the suspect would have been tried again by now"
        await team.elapse(10)
        assert diary[1:] == ["before ends", "suspect begins"]
        await team.dm("while", "go")
        await team.elapse(60)
        assert diary[3:] == ["suspect ends", "while begins", "while ends"]
        assert await team.states() == ["done", "done", "done"]


async def test_Q6_what_arrives_while_a_loop_looks_is_not_slept_through(team: Team) -> None:
    team.backends["alice"].then(says("one"), says("two"))
    await team.post("user", "@alice first")
    await team.still()
    assert (await team.texts())[-1] == "one"
    begun, held = threading.Event(), threading.Event()
    holding = asyncio.create_task(team.write(lambda tx: begun.set() or held.wait(PATIENCE)))
    await asyncio.to_thread(begun.wait, PATIENCE)  # what is asked for from now on is in the next commit
    team.runtime.supervisor.wake(team.id_of("alice"))  # it looks, and there is nothing yet
    await settle()
    posting = asyncio.create_task(team.post("user", "@alice second"))  # committed together with that look
    await settle()
    held.set()
    await asyncio.gather(holding, posting)
    await team.still()
    assert (await team.texts())[-1] == "two"
