"""Whoever has work and waits says for what, since when and until when; waiting ends, and work can be cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.agents.test_limiter import KEY, Provider, Refusing, Slow
from tests.teams import Team, open_team

from agent_worker.agents.waiting import Waiting
from agent_worker.backends.mock import calls, fails, says
from agent_worker.core.clock import TestClock
from agent_worker.core.disk_space import Space
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.events import Event, WaitChanged
from agent_worker.definitions.settings import Settings, with_environment
from agent_worker.service.agents import AgentView, agent_info, agents_list
from agent_worker.service.inbox import inbox_answer, inbox_list
from agent_worker.service.runs import explain, runs_list
from agent_worker.service.service import Service
from agent_worker.service.work import work_cancel
from agent_worker.service.workflows import workflow_status


@dataclass
class Watched:
    team: Team
    service: Service
    root: str
    clock: TestClock
    told: list[WaitChanged] = field(default_factory=list)

    async def agent(self, name: str) -> AgentView:
        (found,) = [each for each in await agents_list(self.service, self.root) if each.name == name]
        return found

    async def waiting(self, name: str) -> Waiting:
        """What it waits for, the same wherever one looks."""
        agent = await self.agent(name)
        assert agent.state == "waiting"
        assert agent.waiting is not None
        assert agent.reason == agent.waiting.reason
        (member,) = [m for m in (await workflow_status(self.service, "review", self.root)).members if m.name == name]
        assert (member.state, member.waiting) == ("waiting", agent.waiting)
        return agent.waiting

    def at(self, seconds: float) -> int:
        return self.team.now() + round((seconds - self.clock.monotonic()) * 1e6)

    def events(self, name: str) -> list[str]:
        return [each.what for each in self.told if each.name == name]


Open = Callable[..., AbstractAsyncContextManager[Watched]]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    @asynccontextmanager
    async def make(*agents: str, **how: object) -> AsyncIterator[Watched]:
        root, clock = tmp_path / "p", TestClock()
        async with open_team(root, *agents, clock=clock, **how) as team:  # type: ignore[arg-type]
            service = Service(team.runtime)
            await service.project(str(root))
            watched = Watched(team, service, str(root), clock)

            def hear(event: Event) -> None:
                if isinstance(event, WaitChanged):
                    watched.told.append(event)

            team.runtime.bus.listen(hear)
            yield watched
            await team.halt()
            await service.close()

    return make


async def test_who_was_told_to_come_back_later_waits_for_its_model_until_then(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.employ("alice", Provider(watched.clock, storm=10, retry_after=30), credential=KEY)
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(5)
        wait = await watched.waiting("alice")
        assert wait == Waiting("model", "429", since=watched.at(0.1), until=watched.at(30.1))
        await watched.team.elapse(60)
        assert (await watched.agent("alice")).state == "idle"
        assert watched.events("alice") == ["model", ""]


async def test_who_shares_the_key_waits_at_the_same_gate_and_says_so(opened: Open) -> None:
    async with opened("alice", "bob") as watched:
        watched.team.employ("alice", Provider(watched.clock, storm=10, retry_after=30), credential=KEY)
        watched.team.employ("bob", Slow(watched.clock, 1), credential=KEY)
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(5)
        assert (await watched.agent("bob")).state == "idle", "it has nothing to do"
        await watched.team.post("user", "@bob go")
        await watched.team.elapse(5)
        wait = await watched.waiting("bob")
        assert (wait.what, wait.since, wait.until) == ("model", watched.at(5), watched.at(30.1))
        assert "come back later" in wait.reason
        await watched.team.elapse(60)
        assert (await watched.agent("bob")).state == "idle"
        assert watched.events("bob")[-1] == ""


async def test_who_finds_all_slots_taken_waits_for_one(opened: Open) -> None:
    async with opened("alice", "bob", runs_at_once=1) as watched:
        watched.team.employ("alice", Slow(watched.clock, 60))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(1)
        watched.team.backends["bob"].then(says("at last"))
        await watched.team.post("user", "@bob go")
        await watched.team.elapse(1)
        wait = await watched.waiting("bob")
        assert (wait.what, wait.since, wait.until) == ("slot", watched.at(1), None)
        assert wait.reason == "the limit of 1 run at once is reached"
        await watched.team.elapse(100)
        assert watched.events("bob") == ["slot", ""]
        assert await watched.team.states() == ["done", "done"]


async def test_work_that_is_tried_again_waits_for_its_time_with_what_went_wrong(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.backends["alice"].then(fails("transient"), fails("transient"), says("through"))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(2)
        wait = await watched.waiting("alice")
        assert (wait.what, wait.until) == ("retry", watched.at(3))
        assert "transient" in wait.reason
        await watched.team.elapse(10)
        assert (await watched.agent("alice")).state == "idle"


async def test_who_has_asked_the_person_waits_for_them_and_does_other_work_meanwhile(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.backends["alice"].then(
            calls("ask_user", question="which colour?"), says("hello"), says("red it is")
        )
        await watched.team.post("user", "@alice paint it")
        await watched.team.elapse(5)
        wait = await watched.waiting("alice")
        assert (wait.what, wait.since, wait.until) == ("person", watched.at(0), None)
        assert "which colour?" in wait.reason
        await watched.team.dm("alice", "hi")
        await watched.team.elapse(5)
        assert (await watched.waiting("alice")).what == "person"
        (item,) = await inbox_list(watched.service, watched.root)
        await inbox_answer(watched.service, item.id, "answer", "red")
        await watched.team.elapse(5)
        assert (await watched.agent("alice")).state == "idle"
        assert watched.events("alice")[-1] == ""


async def test_who_has_no_space_on_the_disk_waits_for_it(opened: Open) -> None:
    free = [10]
    async with opened("alice", space=Space(free=lambda: free[0], warn=2000, stop=1000)) as watched:
        watched.team.backends["alice"].then(says("at last"))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(12)
        wait = await watched.waiting("alice")
        assert (wait.what, wait.since) == ("disk", watched.at(0)), "it is one wait, however often it looks"
        assert "is free on the disk" in wait.reason
        free[0] = 10**12
        await watched.team.elapse(10)
        assert await watched.team.states() == ["done"]
        assert watched.events("alice") == ["disk", ""]


async def test_colleagues_see_who_waits_and_for_what(opened: Open) -> None:
    async with opened("alice", "bob", runs_at_once=1) as watched:
        slow = says("").model_copy(update={"slow": 5.0})
        watched.team.backends["alice"].then(
            slow.model_copy(update={"say": None, "steps": 1}), calls("team_members"), slow
        )
        watched.team.backends["bob"].then(says("at last"))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(1)
        await watched.team.post("user", "@bob go")
        await watched.team.elapse(6)
        (call,) = await watched.team.calls()
        assert "@bob waiting (slot)" in call["result"]
        await watched.team.elapse(60)


# --- how long ------------------------------------------------------------------------------------------


async def test_Q8_who_waits_at_a_gate_for_a_quarter_of_an_hour_has_failed_and_it_is_told(opened: Open) -> None:
    async with opened("alice", "bob") as watched:
        for name in ("alice", "bob"):
            watched.team.employ(name, Refusing(watched.clock), credential=KEY)
        await watched.team.dm("alice", "go")
        await watched.team.post("user", "@bob go")
        await watched.team.elapse(14 * 60)
        assert set(await watched.team.states()) == {"queued"}
        await watched.team.elapse(3 * 60)
        assert await watched.team.states() == ["failed", "failed"]
        assert sorted(kind for kind, _ in await watched.team.inbox()) == ["failure", "failure"]
        assert (await watched.team.thread("alice"))[-1].text == "failed: it waited 15 minutes for its model: 429"
        assert (await watched.team.texts())[-1] == "bob failed: it waited 15 minutes for its model: 429"
        assert (await watched.agent("alice")).state == "idle"


async def test_Q8_who_is_never_let_in_has_failed_after_as_long_as_the_user_says(opened: Open) -> None:
    async with opened("alice", "bob", longest_wait=60.0) as watched:
        limiter = watched.team.runtime.supervisor._loop_context.limiter
        watched.team.employ("bob", Slow(watched.clock, 1), credential=KEY)
        limiter.refused(KEY, 10_000)
        await watched.team.post("user", "@bob go")
        await watched.team.elapse(59)
        assert await watched.team.states() == ["queued"]
        await watched.team.elapse(2)
        assert await watched.team.states() == ["failed"]
        reason = "it waited 60 seconds for its model: its provider refuses requests with this key"
        assert (await watched.team.texts())[-1] == f"bob failed: {reason}"
        assert [row["state"] for row in await watched.team.deliveries()] == ["failed"]
        assert (await watched.agent("bob")).state == "idle"


async def test_Q8_tries_of_a_model_that_refuses_are_one_run_and_one_wait(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.employ("alice", Provider(watched.clock, storm=100, retry_after=30), credential=KEY)
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(80)
        assert (await watched.waiting("alice")).since == watched.at(0.1), "when it was refused first"
        (run,) = await runs_list(watched.service, watched.root)
        assert (run.state, run.reason, run.tries, run.ended_at) == ("waiting", "429", 3, None)
        await watched.team.elapse(100)
        (run,) = await runs_list(watched.service, watched.root)
        assert (run.state, run.reason, run.tries) == ("done", "", 5)
        assert len((await explain(watched.service, run.id)).attempts) == 1


async def test_Q8_a_step_in_between_begins_another_wait(opened: Open) -> None:
    async with opened("alice", longest_wait=60.0) as watched:
        model = watched.team.backends["alice"]
        model.then(fails("overloaded"), calls("my_status_set", status="on it"), fails("overloaded"), says("through"))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(0.5)
        assert (await watched.waiting("alice")).since == watched.at(0)
        await watched.team.elapse(1)
        assert (await watched.waiting("alice")).since == watched.at(1)
        await watched.team.elapse(5)
        (run,) = await runs_list(watched.service, watched.root)
        assert (run.state, run.tries) == ("done", 3)


async def test_Q8_a_wait_goes_on_where_it_was_when_the_daemon_starts_again(tmp_path: Path) -> None:
    root, database, began = tmp_path / "p", tmp_path / "state.db", TestClock()
    async with open_team(root, "alice", clock=began, database=database) as team:
        team.employ("alice", Refusing(began), credential=KEY)
        await team.dm("alice", "go")
        await team.elapse(600)
        await team.halt()
    clock = TestClock(began.now())
    async with open_team(root, "alice", clock=clock, database=database, tag="again") as team:
        team.employ("alice", Refusing(clock), credential=KEY)
        await team.runtime.supervisor.wake_all()
        await team.still()
        wait = team.runtime.supervisor.waits.of(team.id_of("alice"))
        assert wait is not None
        assert (wait.what, wait.since) == ("model", team.now() - 600 * 1_000_000)
        await team.elapse(299)
        assert await team.states() == ["queued"]
        await team.elapse(70)
        assert await team.states() == ["failed"]
        assert [(run["state"], run["ended_at"] is None) for run in await team.runs()] == [("failed", False)]
        told = (await team.thread("alice"))[-1].text  # of 429, or that others with this key were told so
        assert told.startswith("failed: it waited 15 minutes for its model: ")


def test_how_long_work_waits_is_a_setting() -> None:
    assert with_environment(Settings(), {}).longest_wait == 900
    assert with_environment(Settings(), {"AGENT_WORKER_LONGEST_WAIT": "1.5h"}).longest_wait == 5400
    for text in ("soon", "-3m", "0s", "15"):
        with pytest.raises(BadInput, match="is not a time to wait"):
            with_environment(Settings(), {"AGENT_WORKER_LONGEST_WAIT": text})


# --- cancelling ----------------------------------------------------------------------------------------


async def only_work(watched: Watched, name: str) -> str:
    (work,) = (await agent_info(watched.service, name, watched.root)).queue
    return work.id


async def test_Q10_work_that_waits_for_its_model_can_be_cancelled(opened: Open) -> None:
    async with opened("alice", "bob") as watched:
        watched.team.employ("alice", Refusing(watched.clock), credential=KEY)
        bob = Slow(watched.clock, 1)
        watched.team.employ("bob", bob, credential=KEY)
        await watched.team.post("user", "@alice go")
        await watched.team.still()
        receipt = await watched.team.post("user", "@bob go")
        await watched.team.still()
        assert (await watched.waiting("bob")).what == "model"
        (cancelled,) = await work_cancel(watched.service, receipt.id)
        assert (cancelled.agent, cancelled.was, cancelled.told) == ("bob", "queued", "it had not begun, and will not")
        await watched.team.still()
        assert (await watched.agent("bob")).state == "idle"
        assert watched.events("bob") == ["model", ""]
        await watched.team.elapse(60)
        assert bob.served == []


async def test_Q10_whoever_cancels_work_between_two_tries_is_told_that_it_had_begun(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.employ("alice", Refusing(watched.clock), credential=KEY)
        receipt = await watched.team.post("user", "@alice go")
        await watched.team.still()
        (cancelled,) = await work_cancel(watched.service, receipt.id)
        assert cancelled.told == "it had begun, and will not continue; what it had done stays"
        await watched.team.still()
        assert (await watched.team.texts())[-1] == "alice was cancelled: a person no longer wants it"
        (run,) = await runs_list(watched.service, watched.root)
        assert (run.state, run.reason) == ("cancelled", "a person no longer wants it")
        assert run.ended_at is not None


async def test_Q10_work_that_waits_for_the_person_can_be_cancelled_and_its_question_goes(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.backends["alice"].then(calls("ask_user", question="which colour?"))
        await watched.team.post("user", "@alice paint it")
        await watched.team.elapse(5)
        (cancelled,) = await work_cancel(watched.service, await only_work(watched, "alice"))
        assert (cancelled.was, cancelled.told) == ("waiting", "it was waiting for you, and its question is withdrawn")
        await watched.team.still()
        assert await inbox_list(watched.service, watched.root) == []
        assert (await watched.agent("alice")).state == "idle"
        assert watched.events("alice") == ["person", ""]


async def test_Q10_work_that_is_under_way_can_be_cancelled_by_its_run(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.employ("alice", Slow(watched.clock, 60))
        await watched.team.post("user", "@alice go")
        await watched.team.elapse(5)
        (run,) = await watched.team.runs()
        (cancelled,) = await work_cancel(watched.service, run["id"], reason="not needed")
        assert (cancelled.was, cancelled.told) == ("running", "it was stopped in the middle; what it had done stays")
        await watched.team.still()
        assert (await watched.team.texts())[-1] == "alice was cancelled: not needed"
        assert (await watched.agent("alice")).state == "idle"


async def test_Q10_a_message_that_called_on_many_is_cancelled_for_all_of_them(opened: Open) -> None:
    async with opened("alice", "bob") as watched:
        for name in ("alice", "bob"):
            watched.team.employ(name, Slow(watched.clock, 60))
        receipt = await watched.team.post("user", "@alice @bob go")
        await watched.team.elapse(1)
        assert sorted(each.agent for each in await work_cancel(watched.service, receipt.id)) == ["alice", "bob"]


async def test_what_is_over_or_unknown_cannot_be_cancelled(opened: Open) -> None:
    async with opened("alice") as watched:
        watched.team.backends["alice"].then(says("done"))
        receipt = await watched.team.dm("alice", "go")
        await watched.team.still()
        with pytest.raises(Refused, match="it is already over: done"):
            await work_cancel(watched.service, receipt.id)
        watched.team.backends["alice"].then(says("that too"))
        posted = await watched.team.post("user", "@alice and this")
        await watched.team.still()
        with pytest.raises(Refused, match="it is already over: done"):
            await work_cancel(watched.service, posted.id)
        with pytest.raises(NotFound):
            await work_cancel(watched.service, "i_nothing")
