"""Real daemons over one PostgreSQL: one is killed, or frozen for too long, and nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests import stored
from tests.faults.report import LONG, report
from tests.needs import skip_without
from tests.patience import PATIENCE, eventually
from tests.postgresql import Cluster, programs
from tests.shells.served import Served, daemon_command, kill_daemon
from tests.shells.terminal import Terminal
from tests.teams import write_project

from agent_worker.cli.cluster import cluster as cluster_commands
from agent_worker.client.connection import connect
from agent_worker.client.discovery import DATABASE_VARIABLE, is_running, signal_daemon
from agent_worker.database.database import Row
from agent_worker.database.postgres_session import PostgresTransaction
from agent_worker.database.postgres_session import connect as session
from agent_worker.offline.cluster import ANSWER

SLOW = "backend: mock\nscript: [{ say: done, slow: 1s }, { again: true }]\n"
MESSAGES = 24
TEAM = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
TRIALS, KILLS = (20, 10) if LONG else (1, 2)


class Daemons:
    """Some of them, and what their database holds."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.all: list[Served] = []

    def begin(self, home: Path, project: Path) -> Served:
        """Start one, or start it again."""
        client = connect(home=home, command=daemon_command(**{DATABASE_VARIABLE: self.url}), patience=PATIENCE)
        begun = Served(client, home, project)
        self.all = [*(each for each in self.all if each.home != home), begun]
        return begun

    def end(self) -> None:
        for each in self.all:
            end_daemon(each)

    def kill(self, victim: Served) -> None:
        kill_daemon(victim.home, victim.client.found)
        report.count("H1 hosts killed at work")

    def read(self, view: stored.View, **wanted: object) -> list[Row]:
        with session(self.url) as connection:
            return view(PostgresTransaction(connection), **wanted)

    def hosts(self, asked: Served) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = asked.client.request("GET", "/hosts")[1]
        return found

    def send(self, through: Served, agent: str, message: str) -> None:
        body = {"to": agent, "message": message, "project": str(through.project)}
        through.client.request("POST", "/send", body)

    def at_work(self) -> list[Served]:
        pids = {host["pid"] for host in self.hosts(self.all[0]) if host["working"]}
        return [each for each in self.all if each.client.found.pid in pids]

    def working(self, asked: Served) -> tuple[Served, Served]:
        """One that is at work, and the other."""
        pid = eventually(lambda: next((host["pid"] for host in self.hosts(asked) if host["working"]), None))
        one, other = sorted(self.all, key=lambda each: each.client.found.pid != pid)
        return one, other


@contextmanager
def some_daemons(cluster: Cluster, folder: Path, extra: dict[str, str], *names: str) -> Iterator[Daemons]:
    project = folder / "project"
    write_project(project, extra, extra=extra)
    daemons = Daemons(cluster.new_database())
    try:
        for name in names:
            daemons.begin(folder / name, project)
        yield daemons
    finally:
        daemons.end()


def end_daemon(daemon: Served) -> None:
    if is_running(daemon.client.found):
        signal_daemon(daemon.home, daemon.client.found, signal.SIGTERM)
        assert eventually(lambda: not is_running(daemon.client.found))


@pytest.fixture
def daemons(cluster: Cluster, tmp_path: Path) -> Iterator[Daemons]:
    with some_daemons(cluster, tmp_path, dict.fromkeys(TEAM[:4], SLOW), "one", "two") as daemons:
        yield daemons


