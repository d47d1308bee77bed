"""Who answers a person that calls on nobody: whom the file names, else the coordinator, else the only member."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team

from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput
from agent_worker.definitions.project_files import load_project
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import workspace_state

pytestmark = pytest.mark.anyio
SQLITE = "workspace: { provider: sqlite }\n"


@pytest.fixture
async def desk(tmp_path: Path, clock: TestClock) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=clock, workflow=f"{SQLITE}desk: Bob\n") as team:
        yield team


async def test_what_a_person_says_to_nobody_goes_to_the_desk(desk: Team) -> None:
    receipt = await desk.post("user", "how far are you?")
    assert (receipt.woke, receipt.desk, receipt.told) == (("bob",), "bob", "")
    assert [row["name"] for row in await desk.read(stored.instructions)] == ["bob"]


async def test_what_calls_on_somebody_does_not(desk: Team) -> None:
    receipt = await desk.post("user", "@alice how far are you?")
    assert (receipt.woke, receipt.desk) == (("alice",), "")
    to_her = await desk.post("user", "and you?", to="alice")
    assert (to_her.woke, to_her.desk) == (("alice",), "")


async def test_what_an_agent_says_to_nobody_does_not(desk: Team) -> None:
    receipt = await desk.post("alice", "done with it")
    assert (receipt.woke, receipt.desk) == ((), "")
    assert await desk.read(stored.instructions) == []


async def test_a_name_that_nobody_has_is_told_and_the_desk_answers(desk: Team) -> None:
    receipt = await desk.post("user", "@alcie how far are you?")
    assert (receipt.woke, receipt.unknown) == (("bob",), ("alcie",))
    assert receipt.told == "nobody here is called alcie; the members are: @alice, @bob"


async def test_without_a_desk_the_coordinator_answers_and_without_one_nobody(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock) as team:
        nobody = await team.post("user", "how far are you?")
        assert (nobody.woke, nobody.told) == ((), "nobody was called on; @alice and @bob are here")
        await team.write(workspace_state.set_coordinator, team.workspace.id, "alice")
        assert (await team.post("user", "how far are you?")).woke == ("alice",)


async def test_in_a_crowd_the_first_are_named_and_the_desk_is_found_among_the_last(
    tmp_path: Path, clock: TestClock
) -> None:
    crowd = [f"agent{number}" for number in range(10, 40)]
    async with open_team(tmp_path, *crowd, clock=clock) as team:
        named = ", ".join(f"@{name}" for name in crowd[:20])
        nobody = await team.post("user", "how far are you?")
        assert (nobody.woke, nobody.told) == ((), f"nobody was called on; {named} and others are here")
        assert (await team.post("user", "@agent39 and you?")).woke == ("agent39",)
        await team.write(workspace_state.set_coordinator, team.workspace.id, "agent39")
        assert (await team.post("user", "how far are you?")).woke == ("agent39",)
        missed = await team.post("user", "@nobody how far are you?")
        assert missed.told == f"nobody here is called nobody; the members are: {named}, others"


async def test_who_is_alone_is_meant(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        assert (await team.post("user", "how far are you?")).woke == ("alice",)


async def test_the_desk_is_that_of_the_file_when_a_kept_workspace_is_opened_again(
    tmp_path: Path, clock: TestClock
) -> None:
    bound = "workspace: { provider: sqlite, bind: kept }\n"
    async with open_team(tmp_path, "alice", "bob", clock=clock, workflow=f"{bound}desk: alice\n") as team:
        assert (await team.post("user", "hello")).woke == ("alice",)
        await team.workspace.stop()
        (tmp_path / ".workflows" / "review.yaml").write_text(
            f"agents:\n  alice: {{ ref: alice }}\n  bob: {{ ref: bob }}\n{bound}desk: bob\n"
        )
        changed = await team.runtime.loader.load(load_project(tmp_path))
        wanted = workflows.Start(changed.project.workflows["review"])
        again = await workflows.start(team.runtime, changed, wanted)
        team.workspace = again
        assert (await team.post("user", "hello")).woke == ("bob",)


@pytest.mark.parametrize(
    ("more", "refused"),
    [("", True), ("desk: bob\n", False), ("kickoff: '@alice begin'\n", False)],
)
async def test_a_run_whose_message_is_for_nobody_is_refused(
    tmp_path: Path, clock: TestClock, more: str, refused: bool
) -> None:
    async with open_team(tmp_path, "alice", "bob", clock=clock, workflow=f"{SQLITE}{more}", tag="other") as team:
        wanted = workflows.Start(team.loaded.project.workflows["review"], message="begin", ends="quiet")
        if not refused:
            running = await workflows.start(team.runtime, team.loaded, wanted)
            assert running.members
            return
        with pytest.raises(BadInput, match="nobody was called on; @alice and @bob are here") as told:
            await workflows.start(team.runtime, team.loaded, wanted)
        assert 'agent-worker run review "@alice …"' in told.value.hint
        assert "desk: alice" in told.value.hint


def test_a_desk_that_is_no_member_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / ".workflows").mkdir()
    (tmp_path / ".workflows" / "w.yaml").write_text(
        "agents:\n  a: { backend: mock, prompt: { system: x } }\ndesk: zoe\n"
    )
    (problem,) = load_project(tmp_path).wrong
    assert str(problem) == '.workflows/w.yaml:3:7: desk: "zoe" is not a member (one of a)'
