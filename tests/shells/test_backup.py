"""`backup`, `restore`, `gc`, and a disk that is getting full, as people meet them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, served
from tests.shells.terminal import Terminal

from agent_worker.client.connection import connect


@pytest.mark.sqlite("PostgreSQL makes its own backups: test_postgres.py")
def test_a_backup_is_made_while_the_daemon_works_and_restored_when_it_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review")
        terminal.says("send", "@review", "before")
        assert terminal.says("backup", str(file)).startswith(str(file))
        assert file.stat().st_mode & 0o777 == 0o600
        terminal.says("send", "@review", "after")
        in_home = terminal.json("backup")["path"]
        assert Path(in_home).parent == daemon.home / "backups"

        again = terminal.run("backup", str(file))
        assert (again.returncode, again.stderr) == (2, f"error: {file} exists already\n  hint: name another file\n")
        nothing = terminal.run("restore", str(tmp_path / "nothing.db"))
        assert nothing.stderr.startswith(f"error: there is no file {tmp_path / 'nothing.db'}\n")
        early = terminal.run("restore", str(file))
        assert early.returncode == 2
        assert "agent-worker stop --all" in early.stderr
        terminal.says("stop", "--all")

        said = terminal.says("restore", str(file))
        assert said.startswith("restored 1 message from ")
        assert "is kept as " in said
        assert said_in(daemon) == ["before"]
        assert terminal.json("restore", in_home)["messages"] == 2
        assert said_in(daemon) == ["before", "after"]
        wrong = terminal.run("restore", str(tmp_path / "project" / ".agents" / "alice.yaml"))
        assert wrong.returncode == 2
        assert "is not a backup" in wrong.stderr
        connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
        assert "after" in terminal.says("peek", "@review")
        terminal.says("stop", "--all")


@pytest.mark.sqlite("damages the pages of its file")
def test_a_damaged_database_is_refused_with_the_way_out_and_doctor_recovers_it(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review")
        for n in range(5):
            terminal.says("send", "@review", f"message {n}")
        terminal.says("stop", "--all")
        assert eventually(lambda: not (daemon.home / "state.db-wal").exists())
        with (daemon.home / "state.db").open("r+b") as file:
            file.write(b"\0" * 4096)
        damaged = (daemon.home / "state.db").read_bytes()

        refused = terminal.run("peek", "@review", AGENT_WORKER_PORT="0")
        assert refused.returncode == 2
        assert "the database is damaged: " in refused.stderr
        assert "agent-worker doctor --fix" in refused.stderr
        assert "Traceback" not in refused.stderr

        found = check(terminal, "doctor")
        assert (found["ok"], found["found"][:9]) == (False, "damaged: ")
        fixed = check(terminal, "doctor", "--fix")
        assert "5 of 5 messages recovered" in fixed["found"]
        assert "unfinished work could not be read" in fixed["found"]
        assert not fixed["ok"], "something is lost"
        (kept,) = daemon.home.glob("state.db.damaged-*")
        assert kept.read_bytes() == damaged
        assert check(terminal, "doctor")["ok"]
        assert "message 4" in terminal.says("peek", "@review")
        terminal.says("stop", "--all")


def check(terminal: Terminal, *command: str) -> dict[str, Any]:
    said = json.loads(terminal.run(*command, "--json", AGENT_WORKER_PORT="0").stdout)
    (found,) = [each for each in said if each["check"] == "database"]
    return dict(found)


def said_in(daemon: Served) -> list[str]:
    return [row["text"] for row in daemon.read(stored.messages, kind="message")]


def test_gc_lists_and_then_removes(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        terminal = Terminal(daemon)
        left = daemon.home / "programs" / "codex" / "nobody-0123456789ab"
        left.mkdir(parents=True)
        (left / "session.jsonl").write_text("x" * 5000)
        listed = terminal.says("gc", "--dry-run")
        assert "of an agent that is gone" in listed
        assert "can go: agent-worker gc" in listed
        assert left.exists()
        assert [each["path"] for each in terminal.json("gc")] == [str(left)]
        assert not left.exists()
        assert terminal.says("gc") == "nothing to remove\n"


def test_a_disk_without_workspace_is_told_everywhere_and_messages_are_still_accepted(tmp_path: Path) -> None:
    full = {"AGENT_WORKER_STOP_FREE": "9000 TB"}
    with served(tmp_path, environ=full) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review")
        assert "woke alice" in terminal.says("send", "@review", "@alice hello")
        assert "no new run starts below 9000000 GB" in terminal.says("status")
        assert terminal.json("status")["disk"]["state"] == "stopped"
        doctor = terminal.run("doctor", "--json", **full)
        (disk,) = [check for check in json.loads(doctor.stdout) if check["check"] == "disk"]
        assert (disk["ok"], disk["fix"]) == (False, "agent-worker gc")
        assert [row["state"] for row in daemon.read(stored.instructions)] == ["queued"]


def test_a_daemon_with_a_limit_that_is_no_size_does_not_start_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="AGENT_WORKER_WARN_FREE='much' is not a size"):
        connect(home=tmp_path / "home", command=daemon_command(AGENT_WORKER_WARN_FREE="much"))
