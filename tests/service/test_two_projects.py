"""Two projects under one daemon, with the same names in both: each sees its own, and an id alone finds its project."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.house import House, house
from tests.teams import write_project

from agent_worker.core.errors import NotFound
from agent_worker.core.events import Event
from agent_worker.daemon.web.every_project import known_projects
from agent_worker.service.service import Service

WORKFLOW = "workspace: { provider: sqlite }\n"


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[House, House]]:
    """The same runtime and service, seen from two projects: alice and bob, and the workflow review, are in each."""
    write_project(tmp_path / "project", ["alice", "bob"], workflow=WORKFLOW)
    write_project(tmp_path / "other", ["alice", "bob"], workflow=WORKFLOW)
    async with house(tmp_path) as one:
        other = replace(one, root=tmp_path / "other")
        await one.service.project(str(other.root))
        yield one, other


async def test_what_is_said_done_and_asked_in_one_project_is_not_in_the_other(both: tuple[House, House]) -> None:
    one, other = both
    for here in both:
        await here.do("workflow_start", workflow="review")
    await one.do("send", to="@review", message="only here", key="same")
    await one.do("proposal_create", at="review", question="Shall we?", options=["yes", "no"])
    await one.do("schedule_set", target="alice", wakeup="3h", prompt="look around")
    assert (await one.do("read", at="@review"))[0]["text"] == "only here"
    for empty in (
        await other.do("read", at="@review"),
        await other.do("proposals_list", at="review"),
        await other.do("schedules_list"),
        await other.do("inbox_list"),
        await other.do("runs_list"),
    ):
        assert empty == []
    again = await other.do("send", to="@review", message="the same key, another project", key="same")
    assert [message["id"] for message in await other.do("read", at="@review")] == [again["id"]]


async def test_an_id_alone_finds_the_project_that_it_is_of(both: tuple[House, House]) -> None:
    one, other = both
    asking = "backend: mock\nscript:\n- call: [{ tool: ask_user, with: { question: Which? } }]\n- say: red it is\n"
    (other.root / ".agents" / "alice.yaml").write_text(asking)
    await other.do("agents_list")  # which reads it again
    told: list[Event] = []
    one.runtime.bus.listen(told.append)
    await other.do("send", to="alice", message="paint it")
    (item,) = await until(other, "inbox_list")
    assert await one.do("inbox_list") == []
    assert await one.do("inbox_answer", item=item["id"], action="answer", text="red") == "done"
    (run,) = await until(other, "runs_list", state="done")
    assert (await one.do("explain", run=run["id"]))["text"] == "red it is"
    assert {event.project for event in told} == {(await other.service.project(str(other.root))).id}


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        ("explain", {"run": "r_nowhere"}),
        ("inbox_answer", {"item": "t_nowhere", "action": "dismiss"}),
        ("work_cancel", {"id": "i_nowhere"}),
    ],
)
async def test_an_id_of_no_project_is_not_found(
    both: tuple[House, House], operation: str, what: dict[str, str]
) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        await both[0].do(operation, **what)


async def until(here: House, operation: str, **how: str) -> list[Any]:
    """Look again after everything that happens, until there is something."""
    stirred = asyncio.Event()
    unlisten = here.runtime.bus.listen(lambda _: stirred.set())
    try:
        while not (found := await here.do(operation, **how)):
            await stirred.wait()
            stirred.clear()
        return list(found)
    finally:
        unlisten()


async def test_whoever_asks_for_all_projects_gets_all_of_them_whoever_else_asks_or_leaves(
    both: tuple[House, House], tmp_path: Path
) -> None:
    one, _ = both
    after_a_restart = Service(one.runtime)
    leaving = asyncio.create_task(known_projects(after_a_restart))
    await asyncio.sleep(0)  # it has begun to look
    asking = asyncio.create_task(known_projects(after_a_restart))
    await asyncio.sleep(0)
    leaving.cancel()
    for known, _ in (await asking, await known_projects(after_a_restart)):
        assert {project.name for project in known} == {"project", "other"}
    await after_a_restart.close()
