"""What an instance leaves behind: aside for a day when it is not bound, gone on with when it is."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests import stored
from tests.teams import Team, open_team

from agent_worker.backends.mock import says
from agent_worker.core.clock import SystemClock, TestClock

FILES = "workspace: { provider: file }\n"
BOUND = "workspace: { provider: file, bind: ./kept/ }\n"


def texts(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text().splitlines()]


async def talk(team: Team, text: str) -> None:
    team.backends["alice"].then(says(f"yes: {text}"))
    await team.post("user", f"@alice {text}")
    await team.workspace.run()


async def test_the_next_instance_begins_with_an_empty_log_and_the_last_is_kept_beside_it(tmp_path: Path) -> None:
    for text in ("one", "two"):
        async with open_team(
            tmp_path, "alice", clock=SystemClock(), workflow=FILES, database=tmp_path / "db", quiet_moment=0.02
        ) as team:
            await talk(team, text)
    workspace = tmp_path / ".workspace" / "review"
    assert texts(workspace / "main" / "channel.jsonl") == ["@alice two", "yes: two"]
    (kept,) = (workspace / ".archive").iterdir()
    assert texts(kept / "channel.jsonl") == ["@alice one", "yes: one"]


async def test_after_a_day_what_was_set_aside_is_removed_with_its_rows(tmp_path: Path) -> None:
    clock = TestClock()
    for text in ("one", "two", "three"):
        async with open_team(
            tmp_path, "alice", clock=clock, workflow=FILES, database=tmp_path / "db", quiet_moment=0
        ) as team:
            await talk(team, text)
            said = [row["text"] for row in await team.read(stored.messages)]
        clock.jump(timedelta(days=3))
    assert said == ["@alice three", "yes: three"]
    (kept,) = (tmp_path / ".workspace" / "review" / ".archive").iterdir()
    assert texts(kept / "channel.jsonl") == ["@alice two", "yes: two"]


async def test_a_directory_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / ".workspace" / "review" / "main" / "documents" / "plan.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("a person put this here\n")
    async with open_team(tmp_path, "alice", clock=SystemClock(), workflow=FILES, quiet_moment=0.02) as team:
        await talk(team, "one")
    assert mine.read_text() == "a person put this here\n"


async def test_a_bound_directory_goes_on_counting_when_the_database_is_new(tmp_path: Path) -> None:
    for text in ("one", "two"):
        async with open_team(tmp_path, "alice", clock=SystemClock(), workflow=BOUND, quiet_moment=0.02) as team:
            await talk(team, text)
    log = tmp_path / "kept" / "channel.jsonl"
    assert texts(log) == ["@alice one", "yes: one", "@alice two", "yes: two"]
    assert [json.loads(line)["seq"] for line in log.read_text().splitlines()] == [1, 2, 3, 4]
    assert len(texts(tmp_path / "kept" / "history" / "alice.jsonl")) == 4
