"""An agent is told something on Monday, uses it a week later with its team, and brings back what it learned there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.fakes.model_protocols import Answer, Ask
from tests.fakes.model_server import ModelServer
from tests.models import prompt_in, results_in, sdk
from tests.teams import open_team

from agent_worker.backends.models.providers import Approval
from agent_worker.core.clock import TestClock

MONDAY = "We never deploy on fridays. Please remember that."
RELEASE = "@alice when do we release version 2?"
LATER = "What is new since we talked?"


def mind(body: dict[str, Any]) -> Answer:
    """A model that knows nothing but what is in the request."""
    prompt, results = prompt_in(body), results_in(body)
    asked = prompt.rpartition("asks you «")[2]
    memory = prompt.partition("what you remember «")[2].partition("«/")[0]
    if MONDAY in asked:
        keep = Ask("memory_write", {"key": "deploy days", "value": "Never on fridays.", "tier": "core"}, "a")
        return Answer("I will remember.") if results else Answer("", (keep,))
    if "release version 2" in asked:
        day = "on thursday" if "Never on fridays" in memory else "on friday"
        keep = Ask("memory_write", {"key": "release of version 2", "value": f"It is {day}."}, "b")
        return Answer(f"We release {day}.") if results else Answer("", (keep,))
    if "What is new" in asked:
        return Answer(memory.partition("release of version 2: ")[2].partition(" (")[0] or "Nothing.")
    return Answer("I do not understand.")


async def test_what_it_was_told_is_used_a_week_later_and_what_it_learned_comes_back(
    tmp_path: Path, server: ModelServer, clock: TestClock
) -> None:
    server.mind = mind
    local, database = Approval(local=True), tmp_path / "state.db"
    definition = sdk(server, "think")
    async with open_team(
        tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=local, database=database
    ) as team:
        await team.dm("alice", MONDAY)
        await team.idle()
        assert [t.text for t in await team.thread("alice")] == [MONDAY, "I will remember."]
    assert "Never on fridays." in (tmp_path / ".agents/alice/memory/core.yaml").read_text()

    await clock.advance(hours=7 * 24)
    async with open_team(
        tmp_path, "alice", clock=clock, extra={"alice": definition}, approval=local, database=database
    ) as team:
        await team.post("user", RELEASE)
        await team.idle()
        assert await team.texts() == [RELEASE, "We release on thursday."]
        assert MONDAY not in json.dumps(server.requests[-1].body), "it remembers; it does not carry the conversation"
        await team.dm("alice", LATER)
        await team.idle()
        assert (await team.thread("alice"))[-1].text == "It is on thursday."
        assert RELEASE not in json.dumps(server.requests[-1].body), "what was said in the workspace stays there"
    working = (tmp_path / ".agents/alice/memory/working.yaml").read_text()
    assert "It is on thursday." in working
    assert "2026-01-12" in working
