"""Many agents on the shipped daemon: those that do nothing cost nothing, and all that is sent is done."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests import stored
from tests.faults.report import LONG, report
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served

AGENTS = 1_000 if LONG else 100
MESSAGES = 10 if LONG else 3
IDLE = 60.0 if LONG else 1.0  # seconds
DESCRIPTORS = 1_024

pytestmark = pytest.mark.timeout(900 if LONG else 300)


class Talk:
    """One connection for many requests."""

    def __init__(self, daemon: Served) -> None:
        self._daemon = daemon
        self._connection = daemon.connect()
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._connection.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._connection.close()

    def send(self, to: str, message: str) -> None:
        body = json.dumps({"project": str(self._daemon.project), "to": to, "message": message}).encode()
        self._connection.sendall(self._daemon.head("POST", "/send", f"Content-Length: {len(body)}") + b"\r\n" + body)
        status = self._answers.readline()
        headers = dict(line.split(b": ", 1) for line in iter(self._answers.readline, b"\r\n"))
        self._answers.read(int(headers[b"content-length"]))
        assert status.startswith(b"HTTP/1.1 200"), status


def test_L7_a_thousand_agents_wait_for_nothing_and_are_all_done(tmp_path: Path) -> None:
    names = [f"agent{number}" for number in range(AGENTS)]
    with served(tmp_path) as daemon:
        for name in names:
            (daemon.project / ".agents" / f"{name}.yaml").write_text("backend: mock\n")
        begun = time.monotonic()
        assert len(daemon.ask("GET", daemon.query("/agents")).json) == AGENTS + 2  # alice and bob are always there
        report.count("L7 ms to know them all", round((time.monotonic() - begun) * 1000))
        _is_idle(daemon.process)
        most = 0
        with closing(Talk(daemon)) as talk:
            for number in range(MESSAGES):
                for name in names:
                    talk.send(name, f"message {number}")
                most = max(most, daemon.process.num_fds())
        assert eventually(
            lambda: len(daemon.read(stored.instructions, state="done")) == AGENTS * MESSAGES,
            within=600 if LONG else PATIENCE,
        )
        most = max(most, daemon.process.num_fds())
        report.count("L7 messages done", AGENTS * MESSAGES)
        report.count("L7 descriptors at most", most)
        assert most < min(DESCRIPTORS, 100 + AGENTS // 10)
        _is_idle(daemon.process)


def _is_idle(process: psutil.Process) -> None:
    """Two in a hundred at most, of one processor. What the last request has stirred up may settle first."""
    assert eventually(lambda: _spent_in(process, IDLE) <= 0.02 * IDLE, within=PATIENCE + 5 * IDLE)


def _spent_in(process: psutil.Process, seconds: float) -> float:
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return after.user + after.system - before.user - before.system
