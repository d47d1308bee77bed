"""Every failure ends where its sender looks: classified, tried again as often as its class says, told once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.agents import commands
from agent_worker.agents.retries import GiveUp, Retry, after, wait_before
from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, fails, says, steps
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient
from agent_worker.core.events import Event, Retrying, Started


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


# --- the policy ---------------------------------------------------------------------------------------


def course(failure: BackendFailure) -> list[float | str]:
    """The waits before each retry, and how it ends."""
    waits: list[float | str] = []
    for failures in range(100):
        match after(failure, failures=failures):
            case Retry(wait):
                waits.append(wait)
            case GiveUp(state):
                return [*waits, state]
    return [*waits, "never ends"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Transient("reset"), [1.0, 2.0, "failed"]),
        (Permanent("401"), ["failed"]),
        (Exhausted("max_steps"), ["incomplete"]),
        (Crashed("exit 1"), [1.0, "failed"]),
    ],
)
def test_Q8_each_class_is_tried_as_often_as_it_should_be(failure: BackendFailure, expected: list[object]) -> None:
    assert course(failure) == expected


def test_waits_double_up_to_a_minute() -> None:
    assert [wait_before(n) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_being_told_to_come_back_later_does_not_use_up_tries() -> None:
    assert after(Overloaded("429", retry_after=60), failures=2) == Retry(60, counts=False)


def test_waiting_without_being_told_how_long_grows_with_the_time_waited() -> None:
    waited, waits = 0.0, []
    for _ in range(9):
        decision = after(Overloaded("429"), failures=0, waited=waited)
        assert isinstance(decision, Retry)
        waits.append(decision.wait)
        waited += decision.wait
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_waiting_ends_after_a_quarter_of_an_hour() -> None:
    assert after(Overloaded("429"), failures=2, waited=900) == GiveUp("failed")


def test_a_wait_of_a_day_is_not_believed() -> None:
    decision = after(Overloaded("429", retry_after=86400), failures=0)
    assert isinstance(decision, Retry)
    assert decision.wait <= 900


# --- the same, end to end -----------------------------------------------------------------------------


async def attempts(team: Team) -> list[float]:
    """When each run began, in seconds from the first."""
    rows = await team.runs()
    return [(row["started_at"] - rows[0]["started_at"]) / 1e6 for row in rows]


@pytest.mark.parametrize(
    ("kind", "began", "state"),
    [
        ("transient", [0, 1, 3], "failed"),
        ("permanent", [0], "failed"),
        ("resource", [0], "incomplete"),
        ("crash", [0, 1], "failed"),
    ],
)
async def test_Q8_a_failure_is_told_once_in_the_channel_and_waits_for_a_person(
    team: Team, kind: str, began: list[float], state: str
) -> None:
    team.backends["alice"].then(*[fails(kind)] * len(began))
    await team.post("user", "@alice go")
    await team.elapse(100)
    assert await attempts(team) == began
    assert await team.states() == [state]
    notices = [m for m in await team.messages() if m.kind == "system"]
    assert len(notices) == 1
    assert f"({kind})" in notices[0].text
    assert notices[0].sender == "system"
    assert [kind for kind, _ in await team.inbox()] == ["failure"]
    assert [row["state"] for row in await team.deliveries()] == ["failed"]
    thread = await team.thread("alice", team.workspace.id)
    assert [(t.who, t.kind) for t in thread] == [("user", "message"), ("system", "failure")]


async def test_Q8_the_failure_of_a_dm_is_its_reply(team: Team) -> None:
    team.backends["alice"].then(fails("permanent"))
    await team.dm("alice", "hi")
    await team.still()
    thread = await team.thread("alice")
    assert [(t.who, t.kind) for t in thread] == [("user", "message"), ("system", "failure")]
    assert "(permanent)" in thread[1].text
    assert await team.texts() == []


async def test_the_agent_sees_its_failure_the_next_time(team: Team) -> None:
    prompts: list[str] = []

    class Reader:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            prompts.append(turn.prompt)
            if len(prompts) == 1:
                raise Permanent("no such model")
            return Reply("now it works")

    team.employ("alice", Reader())
    await team.post("user", "@alice go")
    await team.still()
    await team.post("user", "@alice again")
    await team.still()
    assert "system (failure): no such model" in prompts[1]


async def test_a_failure_that_passes_leaves_no_notice(team: Team) -> None:
    team.backends["alice"].then(fails("transient"), fails("transient"), says("third time lucky"))
    await team.post("user", "@alice go")
    await team.elapse(10)
    assert await team.texts() == ["@alice go", "third time lucky"]
    assert await team.inbox() == []


async def test_being_overloaded_for_minutes_does_not_use_up_tries(team: Team) -> None:
    begun: list[float] = []
    team.runtime.bus.listen(lambda _: begun.append(team.clock.monotonic()), Started)
    team.backends["alice"].then(*[fails("overloaded")] * 8, fails("transient"), says("through"))
    await team.post("user", "@alice go")
    await team.elapse(600)
    assert (await team.texts())[-1] == "through"
    assert [b - a for a, b in pairwise(begun)] == [1, 2, 4, 8, 16, 32, 60, 60, 1]
    assert [(run["state"], run["tries"]) for run in await team.runs()] == [("failed", 9), ("done", 1)]


class Fickle(TestClock):
    """Set back by a day right after somebody has looked at it."""

    armed = False

    def now(self) -> datetime:
        now = super().now()
        if self.armed:
            self.armed = False
            self.jump(timedelta(days=-1))
        return now


async def test_R8_a_clock_set_back_between_two_looks_does_not_hold_up_a_retry(tmp_path: Path) -> None:
    clock = Fickle()

    def arm(event: Event) -> None:
        clock.armed = isinstance(event, Retrying)

    async with open_team(tmp_path, "alice", clock=clock) as team:
        team.runtime.bus.listen(arm)
        team.backends["alice"].then(fails("transient"), says("through"))
        await team.post("user", "@alice go")
        await team.elapse(60)
        assert (await team.texts())[-1] == "through"


async def test_being_overloaded_for_ever_ends_as_failed(team: Team) -> None:
    team.backends["alice"].then(*[fails("overloaded")] * 40)
    await team.post("user", "@alice go")
    await team.elapse(1200)
    assert await team.states() == ["failed"]


async def test_a_retry_goes_on_after_the_last_completed_step(team: Team) -> None:
    team.backends["alice"].then(calls("resource_create", text="kept"), fails("transient"), says("done"))
    await team.post("user", "@alice go")
    await team.elapse(10)
    assert (await team.texts())[-1] == "done"
    assert len(await team.calls()) == 1


async def test_an_exception_of_a_backend_is_its_crash_and_not_ours(team: Team) -> None:
    class Broken:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError("oops")

    team.employ("alice", Broken())
    team.backends["bob"].then(says("I am fine"))
    await team.post("user", "@alice @bob go")
    await team.elapse(10)
    assert sorted(await team.states()) == ["done", "failed"]
    assert (await team.agent("alice"))["state"] == "idle"


async def test_running_out_of_steps_ends_incomplete_and_continue_goes_on_from_there(team: Team) -> None:
    team.backends["alice"].then(calls("resource_create", text="kept"), steps(19), says("finished after all"))
    await team.post("user", "@alice count")
    await team.still()
    assert await team.states() == ["incomplete"]
    await team.post("user", "@alice continue")
    await team.still()
    assert (await team.texts())[-1] == "finished after all"
    assert len(await team.calls()) == 1


async def failed_together(team: Team) -> str:
    """Three mentions in one run that fails. The id of the first."""
    team.backends["alice"].then(says("ok").model_copy(update={"slow": 5.0}), fails("permanent"))
    await team.dm("alice", "hi")
    await team.elapse(1)
    for n in range(3):
        await team.post("user", f"@alice question {n}")
    await team.elapse(10)
    rows = await team.queue(source="channel")
    assert [row["state"] for row in rows] == ["failed"] * 3
    return str(rows[0]["id"])


async def test_a_retry_takes_up_everything_that_failed_in_the_same_run(team: Team) -> None:
    first = await failed_together(team)
    prompts: list[str] = []

    class Reader:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            prompts.append(turn.prompt)
            return Reply("answered")

    team.employ("alice", Reader())
    await team.write(commands.continue_work, first, now=team.now())
    await team.still()
    assert len(prompts) == 1
    assert all(f"question {n}" in prompts[0] for n in range(3))
    assert await team.inbox() == []
    assert {row["state"] for row in await team.deliveries()} == {"acked"}
