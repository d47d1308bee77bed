"""Waking up by oneself: after a rest, by a cron line, once; each slot once, whatever clocks do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.agents.prompt import NO_REPLY
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.mock import fails, says
from agent_worker.core.clock import TestClock, from_micros
from agent_worker.definitions.schedule import Schedule
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import next_due

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def slots(spec: Schedule, now: datetime, count: int) -> list[str]:
    found = []
    for _ in range(count):
        due = next_due(spec, now=now, active=None)
        assert due is not None
        found.append(due.strftime("%d %H:%M"))
        now = due
    return found


# --- when -------------------------------------------------------------------------------------------


def test_an_interval_counts_from_the_last_activity() -> None:
    spec = Schedule(wakeup="5m")
    assert next_due(spec, now=MONDAY, active=MONDAY - timedelta(minutes=2)) == MONDAY + timedelta(minutes=3)
    assert next_due(spec, now=MONDAY, active=None) == MONDAY + timedelta(minutes=5)
    assert next_due(spec, now=MONDAY, active=MONDAY - timedelta(hours=1)) == MONDAY


def test_R8_nine_o_clock_stays_nine_o_clock_when_clocks_change() -> None:
    spec = Schedule(wakeup="0 9 * * *", tz="Europe/Berlin")
    assert slots(spec, at("2026-03-27T12:00"), 3) == ["28 08:00", "29 07:00", "30 07:00"]
    assert slots(spec, at("2026-10-23T12:00"), 3) == ["24 07:00", "25 08:00", "26 08:00"]


def test_R8_an_hour_that_does_not_exist_is_not_skipped_and_one_that_comes_twice_fires_once() -> None:
    spec = Schedule(wakeup="30 2 * * *", tz="Europe/Berlin")
    spring = slots(spec, at("2026-03-28T12:00"), 2)
    assert spring[0].startswith("29 01:"), "once, at the time that takes its place"
    assert spring[1] == "30 00:30"
    assert slots(spec, at("2026-10-24T12:00"), 2) in (["25 00:30", "26 01:30"], ["25 01:30", "26 01:30"])


def test_R8_every_quarter_of_an_hour_goes_on_through_both_changes() -> None:
    spec = Schedule(wakeup="*/15 * * * *", tz="Europe/Berlin")
    for day in ("2026-03-29T00:00", "2026-10-25T00:00"):
        now = at(day)
        for _ in range(16):
            due = next_due(spec, now=now, active=None)
            assert due is not None
            assert due - now == timedelta(minutes=15)
            now = due


def test_a_moment_fires_once_and_one_that_is_past_never() -> None:
    spec = Schedule(at="2026-01-05T10:00", tz="Europe/Berlin")  # type: ignore[arg-type]
    assert next_due(spec, now=at("2026-01-05T08:00"), active=None) == at("2026-01-05T09:00")
    assert next_due(spec, now=at("2026-01-05T09:00"), active=None) is None


# --- what comes of it -----------------------------------------------------------------------------------

Open = Callable[..., AbstractAsyncContextManager[Team]]


@pytest.fixture
def clock() -> TestClock:
    return TestClock(MONDAY)


@pytest.fixture
def scheduled(tmp_path: Path, clock: TestClock) -> Open:
    """A team in which alice has this schedule; opened again, it goes on with the same database."""

    def opened(spec: str, *, workspace: str = "", tag: str = "main") -> AbstractAsyncContextManager[Team]:
        place = f", workspace: '{workspace}'" if workspace else ""
        extra = {"alice": f"schedule: {{ {spec}, prompt: look around{place} }}\n"}
        return open_team(
            tmp_path / "p", "alice", "bob", clock=clock, extra=extra, database=tmp_path / "state.db", tag=tag
        )

    return opened


async def fired(team: Team) -> list[str]:
    """When each wake-up was queued, as minutes and seconds since Monday at nine."""
    rows = await team.queue(source="schedule")
    spans = [from_micros(row["queued_at"]) - MONDAY for row in rows]
    return [f"{int(s.total_seconds()) // 60}:{int(s.total_seconds()) % 60:02}" for s in spans]


async def test_an_interval_is_put_off_by_activity(scheduled: Open) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(*[says("ok")] * 4)
        await team.elapse(4 * 60)
        await team.dm("alice", "hi")
        await team.elapse(4 * 60)
        assert await fired(team) == []
        await team.elapse(7 * 60)
        assert await fired(team) == ["9:00", "14:00"]


async def test_an_agent_that_was_let_go_of_for_want_of_work_was_not_active(scheduled: Open) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(says("hello"), says("ok"))
        await team.dm("alice", "hi")
        await team.elapse(4 * 60)
        await team.runtime.supervisor.dismiss(team.id_of("alice"))
        await team.elapse(2 * 60)
        assert await fired(team) == ["5:00"]


async def test_a_long_run_is_activity_until_it_ends(scheduled: Open) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(says("at last").model_copy(update={"slow": 1200.0}), says("ok"))
        await team.dm("alice", "think")
        await team.elapse(20 * 60 + 1)
        assert await fired(team) == []
        await team.elapse(5 * 60)
        assert await fired(team) == ["25:00"]


async def test_a_cron_line_ignores_activity(scheduled: Open) -> None:
    async with scheduled("wakeup: '*/5 * * * *'") as team:
        team.backends["alice"].then(*[says("ok")] * 4)
        await team.elapse(4 * 60)
        await team.dm("alice", "hi")
        await team.elapse(11 * 60 + 1)
        assert await fired(team) == ["5:00", "10:00", "15:00"]


@pytest.mark.parametrize("spec", ["{}", "not JSON", '{"wakeup": "sometimes"}', '{"at": "0001-01-01T00:00:00+14:00"}'])
async def test_I7_a_schedule_that_cannot_be_read_any_more_holds_up_no_other(scheduled: Open, spec: str) -> None:
    async with scheduled("wakeup: '*/5 * * * *'") as team:
        team.backends["alice"].then(*[says("ok")] * 2)
        due = team.now() + 60_000_000
        row = {"project": team.database.project, "id": "s_other", "agent": team.id_of("bob"), "prompt": "x"}
        await team.write(stored.add, "schedule", **row, spec=spec, set_by="person", due_at=due)
        await team.elapse(10 * 60 + 1)
        assert await fired(team) == ["5:00", "10:00"]


async def test_a_moment_wakes_once(scheduled: Open) -> None:
    async with scheduled("at: 2026-01-05T09:30:00Z") as team:
        team.backends["alice"].then(says("ok"))
        await team.elapse(3 * 3600)
        assert await fired(team) == ["30:00"]


async def test_R8_missed_cron_ticks_fire_once_after_a_restart(scheduled: Open, clock: TestClock) -> None:
    async with scheduled("wakeup: '0 * * * *'") as team:
        await team.elapse(60)
    await clock.advance(hours=8)
    async with scheduled("wakeup: '0 * * * *'", tag="again") as team:
        team.backends["alice"].then(says("ok"), says("ok"))
        await team.elapse(1)
        assert await fired(team) == ["481:00"]
        await team.elapse(3600)
        assert await fired(team) == ["481:00", "540:00"]


async def test_R9_a_slot_fires_once_however_often_it_is_looked_at(scheduled: Open, clock: TestClock) -> None:
    async with scheduled("wakeup: '*/5 * * * *'") as team:
        await team.runtime.supervisor.stop()
        row = (await team.read(stored.schedules))[0]
        due = from_micros(row["due_at"])
        for _ in range(3):  # as after a crash between two commits, had there been two
            await team.change("schedule", due_at=row["due_at"])
            await team.runtime.database.write(schedule.fire_due, now=due)
        assert len(await fired(team)) == 1


async def test_R9_firing_and_the_next_due_time_are_one_transaction(scheduled: Open) -> None:
    async with scheduled("wakeup: '*/5 * * * *'") as team:
        await team.runtime.supervisor.stop()
        before = await team.read(stored.schedules)
        due = from_micros(before[0]["due_at"])

        def fire_and_break(tx: object) -> None:
            schedule.fire_due(tx, now=due)  # type: ignore[arg-type]
            raise OSError("the process died here")

        with pytest.raises(OSError, match="died here"):
            await team.runtime.database.write(fire_and_break)
        assert await team.read(stored.schedules) == before
        assert await fired(team) == []


async def test_R8_a_clock_set_forward_by_a_day_fires_each_schedule_once(scheduled: Open, clock: TestClock) -> None:
    async with scheduled("wakeup: '*/5 * * * *'") as team:
        team.backends["alice"].then(*[says("ok")] * 2)
        await team.elapse(60)
        clock.jump(timedelta(days=1))
        await team.elapse(5 * 60)
        assert len(await fired(team)) <= 2
        assert len(await fired(team)) >= 1


@pytest.mark.parametrize("back", [timedelta(hours=1), timedelta(days=1)])
async def test_R8_a_clock_set_back_does_not_silence_an_interval(
    scheduled: Open, clock: TestClock, back: timedelta
) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(*[says("ok")] * 20)
        await team.elapse(6 * 60)
        clock.jump(-back)
        before = len(await fired(team))
        for _ in range(6):
            await team.elapse(5 * 60)
            await team.idle()
        assert 4 <= len(await fired(team)) - before <= 6


@pytest.mark.parametrize("by", [timedelta(days=-1), timedelta(days=1)])
async def test_R8_a_clock_that_is_set_does_not_hold_up_a_retry(
    scheduled: Open, clock: TestClock, by: timedelta
) -> None:
    async with scheduled("wakeup: 5h") as team:
        team.backends["bob"].then(fails("transient"), fails("transient"), says("through"))
        await team.post("user", "@bob go")
        await team.still()
        clock.jump(by)
        await team.elapse(60)
        assert (await team.texts())[-1] == "through"


async def test_a_wake_up_without_a_workspace_is_a_direct_message_to_oneself(scheduled: Open) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(says("all is well"))
        await team.elapse(5 * 60)
        assert [(t.who, t.text) for t in await team.thread("alice")] == [
            ("schedule", "look around"),
            ("alice", "all is well"),
        ]
        assert await team.texts() == []


async def test_a_wake_up_goes_into_its_workspace_while_that_runs_and_into_personal_context_else(
    scheduled: Open,
) -> None:
    async with scheduled("wakeup: '*/5 * * * *'", workspace="review") as team:
        team.backends["alice"].then(says("in the room"), says("by myself"))
        await team.elapse(5 * 60)
        assert await team.texts() == ["in the room"]
        await team.meanwhile(team.workspace.stop())
        await team.elapse(5 * 60)
        assert (await team.thread("alice"))[-1].text == "by myself"


async def test_a_workspace_of_another_tag_is_not_the_one(scheduled: Open) -> None:
    async with scheduled("wakeup: '*/5 * * * *'", workspace="review:other") as team:
        team.backends["alice"].then(says("by myself"))
        await team.elapse(5 * 60)
        assert await team.texts() == []


async def test_a_workspace_without_a_tag_is_any_instance_that_runs(scheduled: Open) -> None:
    async with scheduled("wakeup: '*/5 * * * *'", workspace="review", tag="pr-9") as team:
        team.backends["alice"].then(says("in the room"))
        await team.elapse(5 * 60)
        assert await team.texts() == ["in the room"]


async def test_a_failed_wake_up_does_not_stop_the_next(scheduled: Open) -> None:
    async with scheduled("wakeup: 5m") as team:
        team.backends["alice"].then(fails("permanent"), says("ok"))
        await team.elapse(10 * 60)
        assert await fired(team) == ["5:00", "10:00"]
        assert await team.states() == ["failed", "done"]


@pytest.mark.parametrize("spec", ["wakeup: 5m", "wakeup: '*/5 * * * *'"])
async def test_wake_ups_do_not_pile_up_while_nobody_can_work(scheduled: Open, spec: str) -> None:
    async with scheduled(spec) as team:
        team.backends["alice"].then(says("ok"), says("ok"))
        await team.change("agent", paused="by a person")
        await team.elapse(3600)
        assert len(await fired(team)) == 1
        await team.write(commands.resume_agent, team.id_of("alice"), now=team.now())
        await team.elapse(60)
        assert await team.states() == ["done"]


@pytest.fixture
async def quiet(scheduled: Open) -> AsyncIterator[Team]:
    async with scheduled("wakeup: '0 12 * * *'") as team:
        yield team


async def test_background_work_lets_others_go_first(quiet: Team) -> None:
    quiet.backends["alice"].then(says("busy").model_copy(update={"slow": 10.0}), says("hello"), says("looked around"))
    await quiet.post("user", "think", to="alice")
    await quiet.still()
    await quiet.runtime.database.write(schedule.fire_due, now=quiet.clock.now() + timedelta(hours=6))
    await quiet.dm("alice", "hi")
    await quiet.elapse(60)
    answers = [row["text"] for row in await quiet.runs(state="done")]
    assert answers == ["busy", "hello", "looked around"]


async def test_R8_many_overdue_schedules_fire_once_each_and_no_more_run_at_once_than_may(tmp_path: Path) -> None:
    clock, names = TestClock(MONDAY), [f"agent{n}" for n in range(20)]
    extra = dict.fromkeys(names, "schedule: { wakeup: '*/10 * * * *' }\n")
    at_once: list[int] = []

    class Sleeper:
        inside = 0

        async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
            Sleeper.inside += 1
            at_once.append(Sleeper.inside)
            await clock.sleep(20)
            Sleeper.inside -= 1
            return Reply(NO_REPLY)

    where = {"clock": clock, "extra": extra, "database": tmp_path / "state.db"}
    async with open_team(tmp_path / "p", *names, **where, tag="one") as team:  # type: ignore[arg-type]
        await team.still()
        await team.change("agent", paused="until those who sleep are there")
    await clock.advance(hours=8)
    async with open_team(tmp_path / "p", *names, **where, tag="two") as team:  # type: ignore[arg-type]
        for name in names:
            team.employ(name, Sleeper())
        await team.change("agent", paused="")
        for name in names:
            team.runtime.supervisor.wake(team.id_of(name))
        await team.elapse(100)
        assert len(await fired(team)) == len(at_once) == 20
        assert max(at_once) <= 8


# --- whose it is --------------------------------------------------------------------------------------


async def kept(team: Team, wakeup: str, **of: Any) -> schedule.Timer:
    timer = schedule.Timer(Schedule(wakeup=wakeup), agent=team.id_of("alice"), **of)
    await team.write(schedule.keep, timer, now=team.clock.now())
    return timer


async def test_R9_a_file_does_not_overrule_what_a_person_has_set(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await kept(team, "5m")
        await kept(team, "7m", set_by="person")
        await kept(team, "9m")
        (row,) = await team.read(stored.schedules)
        assert (schedule.spec_of(row | {"workflow": ""}).wakeup, row["set_by"]) == ("7m", "person")


async def test_R9_a_member_is_not_woken_while_the_workspace_that_wakes_it_does_not_run(
    tmp_path: Path, clock: TestClock
) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        await team.runtime.supervisor.stop()
        await kept(team, "5m", instance=team.workspace.id)
        for state, woken in (("left", 0), ("running", 1)):
            await team.change("workspace", state=state)
            clock.jump(timedelta(minutes=6))
            await team.runtime.database.write(schedule.fire_due, now=clock.now())
            assert len(await team.states()) == woken
