"""What a colleague shares, put into words by a model that sees nothing else; without it, the entries themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests import stored
from tests.teams import Team, open_team

from agent_worker.agents.model_judge import JudgeBudget, ModelJudge, tokens_of
from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.errors import Permanent
from agent_worker.memory.judging import worded

SHARED = {"deploys": {"value": "on Mondays after the review", "visibility": "shareable"}}
PRIVATE = {"vault": {"value": "the code of the vault is XK-4471-QQ"}}
CURATED = "workspace: { provider: sqlite }\nguard: { model: fake/words, llm_curation: true }\n"


class Words:
    """A model that says what it is given to say and keeps what it was asked."""

    def __init__(self, answer: str | Exception = "They deploy on Mondays.") -> None:
        self._answer = answer
        self.turns: list[Turn] = []

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        self.turns.append(turn)
        if isinstance(self._answer, Exception):
            raise self._answer
        return Reply(self._answer, usage=Usage(input=90, output=12))


@asynccontextmanager
async def team_with(
    root: Path, clock: TestClock, words: Words, workflow: str = CURATED, **more: Any
) -> AsyncIterator[Team]:
    path = root / ".agents" / "bob" / "memory" / "working.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(SHARED | PRIVATE))
    async with open_team(root, "alice", "bob", clock=clock, workflow=workflow, **more) as team:
        team.runtime.backends.catalogue.add("fake/words", words)
        yield team


async def asked(team: Team, *questions: str) -> list[str]:
    """What alice is told of what bob shares."""
    asking = [calls("ask_agent", agent="bob", question=each) for each in questions]
    team.backends["alice"].then(*asking, says("I see"))
    await team.post("user", "@alice find out")
    await team.idle()
    return [str(row["result"]) for row in await team.calls(name="alice") if row["tool"] == "ask_agent"]


async def test_the_answer_is_worded_cited_and_charged(tmp_path: Path, clock: TestClock) -> None:
    words = Words()
    async with team_with(tmp_path, clock, words) as team:
        assert await asked(team, "when are the deploys?") == [
            "They deploy on Mondays.\n- deploys: on Mondays after the review [bob, working.yaml]"
        ]
        (row,) = await team.read(stored.ledger, model="fake/words")
    assert (row["input"], row["output"]) == (90, 12)


async def test_A4_the_model_never_sees_what_is_private(tmp_path: Path, clock: TestClock) -> None:
    words = Words()
    async with team_with(tmp_path, clock, words) as team:
        await asked(team, "when are the deploys, and what is the code of the vault?")
    (turn,) = words.turns
    assert "on Mondays after the review" in turn.prompt
    assert "4471" not in turn.prompt + turn.system


async def test_A4_an_answer_that_gives_away_something_private_is_not_told(tmp_path: Path, clock: TestClock) -> None:
    async with team_with(tmp_path, clock, Words("By the way: XK 4471 QQ.")) as team:
        (told,) = await asked(team, "when are the deploys?")
    assert told == "- deploys: on Mondays after the review [bob, working.yaml]"


@pytest.mark.parametrize("answer", [Permanent("no such model"), "", "   "])
async def test_without_an_answer_the_entries_stand_as_they_are(
    tmp_path: Path, clock: TestClock, answer: str | Exception
) -> None:
    async with team_with(tmp_path, clock, Words(answer)) as team:
        (told,) = await asked(team, "when are the deploys?")
    assert told == "- deploys: on Mondays after the review [bob, working.yaml]"


async def test_once_in_a_run_and_small(tmp_path: Path, clock: TestClock) -> None:
    words = Words()
    async with team_with(tmp_path, clock, words) as team:
        first, second = await asked(team, "when are the deploys? " * 200, "and the deploys, again?")
    assert first.startswith("They deploy on Mondays.")
    assert second.startswith("- deploys:")
    (turn,) = words.turns
    assert turn.max_tokens
    assert tokens_of(turn.system, turn.prompt, turn.max_tokens) < 440, "it fits beside what the run teaches"


async def test_a_team_without_a_model_asks_none(tmp_path: Path, clock: TestClock) -> None:
    words = Words()
    plain = "workspace: { provider: sqlite }\nguard: { model: fake/words }\n"
    async with team_with(tmp_path, clock, words, workflow=plain) as team:
        (told,) = await asked(team, "when are the deploys?")
    assert told.startswith("- deploys:")
    assert words.turns == []


async def test_L1_nothing_is_worded_with_money_that_is_spent() -> None:
    async def never() -> bool:
        return False

    words, spent = Words(), list[Usage]()

    async def nobody(what: str) -> None:
        raise AssertionError(what)

    charge = lambda usage, model: spent.append(usage)  # noqa: E731
    judge = ModelJudge(words, "fake/words", "r_1", JudgeBudget(1500), never, nullcontext, charge, nobody, None)
    assert await worded(judge, "when?", ["deploys: on Mondays"]) == ""
    assert (words.turns, spent) == ([], [])
