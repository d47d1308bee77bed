"""Workflows that run by themselves: at their time, once each time, whatever clocks and processes do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests import stored
from tests.patience import until
from tests.teams import Team, looking_seldom, open_team

from agent_worker.core.clock import TestClock, from_micros
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.database.database import Row
from agent_worker.files.root import Root
from agent_worker.service.inbox import inbox_answer, inbox_list
from agent_worker.service.schedule_starter import ScheduleStarter
from agent_worker.service.schedules import ScheduleRequest, schedule_clear, schedule_get, schedule_set, schedules_list
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin, workflow_stop

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
TRIAGE = """
agents: { tess: { backend: mock } }
workspace: { provider: sqlite }
kickoff: "@tess sort what came in"
"""

Open = Callable[..., AbstractAsyncContextManager["Watched"]]


@dataclass
class Watched:
    team: Team
    service: Service
    keeper: ScheduleStarter
    root: str

    async def elapse(self, seconds: float) -> None:
        """Let time pass, but not while a workflow is being started."""
        with looking_seldom(seconds):
            await self._elapse(seconds)

    async def _elapse(self, seconds: float) -> None:
        clock = self.team.clock
        assert isinstance(clock, TestClock)
        until = clock.monotonic() + seconds
        while True:
            for _ in range(6):  # between two things that are told much may be done in threads
                await self.team.still()
                async with self.keeper._busy:
                    pass
            due = clock.next_wake()
            if due is None or clock.monotonic() + due > until:
                break
            await clock.advance(max(due, 0.0))
        await self.team.elapse(until - clock.monotonic())

    async def instances(self) -> list[Row]:
        """Of triage."""
        return await self.team.read(stored.workspaces, workflow="triage")

    async def started(self) -> list[str]:
        """When each instance of triage began, as minutes and seconds since Monday at nine."""
        rows = await self.instances()
        spans = [int((from_micros(row["started_at"]) - MONDAY).total_seconds()) for row in rows]
        return [f"{span // 60}:{span % 60:02}" for span in spans]

    async def said(self) -> list[str]:
        ids = [row["id"] for row in await self.instances()]
        said = await self.team.read(stored.messages, sender="user")
        return [row["text"] for row in said if row["workspace"] in ids]


@pytest.fixture
def clock() -> TestClock:
    return TestClock(MONDAY)


@pytest.fixture
def watched(tmp_path: Path, clock: TestClock) -> Open:
    """A project with the workflow triage, and somebody who starts it; opened again, the same database goes on."""

    @asynccontextmanager
    async def opened(triage: str = TRIAGE, *, tag: str = "main", **settings: object) -> AsyncIterator[Watched]:
        root = tmp_path / "p"
        (root / ".workflows").mkdir(parents=True, exist_ok=True)
        (root / ".workflows" / "triage.yaml").write_text(triage)
        async with open_team(root, "alice", clock=clock, database=tmp_path / "state.db", tag=tag, **settings) as team:
            service = Service(team.runtime)
            await service.project(str(root))
            await service.open_again()
            yield Watched(team, service, ScheduleStarter(service), str(root))
            await service.close()

    return opened


async def test_a_workflow_with_a_schedule_is_run_each_time_and_ends_by_itself(watched: Open) -> None:
    async with watched(TRIAGE + "schedule: { wakeup: '*/5 * * * *' }\n") as here:
        await here.elapse(11 * 60)
        assert await here.started() == ["5:00", "10:00"]
        assert await here.said() == ["@tess sort what came in"] * 2
        assert {row["state"] for row in await here.instances()} == {"archived", "stopped"}


async def test_a_service_that_is_closed_starts_nothing_any_more_but_the_next_one_does(watched: Open) -> None:
    triage = TRIAGE + "schedule: { wakeup: '*/5 * * * *' }\n"
    async with watched(triage) as here:
        await here.service.close()
        await here.elapse(6 * 60)
        assert await here.started() == []
    async with watched(triage, tag="again") as here:
        await here.elapse(60)
        assert await here.started() == ["6:00"]


async def test_an_interval_runs_it_again_and_again(watched: Open) -> None:
    async with watched(TRIAGE + "schedule: { wakeup: 10m }\n") as here:
        await here.elapse(31 * 60)
        assert await here.started() == ["10:00", "20:00", "30:00"]


async def test_the_prompt_follows_the_kickoff_and_params_are_given(watched: Open) -> None:
    triage = TRIAGE.replace("sort what", "sort ${{ params.what }} that") + (
        "params: [{ name: what, required: true }]\n"
        "schedule: { at: 2026-01-05T09:30, prompt: and be quick, params: { what: bugs } }\n"
    )
    async with watched(triage) as here:
        await here.elapse(3600)
        assert await here.said() == ["@tess sort bugs that came in", "and be quick"]


async def test_one_that_is_kept_alive_is_kicked_off_again_instead(watched: Open) -> None:
    async with watched(TRIAGE + "schedule: { wakeup: '*/5 * * * *' }\n") as here:
        await begin(here.service, WorkflowRequest("triage", here.root))
        await here.elapse(11 * 60)
        assert await here.started() == ["0:00"]
        assert await here.said() == ["@tess sort what came in"] * 3
        await workflow_stop(here.service, "triage", here.root)
        await here.elapse(5 * 60)
        assert await here.started() == ["0:00", "15:00"]


async def test_one_that_has_not_ended_is_not_begun_again(watched: Open) -> None:
    slow = TRIAGE.replace("mock }", "mock, script: [{ say: done, slow: 12m }, { say: done }] }")
    async with watched(slow + "schedule: { wakeup: '*/5 * * * *' }\n") as here:
        await here.elapse(31 * 60)
        first, *later = await here.started()
        assert first == "5:00"
        assert later  # once it has ended, which takes a moment of its own
        assert not {"10:00", "15:00"} & set(later)
        await here.team.halt()


async def test_R8_missed_times_are_made_up_for_once(watched: Open, clock: TestClock) -> None:
    triage = TRIAGE + "schedule: { wakeup: '0 * * * *' }\n"
    async with watched(triage) as here:
        await here.elapse(60)
    await clock.advance(hours=8)
    async with watched(triage, tag="again") as here:
        await here.elapse(1)
        assert await here.started() == ["481:00"]
        await here.elapse(3600)
        assert await here.started() == ["481:00", "540:00"]


async def test_R9_one_that_was_due_when_the_process_died_is_started_by_the_next(
    watched: Open, clock: TestClock
) -> None:
    triage = TRIAGE + "schedule: { wakeup: '*/5 * * * *' }\n"
    async with watched(triage) as here:
        assert here.team.runtime.loader.ticker is not None
        here.team.runtime.loader.ticker.listener = None  # died between the tick and the start
        await here.elapse(5 * 60)
        assert await here.started() == []
    async with watched(triage, tag="again") as here:
        await here.elapse(1)
        assert await here.started() == ["5:00"]


@pytest.mark.parametrize(
    ("begin_at", "times"),
    [
        ("2026-03-28T06:00+00:00", ["28 08:00", "29 07:00", "30 07:00"]),
        ("2026-10-24T06:00+00:00", ["24 07:00", "25 08:00", "26 08:00"]),
    ],
)
async def test_R8_a_workflows_nine_o_clock_stays_nine_o_clock_when_clocks_change(
    watched: Open, clock: TestClock, begin_at: str, times: list[str]
) -> None:
    clock.jump(datetime.fromisoformat(begin_at) - clock.now())
    async with watched(TRIAGE + "schedule: { wakeup: '0 9 * * *', tz: Europe/Berlin }\n") as here:
        await here.elapse(51 * 3600)
        assert [f"{from_micros(row['started_at']):%d %H:%M}" for row in await here.instances()] == times


async def test_what_cannot_be_started_is_put_before_the_person_once_and_can_be_tried_again(
    watched: Open, tmp_path: Path
) -> None:
    triage = TRIAGE + "setup: [{ shell: test -e ready }]\nschedule: { wakeup: '*/5 * * * *' }\n"
    async with watched(triage) as here:
        await here.elapse(6 * 60)
        await here.team.until(len, stored.inbox)  # its set-up is a process of its own
        await here.elapse(5 * 60)
        (item,) = await inbox_list(here.service, here.root)
        assert item.kind == "failure"
        assert "triage was not started by its schedule: set-up failed" in item.text
        (tmp_path / "p" / "ready").touch()
        assert await inbox_answer(here.service, item.id, "retry") == "it is being retried"
        await here.team.until(len, stored.workspaces, workflow="triage")
        assert await here.started() == ["11:00"]
        assert await inbox_list(here.service, here.root) == []


async def test_what_is_not_approved_is_not_started_by_a_schedule(watched: Open, tmp_path: Path) -> None:
    triage = TRIAGE + "setup: [{ shell: touch executed }]\nschedule: { wakeup: '*/5 * * * *' }\n"
    async with watched(triage, trust=Root.private(tmp_path / "home")) as here:
        await here.elapse(6 * 60)
        (item,) = await inbox_list(here.service, here.root)
        assert "touch executed" in item.text
        assert not (tmp_path / "p" / "executed").exists()


# --- as a person sets them ------------------------------------------------------------------------------


async def test_what_a_person_sets_is_kept_over_a_restart_and_counts_more_than_the_file(
    watched: Open, clock: TestClock
) -> None:
    async with watched(TRIAGE + "schedule: { wakeup: 1h }\n") as here:
        made = await schedule_set(here.service, "triage", ScheduleRequest(wakeup="*/5 * * * *"), project=here.root)
        assert (made.target, made.wakeup, made.set_by) == ("triage", "*/5 * * * *", "person")
        await schedule_set(here.service, "alice", ScheduleRequest(wakeup="30m", prompt="look"), project=here.root)
    async with watched(TRIAGE + "schedule: { wakeup: 2h }\n", tag="again") as here:
        found = {each.target: each.wakeup for each in await schedules_list(here.service, here.root)}
        assert found == {"triage": "*/5 * * * *", "alice": "30m"}
        await here.elapse(6 * 60)
        assert await here.started() == ["5:00"]
        assert await schedule_clear(here.service, "triage", here.root)
        assert (await schedule_get(here.service, "triage", here.root)).wakeup == "2h"
        with pytest.raises(Refused, match="is in its file"):
            await schedule_clear(here.service, "triage", here.root)
        assert await schedule_clear(here.service, "alice", here.root)
        assert not await schedule_clear(here.service, "alice", here.root)


async def test_next_and_last_are_told(watched: Open) -> None:
    async with watched() as here:
        await schedule_set(here.service, "triage:nightly", ScheduleRequest(wakeup="0 10 * * *"), project=here.root)
        (before,) = await schedules_list(here.service, here.root)
        assert (before.target, before.fired_at) == ("triage:nightly", None)
        assert from_micros(before.due_at or 0) == MONDAY + timedelta(hours=1)
        await here.elapse(3601)
        (after,) = await schedules_list(here.service, here.root)
        assert from_micros(after.fired_at or 0) == MONDAY + timedelta(hours=1)
        assert from_micros(after.due_at or 0) == MONDAY + timedelta(hours=25)
        assert [row["tag"] for row in await here.instances()] == ["nightly"]


async def test_a_schedule_that_is_removed_from_the_file_ends(watched: Open, tmp_path: Path) -> None:
    async with watched(TRIAGE + "schedule: { wakeup: 1h }\n") as here:
        (tmp_path / "p" / ".workflows" / "triage.yaml").write_text(TRIAGE)
        await here.service.project(here.root)
        assert await schedules_list(here.service, here.root) == []


@pytest.mark.parametrize(
    ("target", "given", "error"),
    [
        ("nothing", {"wakeup": "5m"}, NotFound),
        ("triage", {"wakeup": "9s"}, BadInput),
        ("triage", {"wakeup": "99 * * * *"}, BadInput),
        ("triage", {"wakeup": "0 9 * * *", "tz": "Mars/Olympus"}, BadInput),
        ("triage", {}, BadInput),
        ("triage", {"wakeup": "5m", "workspace": "review"}, BadInput),
        ("triage", {"wakeup": "5m", "params": {"x": "1"}}, BadInput),
        ("alice", {"wakeup": "5m", "params": {"x": "1"}}, BadInput),
        ("review", {"wakeup": "5m"}, BadInput),  # has no kickoff
        ("nothing:tag", {"wakeup": "5m"}, NotFound),
        ("@nothing", {"wakeup": "5m"}, NotFound),
        ("nobody@triage", {"wakeup": "5m"}, NotFound),
        ("@triage", {"wakeup": "5m", "params": {"x": "1"}}, BadInput),
        ("tess@triage", {"wakeup": "5m", "workspace": "review"}, BadInput),
    ],
)
async def test_what_could_not_work_is_refused_when_it_is_set(
    watched: Open, target: str, given: dict[str, object], error: type[Exception]
) -> None:
    async with watched() as here:
        with pytest.raises(error):
            await schedule_set(here.service, target, ScheduleRequest(**given), project=here.root)  # type: ignore[arg-type]
        assert await schedules_list(here.service, here.root) == []


# --- of members -----------------------------------------------------------------------------------------


async def test_a_member_wakes_by_the_schedule_its_workflow_gives_it_while_that_runs(watched: Open) -> None:
    triage = """
