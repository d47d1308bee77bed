"""Row D12 as people meet it: the log lost while the daemon was dead, the database or the home removed under it."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.faults.test_taken_away import reader
from tests.patience import eventually
from tests.shells.served import Served, kill_daemon, served
from tests.shells.terminal import Terminal
from tests.teams import write_project

pytestmark = pytest.mark.sqlite("takes its file and its log away")

FILES = "workspace: { provider: file }\n"


def is_dead(daemon: Served) -> bool:
    try:
        return bool(daemon.process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def database_check(terminal: Terminal, *options: str) -> tuple[int, Any]:
    done = terminal.run("doctor", "--json", *options, AGENT_WORKER_PORT="0")
    return done.returncode, next(check for check in json.loads(done.stdout) if check["check"] == "database")


def test_D12_a_log_lost_while_the_daemon_was_dead_is_told_and_what_was_said_comes_back(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        write_project(daemon.project, ["alice", "bob"], workflow=FILES)
        terminal = Terminal(daemon)
        terminal.says("start", "review", "-b")
        channel = daemon.project / ".workspace" / "review" / "main" / "channel.jsonl"
        with closing(reader(daemon.home / "state.db")):  # from here on nothing leaves the log
            for n in range(30):
                daemon.do("POST", "/send", to="@review", message=f"message {n}")
            assert eventually(lambda: channel.exists() and len(channel.read_text().splitlines()) == 30)
            kill_daemon(daemon.home, daemon.client.found)
            assert eventually(lambda: is_dead(daemon))
            (daemon.home / "state.db-wal").unlink()
        code, found = database_check(terminal)
        assert code == 1
        assert "commits are missing" in found["found"]
        refused = terminal.run("ls", AGENT_WORKER_PORT="0")
        assert refused.returncode != 0
        assert "commits are missing" in refused.stderr
        assert "agent-worker doctor --fix" in refused.stderr
        code, found = database_check(terminal, "--fix")
        assert code == 1, "something is lost, and that is not ok"
        assert "commits are lost" in found["found"]
        assert "30 of 30 messages recovered, 30 of them from files" in found["found"]
        assert database_check(terminal)[1]["ok"]
        said = terminal.run("peek", "@review", "--json", AGENT_WORKER_PORT="0").stdout
        assert [json.loads(line)["text"] for line in said.splitlines()][-1] == "message 29"
        terminal.run("stop", "--all")


def test_D12_a_database_that_is_deleted_under_the_daemon_accepts_nothing_and_is_put_back(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review", "-b")
        terminal.says("send", "@review", "before")
        (daemon.home / "state.db").unlink()
        refused = terminal.run("send", "@review", "after")
        assert refused.returncode != 0
        assert "was removed or replaced while it was in use" in refused.stderr
        assert "agent-worker doctor --fix" in refused.stderr
        sent = {"to": "@review", "message": "x", "project": str(daemon.project)}
        assert daemon.ask("POST", "/send", body=sent).status == 507
        assert database_check(terminal)[0] == 1
        terminal.run("stop", "--all")
        code, found = database_check(terminal, "--fix")
        assert (found["ok"], "nothing is lost: " in found["found"]) == (True, True), (code, found)
        assert "before" in terminal.run("peek", "@review", AGENT_WORKER_PORT="0").stdout
        terminal.run("stop", "--all")


def test_D12_a_daemon_whose_home_is_deleted_ends_and_lets_go_of_its_projects(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review", "-b")
        shutil.rmtree(daemon.home)
        assert eventually(lambda: is_dead(daemon))
        again = terminal.run("ls", AGENT_WORKER_PORT="0")
        assert again.returncode == 0, again.stderr
        terminal.run("stop", "--all")
