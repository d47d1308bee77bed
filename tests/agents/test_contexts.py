"""What an agent was told in one place is not told in another, and within one place it goes on."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.work.limits import WorkLimits
from agent_worker.workflows import start as workflows
from agent_worker.workspaces import channel


class Reader:
    """Keeps every prompt it was shown, and answers with a word of that place."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.prompts.append(f"{turn.system}\n{turn.prompt}")
        asked = turn.prompt.rpartition("asks you")[2].splitlines()[1]
        return Reply(f"answer to {asked.replace('@alice', '')}")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", clock=TestClock()) as team:
        yield team


async def second_workspace(team: Team, reader: Reader) -> Team:
    definition = team.loaded.project.workflows["review"]
    workspace = await workflows.start(team.runtime, team.loaded, workflows.Start(definition, tag="two"))
    other = replace(team, workspace=workspace)
    other.employ("alice", reader, limits=WorkLimits(None, None, None, None, None, None))
    return other


@pytest.mark.parametrize("seed", range(3))
async def test_I4_a_canary_of_one_context_is_in_no_prompt_of_another(team: Team, seed: int) -> None:
    chance, reader = random.Random(seed), Reader()
    other = await second_workspace(team, reader)
    contexts: list[str] = []
    for n in range(20):
        where = chance.choice(["room-one", "room-two", "personal"])
        contexts.append(where)
        match where:
            case "room-one":
                await team.post("bob", f"@alice canary-{where} {n}")
            case "room-two":
                await other.post("bob", f"@alice canary-{where} {n}", to=chance.choice([None, "alice"]))
            case _:
                await team.dm("alice", f"canary-{where} {n}")
        await team.still()
    assert len(reader.prompts) == 20
    for where, prompt in zip(contexts, reader.prompts, strict=True):
        for foreign in {"room-one", "room-two", "personal"} - {where}:
            assert f"canary-{foreign}" not in prompt


async def test_the_thin_thread_goes_on_from_instruction_to_instruction(team: Team) -> None:
    reader = Reader()
    team.employ("alice", reader)
    for n in range(3):
        await team.dm("alice", f"question {n}")
        await team.still()
    lines = [line for line in reader.prompts[2].splitlines() if line.startswith(("user:", "alice:"))]
    assert lines == [
        "user: question 0",
        "alice: answer to question 0",
        "user: question 1",
        "alice: answer to question 1",
    ]


async def test_the_thin_thread_has_as_many_lines_as_the_definition_says(tmp_path: Path) -> None:
    extra = {"alice": "context: { thin_thread: 3 }\n"}
    async with open_team(tmp_path, "alice", clock=TestClock(), extra=extra) as team:
        reader = Reader()
        team.employ("alice", reader)
        for n in range(5):
            await team.dm("alice", f"question {n}")
            await team.still()
    lines = [line for line in reader.prompts[4].splitlines() if line.startswith(("user:", "alice:"))]
    assert lines == ["alice: answer to question 2", "user: question 3", "alice: answer to question 3"]


async def test_a_thread_is_restored_at_the_next_start(tmp_path: Path) -> None:
    clock, database = TestClock(), tmp_path / "state.db"
    for n in range(2):
        async with open_team(tmp_path / "p", "alice", clock=clock, database=database, tag=f"t{n}") as team:
            reader = Reader()
            team.employ("alice", reader)
            await team.dm("alice", f"question {n}")
            await team.still()
    assert "alice: answer to question 0" in reader.prompts[0]


async def test_the_digest_tells_what_others_said_since_the_agent_last_looked(team: Team) -> None:
    reader = Reader()
    team.employ("alice", reader)
    await team.post("bob", "first remark")
    await team.post("user", "@alice one")
    await team.still()
    await team.post("bob", "second remark")
    await team.post("user", "@alice two")
    await team.still()
    assert "first remark" in reader.prompts[0]
    assert "second remark" in reader.prompts[1]
    digest = reader.prompts[1].partition("said in the channel")[2].partition("your conversation")[0]
    assert "first remark" not in digest
    assert "answer to" not in digest, "one's own words are no news"


async def test_older_messages_that_do_not_fit_are_counted_and_can_be_read(team: Team) -> None:
    reader = Reader()
    team.employ("alice", reader)
    for n in range(80):
        await team.post("bob", f"remark {n}")
    await team.post("user", "@alice go")
    await team.still()
    assert "remark 79" in reader.prompts[0]
    assert "remark 5\n" not in reader.prompts[0]
    assert "older messages: use channel_read" in reader.prompts[0]


async def test_what_was_taken_back_is_not_counted_among_the_older_messages(team: Team) -> None:
    reader = Reader()
    team.employ("alice", reader)
    wrong = [channel.Draft(team.workspace.id, "bob", "remark", run="r-wrong") for _ in range(5)]
    for draft in [replace(wrong[0], run="r-right"), *wrong]:
        await team.write(channel.post, draft, now=team.now())
    await team.write(channel.hold_back, team.workspace.id, "r-wrong")
    await team.post("user", "@alice one")
    await team.still()
    assert "older message" not in reader.prompts[0]
    for draft in [*wrong, *[replace(wrong[0], run="r-right")] * (many := channel.UNSEEN + 10)]:
        await team.write(channel.post, draft, now=team.now())
    await team.write(channel.hold_back, team.workspace.id, "r-wrong")
    await team.post("user", "@alice two")
    await team.still()
    digest = reader.prompts[1].partition("said in the channel")[2].partition("your conversation")[0]
    shown = digest.count("bob: remark")
    assert f"[{many - shown} older messages: use channel_read]" in digest


async def test_a_question_and_what_was_said_to_it_are_in_the_thread_in_that_order(team: Team) -> None:
    team.backends["alice"].then(calls("channel_send", text="I am looking"), says("found it"))
    await team.post("user", "@alice look")
    await team.still()
    assert [t.text for t in await team.thread("alice", team.workspace.id)] == [
        "@alice look",
        "I am looking",
        "found it",
    ]
