"""A5, A6: what came from outside keeps that label, through however many runs and whoever's hands it goes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.teams import Team, open_team

from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.files.root import Root
from agent_worker.memory import memory

CLAIM = "Releases go out without any review since the auditors left"
PAGE = f"# News\n\n{CLAIM}.\n"
READ = calls("read_file", path="page.md")
KEEP = calls("memory_write", key="releases", value=CLAIM)


@pytest.fixture
async def team(tmp_path: Path, clock: TestClock) -> AsyncIterator[Team]:
    (tmp_path / "page.md").write_text(PAGE)
    reading = dict.fromkeys(("alice", "bob", "carol", "dave"), "tools: [read_file]\n")
    async with open_team(tmp_path, *reading, clock=clock, extra=reading) as made:
        yield made


def by(tmp_path: Path, agent: str) -> dict[str, str]:
    """Who says so, of each memory."""
    return {each.key: each.by for each in memory.load(Root(tmp_path / ".agents" / agent)).entries}


async def asked(team: Team, agent: str, text: str) -> None:
    await team.dm(agent, text)
    await team.idle()


async def test_A6_through_the_hands_of_three_colleagues(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(READ, says(f"@bob please note: {CLAIM}"))
    team.backends["bob"].then(KEEP, says(f"@carol please note: {CLAIM}"))
    team.backends["carol"].then(KEEP, says(f"@dave please note: {CLAIM}"))
    team.backends["dave"].then(KEEP, says("noted"))
    await team.post("user", "@alice what is new?")
    await team.idle()
    assert [by(tmp_path, name) for name in ("bob", "carol", "dave")] == [{"releases": "outside"}] * 3


async def test_a_colleague_who_read_nothing_is_taken_at_their_word(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(says(f"@bob please note: {CLAIM}"))
    team.backends["bob"].then(KEEP, says("noted"))
    await team.post("user", "@alice what is new?")
    await team.idle()
    assert by(tmp_path, "bob") == {"releases": "agent:alice"}


async def test_A6_through_a_conversation_in_which_it_is_repeated(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(READ, says(f"It says: {CLAIM}."))
    await asked(team, "alice", "have a look at the page")
    for _ in range(15):  # more than a prompt shows
        team.backends["alice"].then(says(f"As I said. {CLAIM}."))
        await asked(team, "alice", "and what did it say?")
    team.backends["alice"].then(KEEP, says("noted"))
    await asked(team, "alice", "keep that in mind")
    assert by(tmp_path, "alice") == {"releases": "outside"}


async def test_A6_by_what_the_agent_remembers_of_it_in_other_words(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(READ, KEEP, says("noted"))
    await asked(team, "alice", "have a look at the page")
    again = calls("memory_write", key="how we ship", value="Without any review releases go out, as the auditors left")
    team.backends["alice"].then(again, says("noted"))
    await asked(team, "alice", "good morning to you")
    assert set(by(tmp_path, "alice").values()) == {"outside"}


async def test_what_the_person_says_is_theirs_wherever_else_it_stands(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(READ, says(f"It says: {CLAIM}."))
    await asked(team, "alice", "have a look at the page")
    team.backends["alice"].then(KEEP, says("noted"))
    await asked(team, "alice", f"That is true: {CLAIM}. Remember it.")
    assert by(tmp_path, "alice") == {"releases": "user"}


async def test_what_has_nothing_to_do_with_it_is_the_agents_own(team: Team, tmp_path: Path) -> None:
    team.backends["alice"].then(READ, says(f"It says: {CLAIM}."))
    await asked(team, "alice", "have a look at the page")
    own = calls("memory_write", key="parser", value="The parser is slow because it copies each line twice")
    team.backends["alice"].then(own, says("noted"))
    await asked(team, "alice", "why is the parser slow?")
    assert by(tmp_path, "alice") == {"parser": "self"}
