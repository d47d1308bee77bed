"""Row S7, with a daemon: it and a program of one's own, or two daemons, never work on one project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import engine, stored
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, kill_daemon, served
from tests.shells.terminal import Terminal
from tests.teams import write_project

import agent_worker
from agent_worker import InUse
from agent_worker.client.connection import connect

FILES = "workspace: { provider: file }\n"


def checks(terminal: Terminal) -> dict[str, Any]:
    return {check["check"]: check for check in json.loads(terminal.run("doctor", "--json").stdout)}


async def test_S7_the_python_snippet_takes_nothing_from_a_team_of_the_daemon(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        write_project(daemon.project, ["alice", "bob"], workflow=FILES)
        terminal = Terminal(daemon)
        terminal.says("start", "review", "-b")
        terminal.says("doc", "append", "@review", "plan.md", "- release on Friday")
        with pytest.raises(InUse) as refused:
            async with agent_worker.local(daemon.project) as project:
                await project.run("review")
        pid = daemon.client.found.pid
        assert f"the daemon, process {pid}, works on the project {daemon.project}" in refused.value.message
        assert f"AGENT_WORKER_HOME={daemon.home} agent-worker status" in refused.value.hint
        write_project(tmp_path / "other", ["carol"])
        if not engine.is_postgresql():  # there the daemon has no file that somebody else could open
            with pytest.raises(InUse, match="works on the database"):
                async with agent_worker.local(tmp_path / "other", home=daemon.home):
                    pass
        assert terminal.says("doc", "list", "@review").split() == ["plan.md"]
        assert "- release on Friday" in terminal.says("doc", "read", "@review", "plan.md")
        assert "project" not in checks(terminal)


async def test_S7_a_project_that_a_program_has_is_refused_alone_and_taken_up_when_it_ends(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        write_project(daemon.project, ["alice", "bob"], workflow=FILES)
        Terminal(daemon).says("start", "review", "-b")
        kill_daemon(daemon.home, daemon.client.found)
        async with agent_worker.local(daemon.project):
            client = connect(home=daemon.home, command=daemon_command(), patience=PATIENCE)
            again = Served(client, daemon.home, daemon.project)
            try:
                await _refused_alone(again, tmp_path)
            except BaseException:
                kill_daemon(again.home, again.client.found)
                raise
        try:
            assert eventually(lambda: again.read(stored.workspaces, state="running"))  # and nobody asked for it
            assert "not running" not in Terminal(again).says("send", "@review", "hello again")
            assert "project" not in checks(Terminal(again))
        finally:
            kill_daemon(again.home, again.client.found)


async def _refused_alone(daemon: Served, tmp: Path) -> None:
    answer = daemon.ask("GET", daemon.query("/status"))
    assert (answer.status, answer.json["error"]["code"]) == (409, "in_use")
    assert "works on the project" in answer.json["error"]["message"]
    said = Terminal(daemon).run("ls")
    assert said.returncode == 2
    assert "wait until it has ended, or end it: kill " in said.stderr
    found = checks(Terminal(daemon))["project"]
    assert not found["ok"]
    assert "the daemon of this home cannot" in found["found"]
    write_project(tmp / "other", ["carol"])
    other = Served(daemon.client, daemon.home, tmp / "other")
    assert other.ask("GET", other.query("/status")).status == 200


def test_S7_the_daemon_of_another_home_is_told_which_one_has_the_project(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        home = tmp_path / "another home"
        client = connect(home=home, command=daemon_command(), patience=PATIENCE)
        second = Served(client, home, daemon.project)
        try:
            said = Terminal(second).run("ls")
            assert said.returncode == 2
            assert f"process {daemon.client.found.pid}" in said.stderr
            assert f"AGENT_WORKER_HOME={daemon.home} agent-worker stop --all" in said.stderr
            assert not checks(Terminal(second))["project"]["ok"]
            Terminal(daemon).says("stop", "--all")
            assert eventually(lambda: Terminal(second).run("ls").returncode == 0)
            first = Terminal(daemon).run("ls", AGENT_WORKER_PORT="0")
            assert f"AGENT_WORKER_HOME='{home}' agent-worker stop --all" in first.stderr
            Terminal(daemon).run("stop", "--all")
        finally:
            kill_daemon(home, client.found)
