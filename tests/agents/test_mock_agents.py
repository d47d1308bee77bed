"""The mock that ships: it plays its script, complains when that is too short, and answers sensibly without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.backends.backend import Turn
from agent_worker.backends.mock import MockModel, calls, says, steps
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Permanent


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


async def test_a_script_that_is_too_short_fails_the_run_and_says_so(team: Team) -> None:
    team.backends["alice"].then(says("one"))
    for n in range(2):
        await team.post("user", f"@alice {n}")
        await team.still()
    assert await team.states() == ["done", "failed"]
    assert "the mock's script has no entry left (add an entry to script:)" in (await team.texts())[-1]


async def test_a_script_that_was_not_played_out_is_found(team: Team) -> None:
    team.backends["alice"].then(says("one"), says("two"))
    await team.post("user", "@alice go")
    await team.still()
    assert team.backends["alice"].left_over == [says("two")]


async def test_without_a_script_it_says_what_it_does_and_answers(team: Team) -> None:
    await team.post("user", "@alice look at the parser")
    await team.still()
    assert (await team.texts())[-1] == "I have looked at this: alice look at the parser"
    (row,) = await team.read(stored.members, name="alice")
    assert row["status"].startswith("on it: ")


async def test_without_a_script_it_calls_on_those_it_is_told_to_and_not_on_those_it_echoes(team: Team) -> None:
    await team.post("user", "@alice look, then ask @bob")
    await team.meanwhile(team.quiet())
    by_alice, *by_bob = [m for m in sorted(await team.messages(), key=lambda m: m.sender)][:3]
    assert by_alice.text.startswith("@bob I have looked at this")
    assert [(m.sender, m.mentions) for m in by_bob] == [("bob", ()), ("bob", ())]


async def test_without_a_script_it_answers_a_direct_message(team: Team) -> None:
    await team.dm("alice", "hello")
    await team.still()
    assert (await team.thread("alice"))[-1].text == "I have looked at this: hello"


async def test_it_costs_nothing(team: Team) -> None:
    await team.post("user", "@alice look, then ask @bob")
    await team.meanwhile(team.quiet())
    assert sum(row["micros"] for row in await team.read(stored.ledger)) == 0


async def test_a_script_comes_from_the_definition(tmp_path: Path) -> None:
    script = "script:\n  - { call: { tool: channel_peek } }\n  - { say: seen, slow: 2s }\n"
    async with open_team(tmp_path, "alice", clock=TestClock(), extra={"alice": script}) as team:
        await team.post("user", "@alice look")
        await team.elapse(1)
        assert len(await team.texts()) == 1
        await team.elapse(1)
        assert (await team.texts())[-1] == "seen"


async def test_every_entry_is_one_step() -> None:
    class NoSink:
        def say(self, text: str) -> None: ...

    model = MockModel(TestClock(), [steps(2), calls("channel_peek"), says("done")])
    turn = Turn(run="r", system="", prompt="")
    replies = [await model.reply(turn, (), NoSink()) for _ in range(4)]  # type: ignore[arg-type]
    assert [(r.more, len(r.calls), r.text) for r in replies] == [
        (True, 0, ""),
        (True, 0, ""),
        (False, 1, ""),
        (False, 0, "done"),
    ]
    with pytest.raises(Permanent):
        await model.reply(turn, (), NoSink())  # type: ignore[arg-type]