agents:
  tess: { backend: mock, schedule: { wakeup: 5m, prompt: look again } }
  alice: { ref: alice, schedule: { wakeup: '*/10 * * * *', prompt: and you } }
workspace: { provider: sqlite }
"""
    async with watched(triage) as here:
        await begin(here.service, WorkflowRequest("triage", here.root))
        await here.elapse(11 * 60)
        rows = await here.team.queue(source="schedule")
        assert [row["text"] for row in rows] == ["look again", "look again", "and you"] or [
            row["text"] for row in rows
        ] == ["look again", "and you", "look again"]
        assert all(row["workspace"] for row in rows)
        await workflow_stop(here.service, "triage", here.root)
        assert await schedules_list(here.service, here.root) == []


PAIR = """
agents:
  tess: { backend: mock }
  alice: { ref: alice }
  bert: { backend: mock, schedule: { wakeup: 20m, prompt: by the file } }
workspace: { provider: sqlite }
"""


async def woken(here: Watched) -> list[tuple[str, str]]:
    """Who was woken by a schedule, and what for, in order."""
    rows = await here.team.queue(source="schedule")
    names = {row["id"]: row["name"] for row in await here.team.read(stored.agents)}
    return [(names[row["agent"]], row["text"]) for row in rows]


async def told(here: Watched) -> dict[str, str]:
    return {each.target: each.told for each in await schedules_list(here.service, here.root)}


async def test_what_is_set_for_a_workflow_with_an_at_is_the_default_of_its_members(watched: Open) -> None:
    async with watched(PAIR) as here:
        await begin(here.service, WorkflowRequest("triage", here.root, tag="pr-1"))
        made = await schedule_set(
            here.service, "@triage:pr-1", ScheduleRequest(wakeup="every 5m", prompt="look"), project=here.root
        )
        assert made.of == "default"
        assert made.told == (
            "each member of triage:pr-1 that has no schedule of its own wakes there every 5 minutes, "
            "counted from its last activity, while that runs"
        )
        await here.elapse(6 * 60)
        assert sorted(await woken(here)) == [("alice", "look"), ("tess", "look")]
        await schedule_clear(here.service, "@triage:pr-1", here.root)
        assert list(await told(here)) == ["bert@triage:pr-1"]


async def test_a_default_that_is_set_before_counts_from_the_start_and_again_with_the_next_instance(
    watched: Open,
) -> None:
    async with watched(PAIR) as here:
        await schedule_set(here.service, "@triage", ScheduleRequest(wakeup="5m", prompt="look"), project=here.root)
        for _ in range(2):
            await begin(here.service, WorkflowRequest("triage", here.root))
            await here.elapse(6 * 60)
            await workflow_stop(here.service, "triage", here.root)
            await here.elapse(6 * 60)
        assert sorted(await woken(here)) == [("alice", "look")] * 2 + [("tess", "look")] * 2
        assert list(await told(here)) == ["@triage"]


async def test_who_has_a_schedule_of_its_own_is_not_woken_by_the_default(watched: Open) -> None:
    async with watched(PAIR) as here:
        await schedule_set(here.service, "alice", ScheduleRequest(wakeup="1h"), project=here.root)
        await schedule_set(here.service, "tess@triage", ScheduleRequest(wakeup="2h"), project=here.root)
        await schedule_set(here.service, "@triage", ScheduleRequest(wakeup="5m"), project=here.root)
        await begin(here.service, WorkflowRequest("triage", here.root))
        await here.elapse(19 * 60)
        assert await woken(here) == []


@pytest.mark.parametrize("before", [True, False], ids=["before it runs", "while it runs"])
async def test_a_member_inline_or_not_is_woken_where_a_person_says_so(watched: Open, before: bool) -> None:
    async with watched(PAIR) as here:
        if not before:
            await begin(here.service, WorkflowRequest("triage", here.root))
        for name in ("alice", "bert"):
            made = await schedule_set(
                here.service, f"{name}@triage", ScheduleRequest(wakeup="5m", prompt="look"), project=here.root
            )
            assert (made.target, made.of, made.set_by) == (f"{name}@triage", "member", "person")
        if before:
            await begin(here.service, WorkflowRequest("triage", here.root))
        await here.elapse(6 * 60)
        assert sorted(await woken(here)) == [("alice", "look"), ("bert", "look")]
        assert all([row["workspace"] for row in await here.team.queue(source="schedule")])
        assert (await schedule_get(here.service, "bert@triage", here.root)).due_at
        assert await schedule_clear(here.service, "bert@triage", here.root)
        assert (await schedule_get(here.service, "bert@triage", here.root)).wakeup == "20m", "what the file says"
        with pytest.raises(Refused, match="is in its file"):
            await schedule_clear(here.service, "bert@triage", here.root)


# --- with a check -----------------------------------------------------------------------------------------


async def test_a_check_that_prints_nothing_wakes_nobody_and_what_it_prints_is_handed_on(
    watched: Open, tmp_path: Path
) -> None:
    async with watched() as here:
        made = await schedule_set(
            here.service,
            "alice",
            ScheduleRequest(wakeup="*/5 * * * *", prompt="sort", check="cat news"),
            project=here.root,
        )
        assert made.told.endswith("if `cat news` prints something")
        (tmp_path / "p" / "news").write_text("\n")
        await here.elapse(5 * 60)
        await checked(here)
        assert await woken(here) == []
        (tmp_path / "p" / "news").write_text("bug 7 ``` end\n")
        await here.elapse(5 * 60)
        await here.team.until(len, stored.instructions, source="schedule")
        assert await woken(here) == [("alice", "sort\n\nThe check `cat news` printed:\n\n````\nbug 7 ``` end\n````")]


async def checked(here: Watched) -> None:
    """Wait until no check is under way: it is a process of its own."""
    await until(lambda: not here.keeper._checking)


async def test_a_workflow_is_run_when_its_check_prints_something_and_mentions_in_that_call_nobody(
    watched: Open, tmp_path: Path
) -> None:
    triage = TRIAGE.replace("{ tess: { backend: mock } }", "{ tess: { backend: mock }, bert: { backend: mock } }")
    async with watched(triage + "schedule: { wakeup: '*/5 * * * *', check: cat news }\n") as here:
        (tmp_path / "p" / "news").touch()
        await here.elapse(5 * 60)
        await checked(here)
        assert await here.started() == []
        (tmp_path / "p" / "news").write_text("@bert come\n")
        await here.elapse(5 * 60)
        await here.team.until(len, stored.workspaces, workflow="triage")
        await here.elapse(1)
        (said,) = await here.said()
        assert said.startswith("@tess sort what came in\n\nThe check `cat news` printed:")
        calls = await here.team.read(stored.messages, sender="user")
        assert [row["mentions"] for row in calls] == ['["tess"]']


async def test_a_check_that_fails_is_told_the_second_time_in_a_row_and_settled_when_it_works(
    watched: Open, tmp_path: Path
) -> None:
    async with watched() as here:
        await schedule_set(
            here.service, "alice", ScheduleRequest(wakeup="*/5 * * * *", check="cat news"), project=here.root
        )
        await here.elapse(5 * 60)
        await checked(here)
        assert await inbox_list(here.service, here.root) == []
        await here.elapse(5 * 60)
        await checked(here)
        (item,) = await inbox_list(here.service, here.root)
        assert item.text.startswith("alice was not woken by its schedule: its check failed (exit 1): cat news")
        (tmp_path / "p" / "news").touch()
        assert await inbox_answer(here.service, item.id, "retry") == "it is being retried"
        await here.elapse(5 * 60)
        await checked(here)
        assert await inbox_list(here.service, here.root) == []
        assert await woken(here) == []


async def test_a_check_in_a_file_runs_when_it_was_approved_and_one_that_a_person_sets_is_approved_by_that(
    watched: Open, tmp_path: Path
) -> None:
    triage = TRIAGE + "schedule: { wakeup: '*/5 * * * *', check: touch executed }\n"
    async with watched(triage, trust=Root.private(tmp_path / "home")) as here:
        await here.elapse(5 * 60)
        await checked(here)
        (item,) = await inbox_list(here.service, here.root)
        assert "to see whether there is work: touch executed" in item.text
        assert not (tmp_path / "p" / "executed").exists()
        await schedule_set(
            here.service, "alice", ScheduleRequest(wakeup="*/5 * * * *", check="sh mine.sh"), project=here.root
        )
        (tmp_path / "p" / "mine.sh").write_text("touch other")
        await here.elapse(5 * 60)
        await checked(here)
        assert not (tmp_path / "p" / "other").exists(), "it is not what was there when the person said so"
        await schedule_set(
            here.service, "alice", ScheduleRequest(wakeup="*/4 * * * *", check="sh mine.sh"), project=here.root
        )
        await here.elapse(5 * 60)
        await checked(here)
        assert (tmp_path / "p" / "other").exists()
