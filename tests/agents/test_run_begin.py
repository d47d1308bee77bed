"""How work begins and goes on: who pays for it, what stops it and what does not, and what an earlier run has left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import stored
from tests.recorders import TERMS, by_hand, recorder_of, taken_by
from tests.teams import Team, open_team

from agent_worker.agents import commands, recovery, run_begin, run_end
from agent_worker.agents.prompt_data import prompt_memory
from agent_worker.agents.run_begin import Suspect
from agent_worker.agents.supervisor import _with_work
from agent_worker.backends.backend import Reply, Usage
from agent_worker.backends.mock import fails
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Transient
from agent_worker.tools.tool import Call, ToolContext, tool
from agent_worker.work import agent_rows, limits, queue
from agent_worker.work.limits import Reached, WorkLimits
from agent_worker.work.queue import Ageing, Lane
from agent_worker.work.steps import CallPosition
from agent_worker.workspaces import routing, workspace_state

AGEING = Ageing()


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """Nobody takes the work but the test."""
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        await team.runtime.supervisor.stop()
        yield team


@tool
async def knock(context: ToolContext) -> str:
    """Reach outside."""
    return "knocked"


async def test_Q3_work_that_died_twice_is_taken_only_by_one_who_is_alone(team: Team) -> None:
    await team.post("user", "@alice go")
    for died in range(2):
        job = await by_hand(team, owner=f"host {died}")
        await team.write(stored.drop_host, f"host {died}")
        await team.runtime.database.write(recovery.recover, "another host", now=team.now())
        assert [row["state"] for row in await team.runs(id=job.run)] == ["lost"]
        await team.change("workspace", state="running")
    fence = await taken_by(team, "alice", "me")
    how = {"now": team.now(), "ageing": AGEING}
    assert await team.write(run_begin.begin, fence, lambda _: TERMS, **how) == Suspect()
    taken = await team.write(run_begin.begin, fence, lambda _: TERMS, alone=True, **how)
    assert taken.lead.text == "@alice go"


async def test_L2_requests_that_are_answered_together_are_each_counted(team: Team) -> None:
    receipts = [await team.post("user", f"@alice {n}") for n in range(3)]
    job = await by_hand(team)
    assert len(job.taken) == 3
    tallies = await team.read(stored.tallies, scope="root")
    assert {row["key"]: row["runs"] for row in tallies} == {receipt.id: 1 for receipt in receipts}


async def test_L2_work_that_is_laid_aside_and_goes_on_is_counted_once(team: Team) -> None:
    await team.post("user", "@alice go")
    for _ in range(3):
        job = await by_hand(team)
        await team.write(run_end.put_back, job, why="preempted", preempted=True, now=team.now(), ageing=AGEING)
    await by_hand(team)
    assert [row["runs"] for row in await team.read(stored.tallies, scope="root")] == [1]


async def test_L4_a_run_is_not_stopped_by_the_count_that_let_it_begin(team: Team) -> None:
    await team.post("user", "@alice go")
    once = replace(TERMS, limits=WorkLimits(runs_per_root=1, usd_per_root=1.0))
    job = await by_hand(team)
    cheap, dear = Reply("a step", usage=Usage(usd=0.5)), Reply("another", usage=Usage(usd=0.5))
    assert await team.write(run_begin.keep_step, job, 0, cheap, once, now=team.now()) is None
    reached = await team.write(run_begin.keep_step, job, 1, dear, once, now=team.now())
    assert "one request has cost 1.00 USD" in reached.reason


async def test_Q8_a_pause_that_two_meet_at_once_is_told_once(team: Team) -> None:
    await team.post("user", "@alice @bob go")
    stop = Reached("limit reached: too much", "context")
    for job in [await by_hand(team, name) for name in ("alice", "bob")]:
        await team.write(run_end.stop_at_limit, job, stop, now=team.now())
    assert [text for text in await team.texts() if "Paused" in text] == [
        "Paused: limit reached: too much. Resume to grant a new allowance."
    ]
    assert [kind for kind, _ in await team.inbox()] == ["limit", "limit"], "a person may lift each of them"


async def test_Q5_a_call_that_had_only_begun_has_no_result_for_the_next_run(team: Team) -> None:
    await team.post("user", "@alice go")
    job = await by_hand(team)
    recorder = recorder_of(team, job, knock)
    made, begun = Call("c1", "knock", {}), Call("c2", "knock", {})
    await recorder.keep(0, Reply("", calls=(made, begun)))
    await recorder.call(0, made)
    await team.write(recorder._record.start, CallPosition(job.lead.work, 0, begun.id), begun, knock)  # and here it died
    await team.write(run_end.put_back, job, why="stopping", now=team.now(), ageing=AGEING)
    (step,) = (await by_hand(team)).past
    assert set(step.results) == {"c1"}


async def test_O3_work_gives_way_neither_to_its_equals_nor_to_what_cannot_begin_yet(team: Team) -> None:
    async def gives_way(lane: Lane) -> bool:
        waits: bool = await team.write(queue.waiting_above, team.id_of("alice"), lane, now=team.now(), ageing=AGEING)
        return waits

    await team.post("user", "for alice", to="alice")
    assert not await gives_way(Lane.NORMAL), "equals wait their turn"
    assert await gives_way(Lane.BACKGROUND)
    job = await by_hand(team)
    await team.write(run_end.retry_later, job, Transient("later"), wait=60, counts=True, now=team.now())
    assert not await gives_way(Lane.BACKGROUND), "it cannot begin before a minute has passed"


# --- work that others move ----------------------------------------------------------------------------


async def test_Q10_a_start_of_the_daemon_starts_nobody_whom_a_person_stopped(team: Team) -> None:
    for name, state in (("alice", "stopped"), ("bob", "error")):
        await team.write(agent_rows.set_state, team.id_of(name), state)
    await team.runtime.database.write(recovery.recover, "another host", now=team.now())
    assert [(await team.agent(name))["state"] for name in ("alice", "bob")] == ["stopped", "idle"]


async def test_Q2_work_that_was_continued_is_not_continued_again(team: Team) -> None:
    await team.post("user", "@alice go")
    job = await by_hand(team)
    await team.write(run_end.stop_at_limit, job, Reached("limit reached: x", "context"), now=team.now())
    again = [await team.write(commands.continue_work, job.lead.id, now=team.now()) for _ in range(2)]
    assert again[0] is not None
    assert again[1] is None
    assert sorted(await team.states()) == ["incomplete", "queued"]


async def test_L4_who_lets_an_agent_go_on_lifts_the_limit_of_its_project_too(team: Team) -> None:
    await team.post("user", "@alice go")
    job = await by_hand(team)
    dear = Reply("a step", usage=Usage(usd=60.0))
    reached = await team.write(run_begin.keep_step, job, 0, dear, TERMS, now=team.now())
    await team.write(run_end.stop_at_limit, job, reached, now=team.now())
    await team.write(commands.resume_agent, team.id_of("alice"), now=team.now())
    spent = await team.read(limits.spent, job.account, hop=0, fruitless=0, now=team.now())
    assert (spent.usd_agent, spent.usd_project) == (0.0, 0.0)


async def test_Q10_in_a_workspace_that_is_closed_nobody_is_told_anything(team: Team) -> None:
    await team.post("user", "@alice go")
    await team.write(workspace_state.close_workspace, team.workspace.id, now=team.now())
    (work,) = await team.queue()
    await team.write(commands.cancel, work["id"], reason="not needed", now=team.now())
    assert await team.states() == ["cancelled"]
    assert await team.texts() == ["@alice go"]


async def test_R2_who_was_interrupted_comes_before_those_who_waited_longer(team: Team) -> None:
    await team.post("user", "@bob go")
    await team.write(routing.tell_agent, team.id_of("alice"), "go", now=team.now() + 1)
    job = await by_hand(team)
    await team.write(run_end.put_back, job, why="stopping", now=team.now(), ageing=AGEING)
    assert await team.runtime.database.read(_with_work) == [team.id_of("alice"), team.id_of("bob")]


async def test_I5_a_memory_that_cannot_be_read_is_said_in_the_prompt(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        (tmp_path / ".agents" / "alice" / "todo" / "index.md").mkdir(parents=True)  # no list at all
        worker = team.runtime.registry.worker(team.id_of("alice"))
        (said,) = prompt_memory(worker, "anything", team.clock.now()).memory
        assert "your memory could not be read" in said.text


async def test_L3_runs_that_fail_are_runs_that_produce_nothing(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(*[fails("permanent")] * 5)
        for _ in range(6):
            await team.post("user", "@alice go")
            await team.still()
        assert "5 runs in a row produced nothing new" in (await team.workspace_row())["paused"]


async def test_Q8_work_whose_prompt_cannot_be_gathered_fails_alone(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        await team.change("workspace", paused="for a moment")
        await team.post("user", "@alice go")
        await team.change("message", kind="proposal", proposal=7)  # and there is none
        await team.change("workspace", paused="")
        team.runtime.supervisor.wake(team.id_of("alice"))
        (failed,) = await team.until(lambda rows: rows and rows[0]["ended_at"], stored.runs)
        assert failed["state"] == "failed"
        assert "there is no proposal 7" in failed["reason"]