def test_H1_of_all_messages_none_is_lost_or_answered_twice_when_a_host_is_killed_at_work(daemons: Daemons) -> None:
    for n in range(MESSAGES):
        daemons.send(daemons.all[n % 2], ("alice", "bob", "carol", "dave")[n % 4], f"message {n}")
    victim, survivor = daemons.working(daemons.all[0])
    daemons.kill(victim)
    assert eventually(lambda: not daemons.read(stored.unfinished))
    talk = Counter(entry["text"] for entry in daemons.read(stored.talk))
    assert talk == {"done": MESSAGES} | {f"message {n}": 1 for n in range(MESSAGES)}
    runs = Counter(run["state"] for run in daemons.read(stored.runs))
    assert runs["done"] == MESSAGES
    assert runs["lost"] >= 1
    assert len(daemons.read(stored.steps)) == MESSAGES
    assert [host["here"] for host in daemons.hosts(survivor)] == [True]
    assert f"{os.uname().nodename} {survivor.client.found.pid} (this one)" in Terminal(survivor).says("status")


@pytest.mark.parametrize("trial", range(TRIALS))
def test_H1_hosts_that_are_killed_again_and_again_lose_and_double_nothing_and_no_agent_works_on_two(
    cluster: Cluster, tmp_path: Path, trial: int
) -> None:
    with some_daemons(cluster, tmp_path, dict.fromkeys(TEAM, SLOW), "one", "two", "three", "four") as daemons:
        killed = sent = 0
        while killed < KILLS:
            for agent in TEAM:
                daemons.send(daemons.all[sent % 4], agent, f"message {sent}")
                sent += 1
            victims = eventually(daemons.at_work)[:3]
            for number, victim in enumerate(victims):
                daemons.kill(victim)
                if number % 2:  # it is there again before anybody has missed it
                    daemons.begin(victim.home, victim.project)
                killed += 1
            assert eventually(lambda: not daemons.read(stored.unfinished))
            for victim in victims[::2]:
                daemons.begin(victim.home, victim.project)
        talk = Counter(entry["text"] for entry in daemons.read(stored.talk))
        assert talk == {"done": sent} | {f"message {n}": 1 for n in range(sent)}
        runs = daemons.read(stored.runs)
        assert Counter(run["state"] for run in runs)["done"] == sent
        assert len(daemons.read(stored.steps)) == sent
        report.count("H1 messages", sent)
        for agent in {run["agent"] for run in runs}:
            own = sorted((run["started_at"], run["ended_at"]) for run in runs if run["agent"] == agent)
            assert all(ended <= begun for (_, ended), (begun, _) in pairwise(own)), "it worked on two hosts at once"


def test_H2_a_host_that_was_frozen_for_longer_than_its_lease_writes_nothing_and_works_again(daemons: Daemons) -> None:
    for agent in ("alice", "bob", "carol", "dave"):
        daemons.send(daemons.all[0], agent, "are you there?")
    frozen, other = daemons.working(daemons.all[0])
    os.kill(frozen.client.found.pid, signal.SIGSTOP)
    try:
        assert eventually(lambda: len(daemons.hosts(other)) == 1 and not daemons.read(stored.unfinished))
    finally:
        os.kill(frozen.client.found.pid, signal.SIGCONT)
    assert eventually(lambda: len(daemons.hosts(other)) == 2)
    runs = Counter(run["state"] for run in daemons.read(stored.runs))
    assert runs["done"] == 4
    assert runs["lost"] >= 1
    assert Counter(entry["text"] for entry in daemons.read(stored.talk)) == {"are you there?": 4, "done": 4}
    assert "done" in Terminal(frozen).says("ask", "alice", "and now?")
    report.count("H2 hosts frozen at work")


def test_the_demo_shows_an_answer_that_survives_the_kill_of_its_host() -> None:
    if programs() is None:
        skip_without("postgresql")
    done = CliRunner().invoke(cluster_commands, ["demo", "--json"], catch_exceptions=False)
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    names = ["database", "daemons", "asked", "works", "killed", "waits", "buried", "answered", "runs"]
    assert list(dict.fromkeys(step["step"] for step in steps)) == names
    left = [step["text"] for step in steps if step["step"] == "waits"][1:]
    assert len(left) > 1, "it counts down"
    assert ANSWER in steps[-2]["text"]
