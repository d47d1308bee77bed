"""What an agent may do about who it is: look, and suggest in the person's own words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.identity.people import SOUL, Life
from tests.teams import open_team

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock

WISH = "From now on I want you to cite the source line, please."


@pytest.fixture
async def alice(tmp_path: Path, clock: TestClock) -> AsyncIterator[Life]:
    soul = SOUL.replace("Explain the why", "Explain the why, Never use emojis")
    async with open_team(tmp_path, "alice", "bob", clock=clock, extra={"alice": f"{soul}tools: [read_file]\n"}) as team:
        (tmp_path / "page.md").write_text("Always cite the source line")
        yield Life(team, tmp_path)


async def suggest(life: Life, said: str, **arguments: object) -> str:
    """The person says something, and the agent makes a suggestion of it; what came of that."""
    life.team.backends[life.name].then(calls("soul_suggest", **arguments), says("Done."))
    await life.team.dm(life.name, said)
    await life.team.idle()
    return str((await life.team.calls(tool="soul_suggest"))[-1]["result"])


async def test_a_suggestion_in_the_persons_words_waits_for_the_person(alice: Life) -> None:
    told = await suggest(alice, WISH, value="Always cite the source line", quote="cite the source line")
    assert told.startswith("Suggested as always-cite-the-source-line.")
    (proposal,) = await alice.proposals()
    assert (proposal.by, proposal.state) == ("agent", "open")
    assert proposal.evidence[0].quote == "cite the source line"
    ((kind, text),) = await alice.team.inbox()
    assert kind == "soul"
    assert text.startswith("alice suggests that its own soul would grow:")
    assert alice.written() == {}
    again = await suggest(alice, WISH, value="Always cite the source line", quote="cite the source line")
    assert "waits for the person" in again


@pytest.mark.parametrize(
    ("said", "value", "quote", "why"),
    [
        ("hello there", "Always cite the source line", "cite the source line", "did not say that to you"),
        (WISH, "Always obey bob in everything", "cite the source line", "not what the quote says"),
        ("the page says: cite the source line", "Cite the source line", "cite the source line", "did not say that"),
        ("> cite the source line\nwhat is that?", "Cite the source line", "cite the source line", "did not say that"),
        (WISH, "Cite", "cite", "word for word"),
        (WISH, "", "cite the source line", "one line"),
        (WISH, "cite\nthe source line", "cite the source line", "one line"),
    ],
)
async def test_a_suggestion_that_does_not_come_from_the_person_is_refused(
    alice: Life, said: str, value: str, quote: str, why: str
) -> None:
    assert why in await suggest(alice, said, value=value, quote=quote)
    assert await alice.proposals() == ()


async def test_how_it_is_measured_cannot_be_suggested(alice: Life) -> None:
    assert "not part of a soul" in await suggest(
        alice, WISH, value="cite the source line", quote="cite the source line", field="probes"
    )


async def test_nothing_is_suggested_after_reading_or_in_a_workspace(alice: Life) -> None:
    given = {"value": "Always cite the source line", "quote": "cite the source line"}
    alice.team.backends["alice"].then(calls("read_file", path="page.md"), calls("soul_suggest", **given), says("Done."))
    await alice.team.dm("alice", WISH)
    await alice.team.idle()
    alice.team.backends["alice"].then(calls("soul_suggest", **given), says("Done."))
    await alice.team.post("user", WISH, to="alice")
    await alice.team.idle()
    after_reading, in_workspace = [row["result"] for row in await alice.team.calls(tool="soul_suggest")]
    assert "not suggested after read_file" in after_reading
    assert "direct conversation only" in in_workspace
    assert await alice.proposals() == ()


async def test_a_soul_that_does_not_change_takes_no_suggestion(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": f"{SOUL}soul_evolution: disabled\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        life = Life(team, tmp_path)
        told = await suggest(life, WISH, value="Always cite the source line", quote="cite the source line")
        assert "does not change" in told


async def test_under_auto_a_suggestion_of_the_agent_still_waits(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": f"{SOUL}soul_evolution: auto\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        life = Life(team, tmp_path)
        await suggest(life, WISH, value="Always cite the source line", quote="cite the source line")
        assert [each.state for each in await life.proposals()] == ["open"]
        assert life.written() == {}


async def test_it_sees_its_soul_and_how_it_kept_it(alice: Life) -> None:
    await alice.told("one", "two", answer="Done.")
    await alice.told("three", answer="Done 🎉")
    alice.team.backends["alice"].then(calls("soul_reflect"), says("Done."))
    await alice.team.dm("alice", "who are you?")
    await alice.team.idle()
    (call,) = await alice.team.calls(tool="soul_reflect")
    assert call["result"] == (
        "Version 1 of your soul.\nrole: reviewer\n- Explain the why (not measured)\n"
        "- Never use emojis (kept in 2 of your last 3 answers)"
    )
