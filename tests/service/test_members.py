"""Members of a running workflow by their address: stopped, scheduled and read, each for itself, and there only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.house import House, house
from tests.teams import Team, open_team, write_project

from agent_worker.backends.mock import says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput, NotFound, NotRunning
from agent_worker.service.schedules import ScheduleRequest, schedule_clear, schedule_get, schedule_set, schedules_list
from agent_worker.service.service import Service

WORKFLOW = """
  helper: { backend: mock }
workspace: { provider: sqlite }
"""


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[House]:
    """Alice and bob, and the workflow review with both and an inline helper, which runs twice."""
    write_project(tmp_path / "project", ["alice", "bob"], workflow=WORKFLOW)
    async with house(tmp_path) as one:
        await one.do("workflow_start", workflow="review")
        await one.do("workflow_start", workflow="review", tag="pr-1")
        yield one


async def states(here: House, instance: str) -> dict[str, str]:
    found = await here.do("workflow_status", instance=instance)
    return {member["name"]: member["state"] for member in found["members"]}


async def said_in(here: House, at: str) -> list[str]:
    return [line["text"] for line in await here.do("read", at=at) if line["sender"] not in ("user", "system")]


async def answered(here: House, at: str, count: int) -> list[str]:
    """What members have said there, once it is so much."""
    stirred = asyncio.Event()
    unlisten = here.runtime.bus.listen(lambda _: stirred.set())
    try:
        while True:
            stirred.clear()
            if len(said := await said_in(here, at)) >= count:
                return said
            await stirred.wait()
    finally:
        unlisten()


@pytest.mark.parametrize("member", ["alice", "helper"])
async def test_a_member_that_is_stopped_somewhere_works_elsewhere_and_goes_on_there_when_it_is_started(
    here: House, member: str
) -> None:
    stopped = await here.do("agent_set", name=f"{member}@review:pr-1", action="stop")
    assert (stopped["name"], stopped["state"]) == (f"{member}@review:pr-1", "stopped")
    receipt = await here.do("send", to="@review:pr-1", message=f"@{member} @bob hello")
    assert list(receipt["asleep"]) == [f"{member}@review:pr-1"]
    await here.do("send", to=f"{member}@review", message="and here?")
    assert len(await answered(here, "@review", 1)) == 1
    assert len(await answered(here, "@review:pr-1", 1)) == 1, "only bob's"
    assert (await states(here, "review:pr-1"))[member] == "stopped"
    assert (await states(here, "review"))[member] in ("idle", "running")
    assert (await here.do("agent_set", name=f"{member}@pr-1", action="start"))["state"] in ("idle", "running")
    assert len(await answered(here, "@review:pr-1", 2)) == 2


async def test_work_that_is_left_for_a_stopped_member_is_told_when_the_others_are_done(tmp_path: Path) -> None:
    script = "backend: mock\nscript: [{ steps: 2, slow: 0.2s }, { say: done }]\n"
    write_project(tmp_path / "project", ["alice", "bob"], workflow="workspace: { provider: sqlite }\n")
    (tmp_path / "project" / ".agents" / "bob.yaml").write_text(script)
    async with house(tmp_path) as here:
        await here.do("workflow_start", workflow="review")
        await here.do("agent_set", name="alice@review", action="pause")
        await here.do("send", to="@review", message="@alice @bob begin")
        running = await here.workspace("review")
        assert "alice" in await running.quiet()


async def test_nobody_is_stopped_who_is_not_there(here: House) -> None:
    with pytest.raises(NotFound, match="carol is not a member of @review"):
        await here.do("agent_set", name="carol@review", action="stop")
    with pytest.raises(BadInput, match="@review is a workflow"):
        await here.do("agent_set", name="@review", action="stop")
    with pytest.raises(NotFound, match="there is no workflow deploy"):
        await here.do("agent_set", name="alice@deploy", action="stop")


async def test_a_tag_is_enough_where_one_running_instance_has_it_and_no_workflow_that_name(here: House) -> None:
    await here.do("send", to="@pr-1", message="only there")
    assert [line["text"] for line in await here.do("read", at="@review:pr-1")] == ["only there"]
    (here.root / ".workflows" / "second.yaml").write_text("agents: { cleo: { backend: mock } }\n")
    await here.do("workflow_start", workflow="second", tag="pr-1")
    with pytest.raises(BadInput, match="several instances have the tag pr-1"):
        await here.do("send", to="@pr-1", message="where?")
    await here.do("workflow_stop", instance="second:pr-1")
    (here.root / ".workflows" / "pr-1.yaml").write_text("agents: { cleo: { backend: mock } }\n")
    with pytest.raises(NotRunning, match='workflow "pr-1" is not running'):
        await here.do("send", to="@pr-1", message="to the workflow of that name")


async def test_a_tag_may_begin_with_a_digit(here: House) -> None:
    await here.do("workflow_start", workflow="review", tag="123")
    receipt = await here.do("send", to="helper@123", message="hello")
    assert list(receipt["woke"]) == ["helper"]


async def test_a_stopped_agent_goes_on_whichever_word_is_used(here: House) -> None:
    for word in ("start", "resume"):
        assert (await here.do("agent_set", name="alice", action="stop"))["state"] == "stopped"
        assert list((await here.do("send", to="alice", message="hello"))["asleep"]) == ["alice"]
        assert (await here.do("agent_set", name="alice", action=word))["state"] in ("idle", "running")


async def test_one_that_is_stored_as_running_and_is_not_open_here_is_told_in_a_sentence(here: House) -> None:
    await here.do("workflow_start", workflow="review", tag="early")
    await here.do("workflow_stop", instance="review:early")
    await here.change("workspace", of={"tag": "early"}, state="running")
    for operation, given in (("workflow_set", {"action": "pause"}), ("workflow_stop", {}), ("workflow_wait", {})):
        with pytest.raises(NotRunning, match="is not open here yet"):
            await here.do(operation, instance="review:early", **given)


# --- schedules ----------------------------------------------------------------------------------------


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[tuple[Team, Service, str]]:
    clock = TestClock(datetime(2026, 1, 5, 9, 0, tzinfo=UTC))
    extra = {"bob": "schedule: { wakeup: 3h, workspace: review }\n"}
    async with open_team(tmp_path / "p", "alice", "bob", "carol", clock=clock, extra=extra) as team:
        service = Service(team.runtime)
        await service.project(str(tmp_path / "p"))
        await service.open_again()
        yield team, service, str(tmp_path / "p")
        await service.close()


async def set_for(found: list[Any]) -> dict[str, tuple[str, str]]:
    return {each.target: (each.wakeup, each.set_by) for each in found}


async def test_a_default_is_for_every_member_that_has_no_schedule_of_its_own_there(
    team: tuple[Team, Service, str],
) -> None:
    here, service, root = team
    await schedule_set(service, "alice@review", ScheduleRequest(wakeup="10m"), project=root)
    made = await schedule_set(service, "@review", ScheduleRequest(wakeup="20m", prompt="anything new?"), project=root)
    assert (made.target, made.of, made.due_at) == ("@review", "default", None)
    assert await set_for(await schedules_list(service, root)) == {
        "@review": ("20m", "person"),
        "alice@review": ("10m", "person"),
        "bob": ("3h", "file"),
        "carol@review": ("20m", "default"),
    }
    here.backends["carol"].then(says("nothing new"))
    await here.elapse(20 * 60)
    assert "nothing new" in await here.texts()
    assert await schedule_clear(service, "alice@review", root)
    assert (await schedule_get(service, "alice@review", root)).wakeup == "20m"
    assert await schedule_clear(service, "@review", root)
    assert list(await set_for(await schedules_list(service, root))) == ["bob"]


async def test_an_agent_that_wakes_in_a_workflow_wakes_in_the_instance_that_runs(tmp_path: Path) -> None:
    clock = TestClock(datetime(2026, 1, 5, 9, 0, tzinfo=UTC))
    extra = {"alice": "schedule: { wakeup: 5m, workspace: review, prompt: look around }\n"}
    async with open_team(tmp_path / "p", "alice", "bob", clock=clock, extra=extra, tag="pr-9") as team:
        team.backends["alice"].then(says("in the room"))
        await team.elapse(5 * 60)
        assert await team.texts() == ["in the room"]


# --- clear --------------------------------------------------------------------------------------------


async def test_a_cleared_conversation_is_in_no_prompt_and_can_still_be_looked_up(tmp_path: Path) -> None:
    write_project(tmp_path / "project", ["alice"])
    async with house(tmp_path) as here:
        await here.ask("alice", "the word is heron")
        assert await here.do("clear", at="alice") == "alice"
        assert await here.do("read", at="alice", last=True) == []
        assert [line["sender"] for line in await here.do("read", at="alice")] == ["user", "alice"]
        await here.ask("alice", "what was the word?")
        (run, *_) = await here.do("runs_list")
        sections = (await here.do("explain", run=run["id"]))["sections"]
        assert "thread" not in [section["name"] for section in sections]


async def test_a_cleared_channel_begins_after_what_was_said(here: House) -> None:
    await here.do("send", to="@review", message="@alice the word is heron")
    await answered(here, "@review", 1)
    await here.do("clear", at="@review")
    await here.do("send", to="@review", message="from here on")
    assert [line["text"] for line in await here.do("read", at="@review", last=True)] == ["from here on"]
    assert len(await here.do("read", at="@review")) == 3
