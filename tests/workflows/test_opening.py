"""What is done to the files of a workspace when it opens is done before anybody works there, and to nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests import engine
from tests.teams import open_team

from agent_worker.backends.mock import says
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import Refused
from agent_worker.core.events import Event, Started
from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.settings import Settings
from agent_worker.workflows import start as workflows

QUICK = Settings.model_validate({"quiet_moment": "10ms"})

FILES = "workspace: { provider: file }\n"


async def test_D10_nobody_works_in_a_workspace_before_its_files_are_in_order(tmp_path: Path) -> None:
    documents = tmp_path / ".workspace" / "review" / "main" / "documents"
    async with open_team(tmp_path, "alice", clock=SystemClock(), workflow=FILES, database=tmp_path / "db") as team:
        await team.halt()  # nobody takes it up
        await team.post("user", "@alice go on")
        await team.runtime.log_files.flush()
    documents.mkdir(parents=True)
    for n in range(500):
        (documents / f".tmp-0.{n}.0-half").write_text("of a process that was killed")
    found: list[int] = []

    def hear(event: Event) -> None:
        if isinstance(event, Started):
            found.append(len(list(documents.iterdir())))

    async with open_runtime(RuntimeSettings(database=engine.state_at(tmp_path / "db"), chosen=QUICK)) as runtime:
        runtime.bus.listen(hear)
        loaded = await runtime.loader.load(load_project(tmp_path))
        await runtime.supervisor.wake_all()
        wanted = workflows.Start(loaded.project.workflows["review"])
        await (await workflows.start(runtime, loaded, wanted)).run()
    assert found == [0]


async def test_D10_of_five_starts_at_one_moment_one_opens_the_workspace_and_keeps_its_files(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=SystemClock(), workflow=FILES) as team:
        wanted = workflows.Start(team.loaded.project.workflows["review"], tag="two", message="@alice hello")
        starting = [workflows.start(team.runtime, team.loaded, wanted) for _ in range(5)]
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        refused = [each.message for each in outcomes if isinstance(each, Refused)]
        assert refused == ['workflow "review:two" is already running'] * 4
        await team.idle()
        await team.runtime.log_files.flush()
        assert not (tmp_path / ".workspace" / "review" / ".archive").exists()


@pytest.mark.parametrize(
    "where",
    ["dir: ./room/", "bind: ./room/", "dir: './${{ params.at }}'"],
    ids=["the same", "the same, kept", "one inside of the other"],
)
async def test_D10_a_workspace_is_not_opened_where_one_that_runs_has_its_files(tmp_path: Path, where: str) -> None:
    workflow = f"params: [{{ name: at, default: room }}]\nworkspace: {{ provider: file, {where} }}\n"
    async with open_team(tmp_path, "alice", clock=SystemClock(), workflow=workflow) as team:
        team.backends["alice"].then(says("here"))
        await team.post("user", "@alice where are the files?")
        await team.quiet()
        await team.runtime.log_files.flush()
        given = {"at": "room/inside"} if "params.at" in where else {}
        wanted = workflows.Start(team.loaded.project.workflows["review"], tag="two", params=given)
        with pytest.raises(Refused, match="and review, which runs, has its files there"):
            await workflows.start(team.runtime, team.loaded, wanted)
        assert len((tmp_path / "room" / "channel.jsonl").read_text().splitlines()) == 2
