"""A script of the mock that begins anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recorders import by_hand, recorder_of
from tests.teams import open_team

from agent_worker.backends.backend import PastStep, Reply, Turn
from agent_worker.backends.mock import MockModel, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Permanent


async def test_a_script_that_says_so_begins_again_at_its_end(tmp_path: Path) -> None:
    extra = {"alice": "script: [{ say: one }, { say: two }, { again: true }]\n"}
    async with open_team(tmp_path, "alice", clock=TestClock(), extra=extra) as team:
        for number in range(5):
            await team.dm("alice", f"question {number}")
            await team.idle()
        said = [talk.text for talk in await team.thread("alice") if talk.who == "alice"]
        assert said == ["one", "two", "one", "two", "one"]


async def test_I7_steps_of_a_script_may_be_slow(tmp_path: Path) -> None:
    extra = {"alice": "script: [{ steps: 6, slow: 1s }, { say: done }]\n"}
    clock = TestClock()
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        await team.dm("alice", "go")
        await team.meanwhile(team.idle())
        assert [talk.text for talk in await team.thread("alice") if talk.who == "alice"] == ["done"]
        assert clock.monotonic() >= 6


async def test_a_script_that_became_shorter_than_what_was_played_is_over(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        await team.runtime.supervisor.stop()
        await team.dm("alice", "go")
        sink = recorder_of(team, await by_hand(team))
        turn = Turn(run="r", system="", prompt="", past=(PastStep(Reply(text="")),) * 3)
        with pytest.raises(Permanent, match="no entry left"):
            await MockModel(TestClock(), [says("one")]).reply(turn, (), sink)
