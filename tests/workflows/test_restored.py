"""A database that was restored is behind the files of its workspaces: what is said then goes on after them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.teams import open_team

from agent_worker.backends.mock import says
from agent_worker.core.clock import SystemClock
from agent_worker.database.restore import put_back

FILES = "workspace: { provider: file, bind: ./data }\n"


def said(root: Path, file: str, *names: str) -> list[list[object]]:
    lines = (root / "data" / file).read_text().splitlines()
    return [[json.loads(line)[name] for name in names] for line in lines]


@pytest.mark.sqlite("PostgreSQL makes and restores its own backups")
async def test_after_a_restore_the_channel_and_histories_count_on_and_lose_nothing(tmp_path: Path) -> None:
    root, database, backup = tmp_path / "p", tmp_path / "state.db", tmp_path / "backup.db"
    async with open_team(root, "alice", clock=SystemClock(), workflow=FILES, database=database) as team:
        team.backends["alice"].then(says("one"), says("two"))
        await team.post("user", "@alice first")
        await team.idle()
        await team.runtime.database.back_up(backup)
        await team.post("user", "@alice second")
        await team.idle()
    put_back(backup, database, stamp="s")
    async with open_team(root, "alice", clock=SystemClock(), workflow=FILES, database=database) as team:
        team.backends["alice"].then(says("three"))
        await team.post("user", "@alice third")
        await team.idle()
    channel = said(root, "channel.jsonl", "seq", "text")
    assert [seq for seq, _ in channel] == list(range(1, len(channel) + 1))
    texts = [text for _, text in channel]
    assert texts == ["@alice first", "one", "@alice second", "two", "@alice third", "three"]
    history = said(root, "history/alice.jsonl", "seq", "text")
    assert [seq for seq, _ in history] == sorted({seq for seq, _ in history})
    assert "three" in [text for _, text in history]


async def test_a_number_that_nobody_can_have_reached_is_not_believed(tmp_path: Path) -> None:
    root, database = tmp_path / "p", tmp_path / "state.db"
    (root / "data").mkdir(parents=True)
    (root / "data" / "channel.jsonl").write_text(json.dumps({"seq": 2**63 - 1, "text": "hello"}) + "\n")
    async with open_team(root, "alice", clock=SystemClock(), workflow=FILES, database=database) as team:
        await team.post("user", "still here")
        assert await team.texts() == ["still here"]
