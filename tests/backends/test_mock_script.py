"""A script of the mock that begins anew."""

from __future__ import annotations

from pathlib import Path

from tests.teams import open_team

from agent_worker.clock import TestClock


async def test_a_script_that_says_so_begins_again_at_its_end(tmp_path: Path) -> None:
    extra = {"alice": "script: [{ say: one }, { say: two }, { again: true }]\n"}
    async with open_team(tmp_path, "alice", clock=TestClock(), extra=extra) as team:
        for number in range(5):
            await team.dm("alice", f"question {number}")
            await team.idle()
        said = [talk.text for talk in await team.thread("alice") if talk.who == "alice"]
        assert said == ["one", "two", "one", "two", "one"]
