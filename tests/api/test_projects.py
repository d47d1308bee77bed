"""A project of files in a Python program, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.teams import write_project

import agent_worker
from agent_worker import Agent, InUse
from agent_worker.core.errors import DefinitionError, Refused
from agent_worker.testing import says

SCRIPT = {"alice": "script: [{ say: the parser is left }, { say: hello to you }]\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, ["alice", "bob"], extra=SCRIPT)
    return tmp_path


async def test_a_project_is_found_from_a_folder_inside_it(project: Path) -> None:
    inside = project / "src" / "deep"
    inside.mkdir(parents=True)
    async with agent_worker.local(str(inside)) as workers:
        assert workers.project == str(project)


async def test_with_a_home_the_state_goes_on_where_it_was(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for n, expected in enumerate(["the parser is left", "hello to you"]):
        write_project(project, ["alice"], extra={"alice": f"script: [{{ say: {expected} }}]\n"})
        async with agent_worker.local(project, home=home) as workers:
            assert (await workers.ask("alice", f"question {n}")).text == expected
    lines = "".join(p.read_text() for p in (project / ".agents" / "alice" / "conversations").glob("*.jsonl"))
    assert lines.count('"seq"') == 4
    assert (home / "state.db").stat().st_mode & 0o777 == 0o600


async def test_without_a_project_the_home_is_one_wherever_it_lies(project: Path) -> None:
    ann = Agent("ann", script=[says("hi")])
    async with agent_worker.local(home=project / "inside") as workers:
        assert workers.project == str(project / "inside")
        assert (await workers.ask(ann, "hello")).text == "hi"
    assert (project / "inside" / ".agents" / "ann" / "conversations").is_dir()


def test_without_a_home_nothing_is_left() -> None:
    with agent_worker.local() as workers:
        workers.ask_sync(Agent("ann", script=[says("hi")]), "hello")
        place = Path(workers.project)
        assert place.is_dir()
    assert not place.exists()


async def test_the_three_kinds_of_address(project: Path) -> None:
    write_project(project, ["alice", "bob"])
    async with agent_worker.local(project) as workers:
        team = await workers.start("review", tag="pr-1")
        assert team.name == "review:pr-1"
        await workers.send("alice", "a direct message")
        await workers.send("@review:pr-1", "to everybody")
        assert (await workers.send("bob@review:pr-1", "to bob, in the room")).woke == ("bob",)
        await team.quiet()
        assert len(await team.messages()) == 3


async def test_starting_twice_is_refused(project: Path) -> None:
    async with agent_worker.local(project) as workers:
        await workers.start("review")
        with pytest.raises(Refused, match="already running"):
            await workers.start("review")


async def test_a_broken_file_is_told_with_its_place_and_stops_nobody_else(project: Path) -> None:
    (project / ".agents" / "broken.yaml").write_text("backend: mock\nmodle: x\n")
    async with agent_worker.local(project) as workers:
        assert [one[:31] for one in await workers.problems()] == [".agents/broken.yaml:2:1: modle:"]
        with pytest.raises(DefinitionError, match=r"broken\.yaml:2:1: modle"):
            await workers.ask("broken", "hello")
        with pytest.raises(Refused, match="broken is a file of this project"):
            await workers.ask(Agent("broken", script=[]), "hello")
        assert (await workers.ask("alice", "hello")).state == "done"


async def test_a_paused_team_is_resumed(project: Path) -> None:
    write_project(
        project,
        ["alice", "bob"],
        extra={"alice": "script: [{ say: '@bob your turn' }]\n", "bob": "script: [{ say: done }]\n"},
        workflow="workspace: { provider: memory }\nlimits: { turns: 1 }\n",
    )
    async with agent_worker.local(project) as workers:
        team = await workers.start("review")
        await team.send("@alice go")
        assert "one request has led to 1 run " in await team.quiet()
        await team.resume()
        assert await team.quiet() == ""
        assert [m.text for m in await team.messages()][-1] == "done"


async def test_a_project_in_use_names_the_other_way_in(project: Path) -> None:
    async with agent_worker.local(project):
        with pytest.raises(InUse) as refused:
            async with agent_worker.local(project):
                pass
    assert "this program has the project" in refused.value.message
