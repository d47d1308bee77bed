"""The guide about who an agent becomes: its commands work, and its story happens as it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.docs.test_guide import GUIDES, Shell, follow, shell
from tests.identity.people import Life
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.identity import drift, past_work

__all__ = ["shell"]

PAGE = (GUIDES / "identity.md").read_text("utf-8")


def test_every_command_of_the_guide_about_souls_works(shell: Shell) -> None:
    said = follow(shell, "identity.md")
    assert "role: reviewer" in said["agent soul carol"]
    assert "as the definition says" in said["agent soul carol log"]
    assert json.loads(said["agent soul carol rollback 1 --json"])["version"] == 1


async def test_the_story_happens_as_it_is_told(tmp_path: Path, clock: TestClock) -> None:
    definition, _ = re.findall(r"```yaml\n# \S+\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    async with open_team(tmp_path, "carol", clock=clock, extra={"carol": definition}) as team:
        carol = Life(team, tmp_path, "carol")
        good = "It is done, and the trade-off is that it takes more memory than before."
        await carol.told("Please always explain the trade-offs.", *["go on"] * 3, answer=good)
        await carol.days_pass()
        await carol.told("Good. From now on explain the trade-offs, please", *["go on"] * 3, answer=good)
        await carol.days_pass(2)
        assert await team.inbox() == []
        await carol.told("always explain trade-offs!", *["go on"] * 3, answer=good)
        ((kind, text),) = await team.inbox()
        assert kind == "soul"
        assert text.startswith(shown)

        (proposal,) = await carol.proposals()
        assert proposal.id == "always-explain-the-trade-offs"
        made = await carol.evolution.approve(proposal)
        assert made is not None
        assert [(v.number, v.by) for v in (await carol.soul()).versions] == [(1, "definition"), (2, "user")]
        assert await team.inbox() == []
        await carol.told(*["go on"] * 15, answer=good)
        turns = await team.read(past_work.turns, team.id_of("carol"), limit=drift.LOOK_BACK)
        assert [each.share for each in drift.adherence(await carol.soul(), turns)] == [1.0, 1.0]

        await carol.days_pass(4)
        await carol.told(*["go on"] * 9, answer=f"{good} 🎉")
        ((kind, text),) = await team.inbox()
        assert kind == "drift"
        assert "Never use emojis" in text

        before = (await carol.soul()).versions[0].text
        await carol.evolution.rollback(1)
        assert (carol.home / "soul.yaml").read_text() == before
        assert [v.number for v in (await carol.soul()).versions] == [1, 2, 3]
