"""The guide about who an agent becomes: its commands work, and its story happens as it is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.docs.test_guide import GUIDES, Shell, follow, shell
from tests.identity.people import Life
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.daemon.web.souls import soul_section
from agent_worker.service import soul
from agent_worker.service.audit import audit_show
from agent_worker.service.service import Service

__all__ = ["shell"]

PAGE = (GUIDES / "identity.md").read_text("utf-8")


def test_every_command_of_the_guide_about_souls_works(shell: Shell) -> None:
    said = follow(shell, "identity.md")
    assert "role: reviewer" in said["agent soul carol"]
    assert "as the definition says" in said["agent soul carol log"]
    assert json.loads(said["agent soul carol rollback 1 --json"])["version"] == 1


async def test_the_story_happens_as_it_is_told(tmp_path: Path, clock: TestClock) -> None:
    definition, _ = re.findall(r"```yaml\n# \S+\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(The soul.*?)\n```", PAGE, re.DOTALL)
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

        service, here = Service(team.runtime), str(tmp_path)
        assert "Always explain the trade-offs" in await page_of(service, here), "it is proposed on the page too"
        made = await soul.soul_decide(service, "carol", "always-explain-the-trade-offs", "approve", project=here)
        assert (made.state, made.version) == ("approved", 2)
        versions = await soul.soul_log(service, "carol", project=here)
        assert [(v.number, v.by) for v in versions] == [(1, "definition"), (2, "user")]
        second = await soul.soul_version(service, "carol", 2, project=here)
        assert "Always explain the trade-offs" in second.diff
        assert await team.inbox() == []
        await carol.told(*["go on"] * 15, answer=good)
        assert await shares(service, here) == {"Never use emojis": 1.0, "Always explain the trade-offs": 1.0}

        await carol.days_pass(4)
        await carol.told(*["go on"] * 9, answer=f"{good} 🎉")
        ((kind, text),) = await team.inbox()
        assert kind == "drift"
        assert "Never use emojis" in text
        assert (await shares(service, here))["Never use emojis"] == 6 / 15
        assert "40% of 15" in await page_of(service, here), "the page says how it is kept"

        before = (await carol.soul()).versions[0].text
        await soul.soul_rollback(service, "carol", 1, project=here)
        assert (carol.home / "soul.yaml").read_text() == before
        assert [v.number for v in (await carol.soul()).versions] == [1, 2, 3]
        assert "Go back to this" in await page_of(service, here)
        deeds = [(e.who, e.deed) for e in (await audit_show(service, project=here)).entries if "soul" in e.about]
        assert deeds == [("guard", "proposed"), ("user", "approved"), ("user", "rolled_back")]


async def page_of(service: Service, project: str) -> str:
    return str(await soul_section(service, "carol", project))


async def shares(service: Service, project: str) -> dict[str, float | None]:
    """How often each principle was kept lately, as `agent soul carol drift` says it."""
    found = await soul.soul_drift(service, "carol", project=project)
    return {each.principle: each.share for each in found.principles}
