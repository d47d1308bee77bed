"""What a model asks for in one breath happens in that order, as far as the order matters."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.recorders import by_hand, recorder_of
from tests.teams import open_team

from agent_worker.agents.recorder import CallOrder
from agent_worker.backends.backend import Suspended
from agent_worker.core.clock import TestClock
from agent_worker.tools.tool import Call, ToolContext, tool


class Calls:
    """Calls that end when they are told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._turns = CallOrder()
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def ask(self, name: str, *, alone: bool) -> asyncio.Task[None]:
        self._ends[name] = asyncio.get_running_loop().create_future()
        self._tasks.append(asyncio.create_task(self._make(name, alone)))
        return self._tasks[-1]

    async def _make(self, name: str, alone: bool) -> None:
        async with self._turns.take(alone=alone) as turn:
            await turn.comes()
            self.begun.append(name)
            await self._ends[name]

    async def end(self, name: str, error: Exception | None = None) -> None:
        if error:
            self._ends[name].set_exception(error)
        else:
            self._ends[name].set_result(None)
        for _ in range(10):  # until everybody has had their turn
            await asyncio.sleep(0)


async def test_calls_that_change_nothing_are_made_side_by_side_and_the_others_in_turn() -> None:
    calls = Calls()
    for name, alone in (("read a", False), ("read b", False), ("write", True), ("run", True), ("read c", False)):
        calls.ask(name, alone=alone)
    await asyncio.sleep(0)
    assert calls.begun == ["read a", "read b"]
    await calls.end("read b")
    assert calls.begun == ["read a", "read b"], "a is still being read"
    await calls.end("read a")
    assert calls.begun[2:] == ["write"]
    await calls.end("write")
    assert calls.begun[3:] == ["run"]
    await calls.end("run")
    assert calls.begun[4:] == ["read c"]


async def test_a_call_that_fails_lets_the_next_one_begin() -> None:
    calls = Calls()
    failed, _ = calls.ask("write", alone=True), calls.ask("run", alone=True)
    await asyncio.sleep(0)
    await calls.end("write", OSError("disk full"))
    assert calls.begun == ["write", "run"]
    with pytest.raises(OSError, match="disk full"):
        await failed


async def test_what_was_asked_after_a_call_that_waits_for_a_person_waits_too() -> None:
    calls = Calls()
    asked = [calls.ask(name, alone=alone) for name, alone in (("deploy", True), ("tell", False), ("clean", True))]
    await asyncio.sleep(0)
    await calls.end("deploy", Suspended())
    assert calls.begun == ["deploy"]
    for task in asked:
        with pytest.raises(Suspended):
            await task


done: list[str] = []


@tool(in_turn=True)
async def write(context: ToolContext) -> str:
    """Take long."""
    for _ in range(20):
        await context.database.write(lambda tx: None)
    done.append("written")
    return "written"


@tool(in_turn=True)
async def run(context: ToolContext) -> str:
    """Take no time."""
    done.append("run")
    return "run"


async def test_tools_that_say_so_are_used_in_the_order_asked(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        await team.runtime.supervisor.stop()
        await team.post("user", "@alice go")
        recorder = recorder_of(team, await by_hand(team), write, run)
        done.clear()
        await asyncio.gather(*(recorder.call(0, Call(name, name, {})) for name in ("write", "run")))
        assert done == ["written", "run"]
