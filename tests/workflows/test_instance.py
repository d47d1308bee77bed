"""A workflow from start to end: members, kickoff, what is kept and what is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import stored
from tests.teams import Team, open_team
from tests.workflows.test_quiet import again

from agent_worker.agents import commands
from agent_worker.backends.backend import Reply
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import BadInput, Refused
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import workspace_state

HELPER = "  helper: { backend: mock, prompt: { system: You help. } }\n"
CANARY = "canary-4711"


@pytest.fixture
async def mixed(tmp_path: Path) -> AsyncIterator[Team]:
    """Alice of the project, and an inline helper."""
    workflow = f"{HELPER}workspace: {{ provider: file }}\n"
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=workflow) as team:
        yield team


async def test_an_inline_agent_works_like_any_other(mixed: Team) -> None:
    mixed.backends["alice"].then(says("@helper look it up"))
    mixed.backends["helper"].then(says("here it is"))
    await mixed.post("user", "@alice go")
    await mixed.still()
    assert (await mixed.texts())[-1] == "here it is"


async def test_I4_an_inline_agent_leaves_nothing_in_the_agents_folder(mixed: Team, tmp_path: Path) -> None:
    before = {path.name for path in (tmp_path / ".agents").iterdir()}
    mixed.backends["helper"].then(says("here it is"))
    await mixed.post("user", "@helper go")
    await mixed.meanwhile(mixed.workspace.run())
    assert {path.name for path in (tmp_path / ".agents").iterdir()} == before


async def test_an_inline_agent_ends_with_its_instance(mixed: Team) -> None:
    helper = mixed.id_of("helper")
    mixed.backends["helper"].then(says("here it is"))
    await mixed.post("user", "@helper go")
    await mixed.meanwhile(mixed.workspace.run())
    assert not mixed.runtime.registry.knows(helper)
    assert mixed.runtime.registry.knows(mixed.id_of("alice"))


async def test_stopping_does_not_wait_for_an_inline_agent_in_the_middle_of_a_step(mixed: Team) -> None:
    mixed.backends["helper"].then(says("very slow").model_copy(update={"slow": 1000.0}))
    await mixed.post("user", "@helper go")
    await mixed.elapse(1)
    summary = await mixed.meanwhile(mixed.workspace.stop(), at_most=1)
    assert summary.exit_code == 130
    assert not mixed.runtime.registry.knows(mixed.id_of("helper"))


async def test_two_inline_agents_of_one_name_in_two_instances_are_two(tmp_path: Path) -> None:
    workflow = f"{HELPER}workspace: {{ provider: sqlite }}\n"
    async with open_team(tmp_path, clock=TestClock(), workflow=workflow) as one:
        definition = one.loaded.project.workflows["review"]
        workspace = await workflows.start(one.runtime, one.loaded, workflows.Start(definition, tag="two"))
        assert workspace.members["helper"] != one.workspace.members["helper"]
        two = replace(one, workspace=workspace)
        await two.post("user", "@helper hello")
        await one.still()
        assert len(await two.texts()) == 2
        assert await one.texts() == []


async def test_starting_one_that_runs_is_refused_with_what_to_type(mixed: Team) -> None:
    with pytest.raises(Refused, match='workflow "review" is already running') as refusal:
        await again(mixed)
    assert refusal.value.hint == 'talk to it: agent-worker send @review "…"'


async def test_what_the_workflow_appends_is_in_the_prompt_there_and_nowhere_else(tmp_path: Path) -> None:
    seen: list[str] = []

    class Reader:
        async def reply(self, turn, steps, recorder):  # type: ignore[no-untyped-def]
            seen.append(turn.system)
            return Reply("read")

    workflow = '  bob: { ref: bob, prompt: { append: "Mind the speed of ${{ workflow.name }}." } }\n'
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "bob.yaml").write_text("backend: mock\n")
    async with open_team(
        tmp_path, "alice", clock=TestClock(), workflow=f"{workflow}workspace: {{ provider: sqlite }}\n"
    ) as team:
        team.employ("bob", Reader())
        await team.post("user", "@bob go")
        await team.still()
        await team.dm("bob", "hi")
        await team.still()
    assert "Mind the speed of review." in seen[0]
    assert "Mind the speed" not in seen[1]


async def test_a_kickoff_calls_on_those_it_names_but_not_on_those_in_filled_in_values(tmp_path: Path) -> None:
    workflow = (
        "workspace: { provider: sqlite }\nparams: [{ name: text, default: what @bob said }]\n"
        "kickoff: '@alice look at ${{ params.text }}'\n"
    )
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        await team.still()
        assert (await team.texts())[0] == "@alice look at what @bob said"
        assert {row["agent"] for row in await team.queue()} == {team.id_of("alice")}


# --- what is kept ---------------------------------------------------------------------------------------


async def run_once(team: Team) -> None:
    team.backends["alice"].then(
        calls("team_doc_create", name="plan.md", text=f"{CANARY} plan"),
        calls("resource_create", text=f"{CANARY} resource"),
        calls("ask_user", question=f"{CANARY} question"),
        says(f"{CANARY} answer"),
    )
    await team.post("user", f"@alice {CANARY} task @user")
    await team.still()
    await team.meanwhile(team.workspace.stop())


async def everything_stored(team: Team) -> str:
    return json.dumps(await team.read(stored.everything))


def files_with_the_canary(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and CANARY in path.read_text()]


async def test_provider_memory_keeps_nothing(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow="workspace: { provider: memory }\n") as team:
        await run_once(team)
        assert CANARY not in await everything_stored(team)
    assert files_with_the_canary(tmp_path) == []


async def test_provider_sqlite_keeps_everything_in_the_database_and_no_file(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        await run_once(team)
        everything = await everything_stored(team)
        for what in ("plan", "resource", "question", "task"):
            assert f"{CANARY} {what}" in everything
    assert files_with_the_canary(tmp_path) == []


async def test_provider_file_writes_channel_history_documents_and_resources(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow="workspace: { provider: file }\n") as team:
        team.backends["alice"].then(
            calls("team_doc_create", name="plan.md", text="the plan"),
            calls("resource_create", text="a resource"),
            says("done"),
        )
        await team.post("user", "@alice go")
        await team.meanwhile(team.workspace.run())
        texts = await team.texts()
        home = team.workspace.directory
    assert home == tmp_path / ".workspace" / "review" / "main"
    lines = [json.loads(line) for line in (home / "channel.jsonl").read_text().splitlines()]
    assert [(line["seq"], line["text"]) for line in lines] == list(enumerate(texts, 1))
    history = [json.loads(line)["text"] for line in (home / "history" / "alice.jsonl").read_text().splitlines()]
    assert history == ["@alice go", "done"]
    assert (home / "documents" / "plan.md").read_text() == "the plan"
    assert [p.read_text() for p in (home / "resources").iterdir()] == ["a resource"]


async def test_documents_may_be_files_while_the_rest_is_in_the_database(tmp_path: Path) -> None:
    workflow = "workspace: { provider: sqlite, documents: file }\n"
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=workflow) as team:
        team.backends["alice"].then(calls("team_doc_create", name="plan.md", text="the plan"), says("done"))
        await team.post("user", "@alice go")
        await team.meanwhile(team.workspace.run())
        assert (team.workspace.directory / "documents" / "plan.md").read_text() == "the plan"  # type: ignore[operator]
        assert not (team.workspace.directory / "channel.jsonl").exists()  # type: ignore[operator]


BOUND = "workspace: { provider: file, bind: ./data/review/ }\n"


async def test_a_bound_workspace_is_opened_again_with_its_history(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=BOUND) as team:
        team.backends["alice"].then(calls("team_doc_append", text="first"), says("one"), says("two"))
        await team.post("user", "@alice go")
        await team.meanwhile(team.workspace.run())
        second = await again(team)
        assert second.workspace.id == team.workspace.id
        await second.post("user", "@alice and now?")
        await second.meanwhile(second.workspace.run())
        messages = await second.messages()
        assert [m.seq for m in messages] == [1, 2, 3, 4]
        thread = [t.text for t in await second.thread("alice", second.workspace.id)]
        assert thread == ["@alice go", "one", "@alice and now?", "two"]
    lines = (tmp_path / "data" / "review" / "channel.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["@alice go", "one", "@alice and now?", "two"]


async def test_a_workspace_that_is_not_bound_begins_empty(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        team.backends["alice"].then(says("one"))
        await team.post("user", "@alice go")
        await team.meanwhile(team.workspace.run())
        second = await again(team)
        assert second.workspace.id != team.workspace.id
        assert await second.texts() == []


async def test_a_bound_workspace_that_a_limit_stopped_can_be_run_again(tmp_path: Path) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=BOUND) as team:
        team.backends["alice"].then(*[says("NO_REPLY")] * 5, says("something new"))
        for _ in range(6):
            await team.post("user", "@alice again")
            await team.still()
        assert (await team.meanwhile(team.workspace.run())).exit_code == 3
        second = await again(team)
        await second.post("user", "@alice once more")
        assert (await second.meanwhile(second.workspace.run())).exit_code == 0
        assert (await second.texts())[-1] == "something new"


async def test_work_that_was_queued_when_a_bound_workspace_ended_goes_on_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock(), workflow=BOUND) as team:
        await team.write(workspace_state.pause, team.workspace.id, "by a person")
        await team.post("user", "@alice go")
        await team.meanwhile(team.workspace.run())
        assert await team.states() == ["queued"]
        team.backends["alice"].then(says("gone on with"))
        second = await again(team)
        await second.meanwhile(second.quiet())
        assert (await second.texts())[-1] == "gone on with"


async def test_a_workflow_whose_time_is_up_is_paused_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    clock = TestClock()
    timed = "workspace: { provider: sqlite }\nlimits: { minutes: 30 }\n"
    async with open_team(tmp_path, "alice", clock=clock, workflow=timed) as team:
        await clock.advance(minutes=31)
        (row,) = await team.until(lambda rows: rows[0]["paused"], stored.workspaces)
        assert row["paused"] == "limit reached: it has been running for 30 minutes"
        (item,) = await team.asked(state="open")
        assert item["kind"] == "limit"
        await team.write(commands.resume_workspace, team.workspace.id, now=team.now())
        assert (await team.workspace_row())["paused"] == ""
        assert await team.asked(state="open") == []


@pytest.mark.parametrize("tag", ["../x", "a b", "", "-x", "x" * 64, "a/b"])
async def test_F1_a_tag_that_is_no_tag_starts_nothing(tmp_path: Path, tag: str) -> None:
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        project = team.loaded.project
        with pytest.raises(BadInput):
            await workflows.start(team.runtime, team.loaded, workflows.Start(project.workflows["review"], tag=tag))
