"""Deciding together, as models meet it: the tools, what they answer, and a vote from the question to what follows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.proposals import store
from agent_worker.tools.tool import Result
from tests import stored
from tests.teams import Team, open_team
from tests.tools.test_team_tools import Caller


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, "alice", "bob", "carol", clock=TestClock()) as team:
        yield team


class Once(Caller):
    """Acts when it is first called on; with what comes of that it does nothing."""

    run = ""

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self.run = self.run or turn.run
        return await super().reply(turn, steps, recorder) if turn.run == self.run else Reply("")


async def results(team: Team, *calls: tuple[str, dict[str, object]]) -> list[Result]:
    caller = Once(*calls)
    team.employ("alice", caller)
    await team.post("user", "@alice go")
    await team.still()
    return caller.results


async def test_a_team_without_scripts_votes_and_the_asker_goes_on_with_the_outcome(team: Team) -> None:
    team.backends["alice"].then(
        calls("team_proposal_create", question="Which index?", options=["tree", "hash"], vote="hash"),
        says(""),
        says("then we build a tree"),
    )
    await team.post("user", "@alice decide on an index")
    await team.still()
    assert [(m.sender, m.kind, m.text.splitlines()[0]) for m in await team.messages()] == [
        ("user", "message", "@alice decide on an index"),
        ("alice", "proposal", "[PROPOSAL] 1: Which index?"),
        ("system", "decision", "[RESOLVED] 1: Which index?"),
        ("alice", "message", "then we build a tree"),
    ]
    (it,) = await team.read(store.of_workspace, team.workspace.id)
    assert it.outcome == "tree"
    assert await team.read(store.choices, it.id) == {"alice": "hash", "bob": "tree", "carol": "tree"}


async def test_a_mock_votes_on_every_proposal_it_was_called_on_for(team: Team) -> None:
    made = ("team_proposal_create", {"question": "One?", "voters": ["bob"]})
    more = ("team_proposal_create", {"question": "Two?", "voters": ["bob"], "options": ['say "hi"', "b"]})
    await results(team, made, more)
    assert [p.outcome for p in await team.read(store.of_workspace, team.workspace.id)] == ["yes", 'say "hi"']


async def test_proposals_count_on_the_request_they_came_of(team: Team) -> None:
    await results(team, ("team_proposal_create", {"question": "One?", "voters": ["bob"]}))
    assert len({row["root"] for row in await team.queue()}) == 1
    assert [row["hop"] for row in await team.read(stored.messages)] == [0, 1, 2]


async def test_making_one_says_how_it_stands(team: Team) -> None:
    made, status = await results(
        team,
        ("team_proposal_create", {"question": "Which?", "options": ["a", "b"], "voters": ["alice", "user"]}),
        ("team_proposal_status", {}),
    )
    assert made.text.startswith("Proposal 1 was made. 1: Which?\ndecision by majority, binding, open until")
    assert made.text.endswith("Votes: a 0, b 0. Not voted: alice, user. You have a vote, too: team_vote.")
    assert status.text.startswith("1: Which?")


async def test_voting_says_what_came_of_it(team: Team) -> None:
    made = ("team_proposal_create", {"question": "Which?", "options": ["a", "b"], "voters": ["alice"]})
    _, voted, late = await results(
        team, made, ("team_vote", {"proposal": 1, "choice": "B"}), ("team_vote", {"proposal": 1, "choice": "a"})
    )
    assert voted.text == "Your vote counts. It is decided: → b (b: 1)."
    assert (late.ok, late.text) == (False, "proposal 1 is over: → b")


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("team_vote", {"proposal": 9, "choice": "a"}, "there is no proposal 9 here (proposals: 1)"),
        ("team_vote", {"proposal": 1, "choice": "c"}, "'c' is not an option (options: a, b)"),
        ("team_vote", {"proposal": 1, "choice": "a", "voter": "bob"}, "there is no argument voter"),
        ("team_proposal_create", {"question": "x", "creator": "user"}, "there is no argument creator"),
        ("team_proposal_create", {"question": "x", "kind": "coup"}, "kind: input should be"),
        ("team_proposal_cancel", {"proposal": 7}, "there is no proposal 7 here"),
    ],
)
async def test_M4_M12_what_cannot_be_is_told_as_a_sentence(
    team: Team, name: str, arguments: dict[str, object], sentence: str
) -> None:
    made = ("team_proposal_create", {"question": "Which?", "options": ["a", "b"], "voters": ["alice", "user"]})
    _, result = await results(team, made, (name, arguments))
    assert not result.ok
    assert sentence in result.text


async def test_one_takes_back_what_one_asked(team: Team) -> None:
    made = ("team_proposal_create", {"question": "Which?", "voters": ["user"]})
    _, cancelled, status = await results(
        team, made, ("team_proposal_cancel", {"proposal": 1, "reason": "found out"}), ("team_proposal_status", {})
    )
    assert cancelled.text == "Proposal 1 is cancelled."
    assert status.text == "No proposal is open."
    assert await team.inbox() == []


async def test_members_show_their_services(team: Team) -> None:
    await team.change("workspace", coordinator="bob", document_owner="alice")
    (shown,) = await results(team, ("team_members", {}))
    assert shown.text.splitlines() == [
        "@alice (you, owns the documents) running",
        "@bob (coordinator) idle",
        "@carol idle",
    ]
