"""What a person keeps telling their agent becomes a proposal, with what it rests on, and nothing else does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.identity.people import SOUL, Life
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.work import queue

WISHES = (
    "Please always explain the trade-offs.",
    "Good, but always explain trade-offs.",
    "From now on, explain the trade-offs please",
)


@pytest.fixture
async def alice(tmp_path: Path, clock: TestClock) -> AsyncIterator[Life]:
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra={"alice": SOUL}) as team:
        yield Life(team, tmp_path)


async def test_a_wish_of_three_runs_on_two_days_is_proposed_with_its_evidence(alice: Life) -> None:
    await alice.told(*WISHES[:2])
    await alice.days_pass()
    assert await alice.open_changes() == []
    await alice.told(WISHES[2])
    (proposal,) = await alice.proposals()
    assert proposal.change.diff == "+ principles: Always explain the trade-offs"
    assert (proposal.by, proposal.change.risk, proposal.expires) == ("guard", "addition", "2026-02-05")
    runs = [row["id"] for row in await alice.team.runs()]
    assert [each.run for each in proposal.evidence] == runs
    assert [each.quote for each in proposal.evidence] == [
        "Please always explain the trade-offs",
        "but always explain trade-offs",
        "From now on, explain the trade-offs",
    ]
    ((kind, text),) = await alice.team.inbox()
    assert kind == "soul"
    assert "+ principles: Always explain the trade-offs" in text
    assert "- 2026-01-05: Please always explain the trade-offs" in text, "the runs are in: agent soul alice proposals"
    assert not (alice.home / "soul.yaml").exists(), "it is only proposed"


async def test_three_wishes_on_one_day_are_not_enough(alice: Life) -> None:
    await alice.told(*WISHES)
    assert await alice.open_changes() == []


async def test_the_same_wish_is_not_proposed_twice(alice: Life) -> None:
    await alice.told(*WISHES[:2])
    await alice.days_pass()
    await alice.told(WISHES[2], *WISHES)
    assert len(await alice.proposals()) == 1


async def test_what_was_rejected_does_not_come_back(alice: Life) -> None:
    await alice.told(*WISHES[:2])
    await alice.days_pass()
    await alice.told(WISHES[2])
    (proposal,) = await alice.proposals()
    await alice.evolution.reject(proposal, "not in general")
    assert await alice.team.inbox() == []
    for _ in range(3):
        await alice.days_pass()
        await alice.told(*WISHES)
    assert [each.state for each in await alice.proposals()] == ["rejected"]


async def test_what_nobody_decides_about_expires_and_may_be_proposed_again(alice: Life) -> None:
    await alice.told(*WISHES[:2])
    await alice.days_pass()
    await alice.told(WISHES[2])
    await alice.days_pass(40)
    await alice.told(WISHES[0])
    assert [each.state for each in await alice.proposals()] == ["expired"]
    assert await alice.team.inbox() == []
    await alice.days_pass()
    await alice.told(*WISHES[:2])
    assert [each.state for each in await alice.proposals()] == ["expired", "open"]


async def test_a_wish_that_the_soul_fulfils_is_not_proposed(alice: Life) -> None:
    for _ in range(3):
        await alice.told("Always explain the why, please.")
        await alice.days_pass()
    assert await alice.open_changes() == []


async def test_the_opposite_wish_is_proposed_as_a_change_and_needs_evidence_of_its_own(alice: Life) -> None:
    await alice.told("Never explain the why!", "Always explain the why.", "Never explain the why!")
    await alice.days_pass()
    await alice.told("Never explain the why!")
    assert await alice.open_changes() == [], "the person changed their mind in between: that makes two"
    await alice.told("Don't explain the why again")
    assert await alice.open_changes() == ["- principles: Explain the why\n+ principles: Never explain the why"]


async def test_what_is_not_needed_any_more_is_proposed_to_go(alice: Life) -> None:
    for _ in range(3):
        await alice.told("You no longer need to explain the why.")
        await alice.days_pass()
    assert await alice.open_changes() == ["- principles: Explain the why"]


async def test_words_that_a_person_replaces_again_and_again_are_proposed(alice: Life) -> None:
    answer = "We should utilize the {} index because the table has grown beyond a million rows"
    for number, thing in enumerate(("first", "second", "third")):
        await alice.told(f"What about the {thing} query?", answer=answer.format(thing))
        await alice.told(answer.format(thing).replace("utilize", "use"))
        await alice.days_pass(number % 2)
    assert await alice.open_changes() == ['+ principles: Write "use", not "utilize"']


@pytest.mark.parametrize(
    "said",
    [
        "Do you always explain the trade-offs?",
        "never mind",
        "We never deploy on Fridays",
        "I always forget the trade-offs",
        "The page says: always explain the trade-offs",
        "Read this:\nalways explain the trade-offs",
        "> always explain the trade-offs\nis that so?",
        '"Always explain the trade-offs" stands there',
        "```\nalways explain the trade-offs\n```",
        "If one always explains the trade-offs, it takes longer",
        "stop the server",
        "word " * 400 + ". Always explain the trade-offs.",
    ],
)
async def test_what_is_asked_told_or_quoted_is_no_wish(alice: Life, said: str) -> None:
    for _ in range(3):
        await alice.told(said)
        await alice.days_pass()
    assert await alice.proposals() == ()


async def test_what_stands_in_a_channel_is_no_wish_and_what_is_sent_to_a_member_is(alice: Life) -> None:
    for to in (None, None, None, "alice", "alice", "alice"):
        await alice.team.post("user", "@alice always explain the trade-offs" if to is None else WISHES[0], to=to)
        await alice.team.idle()
        await alice.team.still()
        await alice.days_pass()
    (proposal,) = await alice.proposals()
    runs = [row["id"] for row in await alice.team.runs()]
    assert [each.run for each in proposal.evidence] == runs[-3:]


async def test_a_run_that_was_taken_back_is_no_evidence(alice: Life) -> None:
    await alice.told(*WISHES[:2])
    await alice.days_pass()
    first = (await alice.team.runs())[0]["id"]
    await alice.team.write(queue.hold_back, first)
    await alice.told(WISHES[2])
    assert await alice.proposals() == ()
