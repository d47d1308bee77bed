"""A loop that crashes is started again, later each time, and not for ever; nobody else notices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.agents.retries import restart_wait, too_many
from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Permanent
from agent_worker.core.events import AgentChanged, Ended, Event
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.service import Service


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


class Changes(list[tuple[float, str]]):
    """When an agent became what."""

    def __init__(self, team: Team, agent: str) -> None:
        self._team, self._agent = team, team.id_of(agent)
        team.runtime.bus.listen(self._hear)

    def _hear(self, event: Event) -> None:
        if isinstance(event, AgentChanged) and event.agent == self._agent:
            self.append((self._team.clock.monotonic(), event.state))

    @property
    def crashes(self) -> list[float]:
        return list(dict.fromkeys(at for at, state in self if state == "error"))


class Health:
    """Breaks an agent in a way that crashes its loop before any run begins, and mends it."""

    def __init__(self, team: Team, agent: str) -> None:
        self._team, self._agent = team, agent

    def break_down(self) -> None:
        self._team.employ(self._agent, credential=7)  # nothing that a gate can be found by

    def recover(self) -> None:
        self._team.employ(self._agent, credential="")


async def test_R3_a_crashing_loop_restarts_after_1_2_4_8_16_seconds_and_then_stays_in_error(team: Team) -> None:
    changes = Changes(team, "alice")
    Health(team, "alice").break_down()
    await team.post("user", "@alice go")
    await team.elapse(1000)
    assert changes.crashes == [0, 1, 3, 7, 15, 31]
    row = await team.agent("alice")
    assert row["state"] == "error"
    assert "crashed too often: AttributeError" in row["reason"]
    assert await team.states() == ["queued"], "its work is not lost"
    assert [kind for kind, _ in await team.inbox()] == ["failure"], "a person is asked, once"


class _Unspeakable:
    """A key that breaks whoever looks for it, with half a character in its words."""

    def rpartition(self, _: str) -> object:
        raise RuntimeError("half \ud800 a character")


async def test_R3_a_crash_whose_words_cannot_be_stored_is_a_crash_like_any_other(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "agent_worker")  # those words could not be told by a worker of the tests either
    changes = Changes(team, "alice")
    team.employ("alice", credential=_Unspeakable())
    await team.post("user", "@alice go")
    await team.elapse(1000)
    assert changes.crashes == [0, 1, 3, 7, 15, 31]
    assert "RuntimeError: half ? a character" in (await team.agent("alice"))["reason"]


async def test_R3_other_agents_do_not_notice(team: Team) -> None:
    bob = Changes(team, "bob")
    Health(team, "alice").break_down()
    team.backends["bob"].then(says("fine"))
    await team.post("user", "@alice @bob go")
    await team.elapse(100)
    assert (await team.texts())[-1] == "fine"
    assert bob.crashes == []
    assert {at for at, _ in bob} == {0}


async def test_R3_work_goes_on_when_the_loop_is_well_again(team: Team) -> None:
    health = Health(team, "alice")
    health.break_down()
    team.backends["alice"].then(says("back again"))
    await team.post("user", "@alice go")
    await team.elapse(2)
    health.recover()
    await team.elapse(2)
    assert (await team.texts())[-1] == "back again"
    assert (await team.agent("alice"))["state"] == "idle"


async def crash(team: Team, health: Health, times: int) -> None:
    """Be unwell for so many crashes, then well."""
    changes = Changes(team, "alice")
    health.break_down()
    await team.dm("alice", "hi")
    while len(changes.crashes) < times:
        await team.elapse(1)
    health.recover()
    await team.elapse(30)


async def test_R3_the_window_slides(team: Team) -> None:
    """Five crashes, ten healthy minutes, five more: it still tries, and from one second on."""
    changes, health = Changes(team, "alice"), Health(team, "alice")
    team.backends["alice"].then(*[says("well")] * 2)
    await crash(team, health, 5)
    await team.elapse(600)
    before = len(changes.crashes)
    await crash(team, health, 5)
    first = changes.crashes[before]
    assert [at - first for at in changes.crashes[before:]] == [0, 1, 3, 7, 15]
    assert (await team.agent("alice"))["state"] == "idle"
    assert await team.states() == ["done", "done"]


async def test_an_agent_in_error_goes_on_when_a_person_starts_it(team: Team) -> None:
    health = Health(team, "alice")
    health.break_down()
    team.backends["alice"].then(says("at last"))
    await team.post("user", "@alice go")
    await team.elapse(100)
    health.recover()
    await team.elapse(100)
    assert await team.states() == ["queued"], "until a person says start"
    await team.write(commands.start_agent, team.id_of("alice"))
    await team.still()
    assert (await team.texts())[-1] == "at last"


def test_restarts_wait_longer_up_to_half_a_minute() -> None:
    assert [restart_wait(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]


def test_more_than_five_crashes_in_ten_minutes_are_too_many() -> None:
    assert not too_many([0, 1, 2, 3, 4], now=5)
    assert too_many([0, 1, 2, 3, 4, 5], now=5)
    assert not too_many([0, 1, 2, 3, 4, 600], now=600)


async def test_an_agent_that_waits_to_be_restarted_can_be_dismissed_at_once(team: Team) -> None:
    Health(team, "alice").break_down()
    await team.post("user", "@alice go")
    await team.still()
    await team.meanwhile(team.runtime.supervisor.dismiss(team.id_of("alice")), at_most=0)
    assert [t for t in asyncio.all_tasks() if t.get_name() == f"loop {team.id_of('alice')}"] == []


async def test_an_agent_that_was_interrupted_can_be_dismissed_at_once(team: Team) -> None:
    """Its loop is being taken down, and no other has begun: there is nobody to tell."""
    team.backends["alice"].then(says("x").model_copy(update={"slow": 60.0}))
    receipt = await team.dm("alice", "go")
    await team.elapse(1)
    supervisor, gone = team.runtime.supervisor, []

    def hear(event: Event) -> None:
        if isinstance(event, Ended):
            gone.append(asyncio.ensure_future(supervisor.dismiss(team.id_of("alice"))))

    team.runtime.bus.listen(hear)
    await team.write(commands.cancel, receipt.id, reason="not needed", now=team.now())
    await team.meanwhile(gone[0], at_most=0)
    assert [t for t in asyncio.all_tasks() if t.get_name() == f"loop {team.id_of('alice')}"] == []


async def test_a_new_host_goes_on_with_what_the_old_one_left(tmp_path: Path) -> None:
    clock, database = TestClock(), tmp_path / "state.db"
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database) as team:
        slow = calls("channel_peek").model_copy(update={"slow": 5.0})
        team.backends["alice"].then(calls("resource_create", text="kept"), slow)
        await team.dm("alice", "start")
        await team.still()
        stopping = team.runtime.supervisor.stop()
        await team.meanwhile(stopping)
    script = {"alice": "script: [{ say: unused }, { say: unused }, { say: done }]\n"}  # the new host begins at once
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database, tag="other", extra=script) as team:
        await team.still()
        assert await team.states() == ["done"]
        assert (await team.thread("alice"))[-1].text == "done"


async def test_an_agent_that_was_about_to_restart_is_not_in_error_for_ever_after_a_new_start(tmp_path: Path) -> None:
    clock, database = TestClock(), tmp_path / "state.db"
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database) as team:
        Health(team, "alice").break_down()
        await team.dm("alice", "hi")
        await team.still()
        assert (await team.agent("alice"))["state"] == "error"
        await team.meanwhile(team.runtime.supervisor.stop())
    script = {"alice": "script: [{ say: hello }]\n"}
    async with open_team(tmp_path / "p", "alice", clock=clock, database=database, tag="other", extra=script) as team:
        await team.still()
        assert await team.states() == ["done"]


async def test_Q3_work_whose_prompt_cannot_be_made_fails_and_does_not_take_the_loop_with_it(team: Team) -> None:
    team.employ("alice", note=7)  # no text: whoever assembles the prompt stumbles over it
    team.backends["alice"].then(says("hello"))
    await team.post("user", "@alice go")
    await team.elapse(5)
    assert await team.states() == ["failed"]
    team.employ("alice", note="")
    await team.post("user", "@alice hello?")
    await team.still()
    assert (await team.texts())[-1] == "hello"


async def test_Q3_a_message_that_crashes_the_loop_is_dead_after_three_times_and_the_others_are_done(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # what cannot be written down cannot be reported by pytest either

    class Nasty:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            if "poison" in turn.prompt.rpartition("asks you")[2]:
                raise Permanent("\ud800")  # cannot be written down, so even giving up fails
            return Reply("fine")

    team.employ("alice", Nasty())
    await team.dm("alice", "one")
    poison = await team.dm("alice", "poison")
    await team.dm("alice", "two")
    await team.elapse(60)
    assert await team.states() == ["done", "dead", "done"]
    assert [kind for kind, _ in await team.inbox()] == ["dead"]
    assert [row["attempts"] for row in await team.queue(id=poison.id)] == [3]


async def test_an_agent_that_is_deleted_leaves_quietly(tmp_path: Path) -> None:
    """A loop that waits to try again, and then finds no definition, would crash until it is given up."""
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "carol.yaml").write_text("backend: mock\n")  # in no workspace
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        changes, service = Changes(team, "carol"), Service(team.runtime)
        await service.project(str(tmp_path))
        team.backends["carol"].then(fails("transient"))
        await team.dm("carol", "hello")
        await team.until(bool, stored.runs, state="failed")
        await OPERATIONS["agent_delete"].call(service, {"name": "carol", "project": str(tmp_path)})
        await team.elapse(30)
        assert not changes.crashes
        await service.close()
