"""After `kill -9` of the shipped daemon: how soon the next one serves, and how soon interrupted work goes on.

Times of a busy machine prove nothing, so what is asserted is the processor time of the start, against that of an empty
home, and who comes first; how many starts were quick by the clock is counted.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psutil
import pytest

from agent_worker.client.connection import Client, connect
from agent_worker.client.discovery import is_running, signal_daemon
from agent_worker.database.database import Row
from agent_worker.definitions.settings import Settings
from tests import stored
from tests.faults.report import LONG, report
from tests.patience import PATIENCE, eventually
from tests.shells.served import daemon_command
from tests.teams import write_project

QUEUED = 10_000
HISTORY = 1_000 if LONG else 20  # MB
AGENTS = [f"agent{n}" for n in range(20)]
AT_ONCE = Settings().runs_at_once
LONG_WORK = "script:\n- { say: at last, slow: 1h }\n"
SECOND = 1_000_000  # microseconds

pytestmark = pytest.mark.timeout(600 if LONG else 300)


@dataclass
class Place:
    """A home and its project, and the daemons that come and go."""

    home: Path
    project: Path
    took: list[float] = field(default_factory=list)  #: seconds by the clock from being started to the first answer
    spent: list[float] = field(default_factory=list)  #: seconds of the processor

    @contextmanager
    def daemon(self) -> Iterator[Client]:
        """Killed at the end, and gone."""
        begun = time.monotonic()
        client = connect(home=self.home, command=daemon_command(), patience=PATIENCE)
        try:
            client.request("GET", f"/status?project={self.project}")
            self.took.append(time.monotonic() - begun)
            times = psutil.Process(client.found.pid).cpu_times()
            self.spent.append(times.user + times.system)
            yield client
        finally:
            signal_daemon(self.home, client.found, signal.SIGKILL)
            assert eventually(lambda: not is_running(client.found))

    def read(self, view: stored.View, **wanted: object) -> list[Row]:
        return stored.read(self.home / "state.db", view, **wanted)

    def change(self, sql: str, *values: object) -> None:
        with closing(apsw.Connection(str(self.home / "state.db"))) as connection:
            connection.set_busy_timeout(10_000)
            connection.execute(sql, values)

    def forgive(self) -> None:
        """Who is killed again and again while it works is blamed for it; here nobody is."""
        self.change("delete from run where state = 'lost'")

    def states(self) -> dict[str, int]:
        return Counter(row["state"] for row in self.read(stored.instructions))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "home", tmp_path / "project")
    workflow = "workspace: { provider: sqlite }\n"
    write_project(made.project, AGENTS, workflow=workflow, extra=dict.fromkeys(AGENTS, LONG_WORK))
    return made


def put_work_and_history(place: Place) -> None:
    """Each agent has one instruction; now it has hundreds. And much was said in the room."""
    each = QUEUED // len(AGENTS) - 1
    place.change(
        """with recursive n(n) as (select 1 union all select n + 1 from n where n < ?)
           insert into instruction(project, id, work, agent, source, sender, lane, ord, text, root, hop, state,
                                   queued_at)
           select project, 'i_' || agent || n, 'i_' || agent || n, agent, source, sender, lane, ord + n, text, root,
                  hop, 'queued', queued_at from (select * from instruction group by agent) join n""",
        each,
    )
    place.change("update agent set ordered = ordered + ?", each)
    place.change(
        """with recursive n(n) as (select 1 union all select n + 1 from n where n < ?)
           insert into message(project, workspace, seq, id, sender, kind, text, mentions, root, hop, at)
           select w.project, w.id, w.seq + n, 'm_' || n, 'user', 'message', hex(zeroblob(2000)), '[]', 'm_' || n, 0, n
             from workspace w join n""",
        HISTORY * 250,
    )
    place.change("update workspace set seq = seq + ?", HISTORY * 250)


@pytest.mark.sqlite("a long past is made in its file, by one statement of its own")
def test_R1_a_killed_daemon_serves_again_at_once_however_much_it_has_to_do(place: Place) -> None:
    with place.daemon() as client:
        client.request("POST", "/workflows", {"project": str(place.project), "workflow": "review"})
        for name in AGENTS:
            client.request("POST", "/send", {"project": str(place.project), "to": name, "message": "work"})
    put_work_and_history(place)
    size = (place.home / "state.db").stat().st_size
    for _ in range(20 if LONG else 2):
        place.forgive()
        with place.daemon():
            report.count("R1 restarts")
    assert sum(place.states().values()) == QUEUED
    assert set(place.states()) <= {"queued", "running"}
    empty, full = place.spent[0], sorted(place.spent[1:])
    report.count("R1 of them served within 2 s", sum(seconds <= 2 for seconds in place.took[1:]))
    report.count("R1 ms of the processor for a start, half of them", round(full[len(full) // 2] * 1000))
    report.count("R1 MB of history", size // 1_000_000)
    assert full[int(len(full) * 0.95)] < 2 * empty + 1


@pytest.mark.sqlite("a long past is made in its file, by one statement of its own")
def test_R2_interrupted_work_goes_on_before_any_other(place: Place) -> None:
    """Also before that of a project which was known earlier."""
    other = place.project.with_name("other")
    write_project(other, AGENTS, extra=dict.fromkeys(AGENTS, LONG_WORK))
    with place.daemon() as client:
        for project in (other, place.project):
            for name in AGENTS[:10]:
                client.request("POST", "/send", {"project": str(project), "to": name, "message": "work"})
        assert eventually(lambda: place.states().get("running") == AT_ONCE)
    for _ in range(40 if LONG else 2):  # one request may cause fifty runs
        place.forgive()
        interrupted = {row["id"] for row in place.read(stored.instructions, state="running")}
        assert len(interrupted) == AT_ONCE
        with place.daemon():
            ready = time.time_ns() // 1000
            assert eventually(lambda: place.states().get("running") == AT_ONCE)
            started = {row["instruction"]: row["started_at"] for row in place.read(stored.runs, state="running")}
        report.count("R2 interrupted runs", len(interrupted))
        report.count("R2 of them at work within 1 s", sum(at < ready + SECOND for at in started.values()))
        assert set(started) == interrupted
