"""An older and a newer version side by side, as real daemons: what an upgrade one host at a time meets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests import stored
from tests.hosts.test_daemons import Daemons, end_daemon, some_daemons
from tests.postgresql import Cluster
from tests.shells.served import PATIENCE, fresh_daemon_command
from tests.shells.terminal import Terminal

import agent_worker
from agent_worker.client.connection import connect
from agent_worker.client.discovery import DATABASE_VARIABLE
from agent_worker.core.errors import AgentWorkerError
from agent_worker.database.migrations import versions

QUICK = "backend: mock\nscript: [{ say: done }, { again: true }]\n"


def a_newer_version(place: Path) -> Path:
    """The same program with one more migration: where Python finds it."""
    package = place / "agent_worker"
    shutil.copytree(Path(agent_worker.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    number = versions()[-1][0] + 1
    later = package / "database" / "schema" / f"{number:04}_later.sql"
    later.write_text("create table later (project text not null, id text not null, primary key (project, id));\n")
    return place


def begin_newer(daemons: Daemons, home: Path, source: Path) -> None:
    variables = {DATABASE_VARIABLE: daemons.url, "PYTHONPATH": str(source)}
    client = connect(home=home, command=fresh_daemon_command(home, **variables), patience=PATIENCE)
    daemons.all = [daemons.all[0], type(daemons.all[0])(client, home, daemons.all[0].project)]


def test_H9_a_version_that_needs_other_tables_waits_for_the_older_hosts_and_then_they_for_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    newer = a_newer_version(tmp_path / "newer")
    with some_daemons(cluster, tmp_path, {"alice": QUICK}, "one") as daemons:
        (old,) = daemons.all
        assert "done" in Terminal(old).says("ask", "alice", "before")
        with pytest.raises(AgentWorkerError, match="needs other tables, and hosts of an older one work on them"):
            begin_newer(daemons, tmp_path / "two", newer)
        assert "done" in Terminal(old).says("ask", "alice", "meanwhile")
        end_daemon(old)
        begin_newer(daemons, tmp_path / "two", newer)
        assert "done" in Terminal(daemons.all[1]).says("ask", "alice", "afterwards")
        with pytest.raises(AgentWorkerError, match="has schema version"):
            daemons.begin(old.home, old.project)
        told = [entry["text"] for entry in daemons.read(stored.talk) if entry["who"] == "user"]
        assert told == ["before", "meanwhile", "afterwards"]
        assert len(daemons.read(stored.runs, state="done")) == 3
