"""One daemon whose state is in PostgreSQL, as a person uses it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.engine import is_postgresql
from tests.patience import PATIENCE, eventually
from tests.postgresql import Cluster, open_cluster
from tests.shells.served import Served, daemon_command, kill_daemon, served
from tests.shells.terminal import Terminal

from agent_worker.client.connection import connect
from agent_worker.client.discovery import DATABASE_VARIABLE
from agent_worker.database.postgres_look import look_at


def runs(daemon: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Terminal(daemon).says("runs", "--json"))
    return found


def test_what_was_said_and_done_outlives_a_daemon_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.new_database()
    with served(tmp_path, {DATABASE_VARIABLE: url}) as daemon:
        terminal = Terminal(daemon)
        terminal.says("ask", "alice", "hello")
        terminal.says("start", "review", "-b")
        terminal.says("send", "@review", "@bob are you there?")
        assert eventually(lambda: [run["agent"] for run in runs(daemon) if run["state"] == "done"].count("bob"))
        before = {run["id"] for run in runs(daemon)}
        assert not (daemon.home / "state.db").exists()
        kill_daemon(daemon.home, daemon.client.found)
        command = daemon_command(**{DATABASE_VARIABLE: url})
        again = Served(connect(home=daemon.home, command=command, patience=PATIENCE), daemon.home, daemon.project)
        assert before <= {run["id"] for run in runs(again)}
        assert "are you there?" in Terminal(again).says("peek", "@review")
        assert "hello" not in Terminal(again).run("backup").stdout
        assert "pg_dump" in Terminal(again).run("backup").stderr
        Terminal(again).says("stop", "--all")


def test_a_backup_is_made_and_put_back_with_the_commands_that_are_told(cluster: Cluster, tmp_path: Path) -> None:
    url, restored = cluster.new_database(), cluster.new_database()
    path = f"{cluster.programs}:{os.environ['PATH']}"
    with served(tmp_path, {DATABASE_VARIABLE: url}) as daemon:
        Terminal(daemon).says("ask", "alice", "before the backup")
        told = Terminal(daemon).run("backup").stderr
        (command,) = re.findall(r"hint: (pg_dump .*)", told)
        environment = {"PATH": path, DATABASE_VARIABLE: url}
        subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment)
        Terminal(daemon).says("stop", "--all")
        restore = f"pg_restore --no-owner --dbname={restored} agent-worker.dump"
        assert restore.partition("=")[0] in Path("docs/guides/postgresql.md").read_text()
        subprocess.run(restore, shell=True, check=True, cwd=tmp_path, env=environment)
        command = daemon_command(**{DATABASE_VARIABLE: restored})
        again = Served(connect(home=daemon.home, command=command, patience=PATIENCE), daemon.home, daemon.project)
        assert "before the backup" in Terminal(again).says("peek", "alice")
        Terminal(again).says("stop", "--all")


def test_doctor_says_whether_this_host_sees_the_folder_that_an_agent_keeps_for_all(
    cluster: Cluster, tmp_path: Path
) -> None:
    known = {DATABASE_VARIABLE: cluster.new_database()}
    with served(tmp_path, known) as daemon:
        terminal, file = Terminal(daemon), daemon.project / ".agents" / "alice.yaml"
        file.write_text(file.read_text() + "context: { store: files }\n")
        assert "folder of alice: " in (told := terminal.run("doctor", **known).stdout)
        assert "no host has worked in it yet" in told
        terminal.says("ask", "alice", "hello")
        assert "which all hosts see" in terminal.run("doctor", **known).stdout
        (mark,) = (daemon.project / ".agents").rglob(".shared")
        mark.unlink()
        told = terminal.run("doctor", **known).stdout
        assert "is not the folder that other hosts see: alice is left to them" in told
        assert "fix: mount it there, or delete `store: files` from the file of alice" in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://me:hunter2hunter2@host/db", "is not the address of a PostgreSQL database"),
        ("somewhere", "is not the address of a PostgreSQL database"),
        ("postgresql://me:hunter2hunter2@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db cannot be used"),
    ],
)
def test_a_daemon_that_cannot_use_its_database_says_so_and_does_not_start(tmp_path: Path, url: str, told: str) -> None:
    with pytest.raises(Exception, match=told) as caught:
        connect(home=tmp_path / "home", command=daemon_command(**{DATABASE_VARIABLE: url}), patience=PATIENCE)
    assert "hunter2" not in str(caught.value)


def test_doctor_is_quick_though_the_daemon_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    with open_cluster() as cluster, served(tmp_path, {DATABASE_VARIABLE: cluster.new_database()}) as daemon:
        cluster.stop()
        asked = Terminal(daemon).run("doctor", "--json", **{DATABASE_VARIABLE: cluster.url()})
        found = {each["check"]: each for each in json.loads(asked.stdout)}
        assert "did not answer within" in found["daemon"]["found"]
        assert found["database"]["fix"] == "start PostgreSQL, or correct AGENT_WORKER_DATABASE_URL"
        assert len([each for each in found.values() if "cannot be reached" in each["found"]]) == 1, "it asked once"


def test_doctor_names_the_command_that_makes_a_missing_database(cluster: Cluster, tmp_path: Path) -> None:
    found = look_at(f"{cluster.server}/none_of_this_name")
    assert found.cure == (
        "make the database: createdb --template=template0 --locale=C --encoding=UTF8"
        f" --host=127.0.0.1 --port={cluster.port} --username=tester none_of_this_name"
    )
    made = subprocess.run(
        [cluster.programs / "createdb", *found.cure.split()[4:]], check=True, capture_output=True, timeout=PATIENCE
    )
    assert not made.stderr
    assert "cannot be reached" not in look_at(f"{cluster.server}/none_of_this_name").found


def test_doctor_and_restore_know_that_the_state_is_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        known = {DATABASE_VARIABLE: cluster.new_database()}
        found = json.loads(Terminal(daemon).run("doctor", "--json", **known).stdout)
        (database,) = [each for each in found if each["check"] == "database"]
        assert "postgresql://127.0.0.1" in database["found"]
        (running,) = [each for each in found if each["check"] == "daemon"]
        assert running["ok"] == is_postgresql()  # else it began without
        assert is_postgresql() or f"it began without {DATABASE_VARIABLE}" in running["found"]
        refused = Terminal(daemon).run("restore", str(tmp_path), **known)
        assert "the daemon's state is in PostgreSQL" in refused.stderr
        assert DATABASE_VARIABLE in refused.stderr
