"""`token`: made, listed and revoked at the terminal."""

from __future__ import annotations

from pathlib import Path

from tests.shells.terminal import terminal_knowing


async def test_a_token_is_shown_once_listed_by_name_and_revoked(tmp_path: Path) -> None:
    async with terminal_knowing(tmp_path, {}) as terminal:
        made = terminal.json("token", "create", "laptop", "--only", "alice", "--only", "@review", "--days", "30")
        assert made["token"].startswith("awdoor_")
        shown = terminal.says("token", "list")
        assert "laptop: alice, @review; for 30 more days" in shown
        assert made["token"] not in shown
        assert "laptop is revoked" in terminal.says("token", "revoke", "laptop")
        assert "there are no tokens" in terminal.says("token", "list")
        refused = terminal.run("token", "revoke", "laptop")
        assert (refused.returncode, "agent-worker token list" in refused.stderr) == (2, True)
