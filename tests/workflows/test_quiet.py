"""A team is quiet when nothing more will happen, and not a moment before."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.patience import tries
from tests.teams import Team, open_team
from tests.work.test_limits import Chatter, Spender

from agent_worker.agents.prompt import NO_REPLY
from agent_worker.backends.backend import Reply, Usage
from agent_worker.backends.mock import fails, says
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.errors import NotRunning
from agent_worker.work.limits import WorkLimits
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import routing, workspace_state


async def again(team: Team) -> Team:
    """The same workflow once more, on the same runtime."""
    definition = team.loaded.project.workflows["review"]
    workspace = await workflows.start(team.runtime, team.loaded, workflows.Start(definition))
    return replace(team, workspace=workspace)


async def test_a_team_without_work_is_quiet_after_a_moment(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        waiting = asyncio.create_task(team.quiet())
        await team.elapse(0.19)
        assert not waiting.done()
        await team.elapse(0.01)
        assert await waiting == ""


async def test_everything_that_happens_begins_the_moment_anew(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        waiting = asyncio.create_task(team.quiet())
        for _ in range(5):
            await team.elapse(0.15)
            await team.post("user", "just so you know")
        await team.elapse(0.15)
        assert not waiting.done()
        await team.elapse(0.05)
        assert waiting.done()


async def test_Q9_a_backend_that_is_slow_to_start_keeps_the_team_from_being_quiet(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(says("at last").model_copy(update={"slow": 500.0}))
        await team.post("user", "@alice go")
        waiting = asyncio.create_task(team.quiet())
        await team.elapse(499)
        assert not waiting.done()
        await team.elapse(2)
        assert waiting.done()
        assert (await team.texts())[-1] == "at last"


async def test_Q9_a_retry_keeps_the_team_from_being_quiet(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(fails("transient"), fails("transient"), says("through"))
        await team.post("user", "@alice go")
        await team.meanwhile(team.quiet())
        assert (await team.texts())[-1] == "through"


async def test_Q9_nothing_that_arrives_in_the_last_moment_is_lost(tmp_path: Path) -> None:
    """Runs end while someone writes at a random point of the last moment, or just after it: until both were seen."""
    chance = random.Random(9)
    moment = 0.002

    class Quick:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            return Reply(NO_REPLY)

    async with open_team(tmp_path, "alice", clock=SystemClock(), quiet_moment=moment) as team:
        came: Counter[str] = Counter()
        for number in tries(120, enough=lambda: min(came["in time"], came["too late"]) > 10):
            team = await again(team) if came else team
            team.employ("alice", Quick(), limits=WorkLimits(fruitless_runs=None))
            ending = asyncio.create_task(team.workspace.run())
            if chance.random() < 0.8:
                await asyncio.sleep(chance.random() * 4 * moment * max(1, number / 60))  # a slow machine ends later
            try:
                receipt = await team.post("user", "@alice one more thing")
            except NotRunning:
                came["too late"] += 1
                await ending
                continue
            came["in time"] += 1
            await ending
            (row,) = await team.queue(message=receipt.id)
            assert row["state"] == "done"
            (row,) = await team.deliveries(message=receipt.id)
            assert row["state"] == "acked"


async def test_Q9_a_paused_workspace_is_quiet_only_when_those_at_work_have_ended(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        team.backends["alice"].then(says("a late answer").model_copy(update={"slow": 60.0}))
        await team.post("user", "@alice go")
        await team.elapse(1)
        await team.write(workspace_state.pause, team.workspace.id, "by a person")
        await team.post("user", "@bob this has to wait")
        ending = asyncio.create_task(team.workspace.run())
        await team.elapse(30)
        assert not ending.done()
        await team.elapse(60)
        assert (await ending).outcome == "limit"
        assert "a late answer" in await team.texts()


async def test_work_of_an_agent_in_error_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.employ("alice", credential=["no key at all"])  # crashes its loop
        await team.post("user", "@alice go")
        summary = await team.meanwhile(team.workspace.run())
        assert summary.exit_code == 1
        assert "alice crashed too often" in summary.reason


async def test_work_of_an_agent_that_is_about_to_be_restarted_is_waited_for(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.employ("alice", credential=["no key at all"])
        team.backends["alice"].then(says("here I am"))
        await team.post("user", "@alice go")
        ending = asyncio.create_task(team.workspace.run())
        await team.elapse(5)
        team.employ("alice", credential="")
        assert (await team.meanwhile(ending)).exit_code == 0


async def test_quiet_says_why_the_team_is_paused(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        await team.write(workspace_state.pause, team.workspace.id, "by a person")
        assert await team.meanwhile(team.quiet()) == "by a person"


async def test_work_of_an_agent_that_a_limit_has_paused_does_not_keep_a_run_from_ending(tmp_path: Path) -> None:
    async with open_team(
        tmp_path, "alice", clock=TestClock(), extra={"alice": "limits: { usd_per_day: 0.01 }\n"}
    ) as team:
        team.employ("alice", Spender(Usage(1, 0, 1, usd=1.0)))
        for n in range(3):
            await team.post("user", f"task {n}", to="alice")
        summary = await team.meanwhile(team.workspace.run())
        assert summary.exit_code == 3
        assert "this agent has spent" in summary.reason


@pytest.mark.parametrize("kind", ["permanent", "crash"])
async def test_exit_code_1_something_failed(tmp_path: Path, kind: str) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        team.backends["alice"].then(fails(kind), fails(kind))
        team.backends["bob"].then(says("fine"))
        await team.post("user", "@alice @bob go")
        summary = await team.meanwhile(team.workspace.run())
        assert (summary.outcome, summary.exit_code) == ("failed", 1)
        assert len(summary.failures) == 1
        assert summary.failures[0].startswith("alice: ")
        assert summary.runs == {"bob": 1}


async def test_exit_code_0_all_done(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(says("done"))
        await team.post("user", "@alice go")
        summary = await team.meanwhile(team.workspace.run())
        assert (summary.outcome, summary.exit_code) == ("done", 0)
        assert (summary.messages, summary.runs) == (2, {"alice": 1})


async def test_exit_code_1_when_work_was_left_incomplete(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(fails("resource"))
        await team.post("user", "@alice go")
        assert (await team.meanwhile(team.workspace.run())).exit_code == 1


async def test_exit_code_3_stopped_by_a_limit(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        team.employ("alice", Chatter("bob"))
        team.employ("bob", Chatter("alice"))
        await team.post("user", "@alice talk")
        summary = await team.meanwhile(team.workspace.run())
        assert (summary.outcome, summary.exit_code) == ("limit", 3)
        assert "hops" in summary.reason


async def test_exit_code_130_stopped(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        summary = await team.meanwhile(team.workspace.stop())
        assert (summary.outcome, summary.exit_code, summary.reason) == ("stopped", 130, "stopped")


async def test_after_the_end_nothing_is_accepted_and_the_error_says_what_to_type(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        await team.meanwhile(team.workspace.run())
        speech = routing.OutgoingMessage(workspace=team.workspace.id, sender="user", text="@alice too late")
        with pytest.raises(NotRunning):
            await team.write(routing.say, speech, now=team.now())
        assert await team.states() == []
