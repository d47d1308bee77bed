"""One agent that hangs or crashes slows nobody, on the shipped daemon."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from agent_worker.compose import RuntimeSettings
from tests import stored
from tests.faults.report import LONG, report
from tests.patience import eventually
from tests.shells.served import Served, served

PROGRAM = Path(__file__).parents[1] / "fakes" / "acp_agent.py"
WELL = [f"well{number}" for number in range(18 if LONG else 8)]
ROUNDS = 20 if LONG else 2
HUNG = 9  # more than runs at once: some wait for their turn, and must not keep others from theirs

pytestmark = pytest.mark.timeout(600 if LONG else 300)


def test_I2_those_that_hang_and_one_that_crashes_slow_nobody(tmp_path: Path) -> None:
    with served(tmp_path) as daemon, closing(Crashing(daemon)) as crashing:
        prepare(daemon)
        calm = answers(daemon)
        hang(daemon, 1)
        crashing.start()
        beside = answers(daemon)
        assert len(_programs(daemon)) == 1  # it hangs to this moment, and nobody waited for it
        assert eventually(lambda: any(work["failures"] for work in daemon.read(stored.instructions)))
        hang(daemon, HUNG)
        report.count("I2 answers beside nine hung programs", len(answers(daemon)))
        assert len(_programs(daemon)) == RuntimeSettings().programs_at_once
    report.count("I2 answers beside a hung and a crashing agent", len(beside))
    report.count("I2 µs for half of them, calm", round(calm[len(calm) // 2] * 1e6))
    report.count("I2 µs for half of them, beside", round(beside[len(beside) // 2] * 1e6))


def prepare(daemon: Served) -> None:
    agents = daemon.project / ".agents"
    for name in WELL:
        (agents / f"{name}.yaml").write_text("backend: mock\n")
    (agents / "crashing.yaml").write_text("backend: mock\nscript: [{ fail: crash }, { again: true }]\n")
    for number in range(HUNG):
        command = [sys.executable, str(PROGRAM), str(daemon.home / f"notes{number}"), "hang"]
        text = f"backend: acp\ncommand: {command}\nprompt: {{ system: You hang. }}\n"
        (agents / f"hanging{number}.yaml").write_text(text)
    daemon.do("POST", "/trust")
    answers(daemon, rounds=1)  # nobody is measured at his first time


def answers(daemon: Served, *, rounds: int = ROUNDS) -> list[float]:
    """How long each answer took, in order of length."""
    seconds = []
    for _ in range(rounds):
        for name in WELL:
            begun = time.perf_counter()
            assert daemon.do("POST", "/ask", agent=name, message="hello")["state"] == "done"
            seconds.append(time.perf_counter() - begun)
    return sorted(seconds)


def hang(daemon: Served, count: int) -> None:
    """So many have a program that says nothing; those that run are stopped by a signal."""
    for number in range(count):
        daemon.do("POST", "/send", to=f"hanging{number}", message="hang")
    assert eventually(lambda: len(_programs(daemon)) == min(count, RuntimeSettings().programs_at_once))
    for process in _programs(daemon):
        os.kill(process.pid, signal.SIGSTOP)


class Crashing(threading.Thread):
    """Writes to an agent that crashes at every message."""

    def __init__(self, daemon: Served) -> None:
        super().__init__()
        self._daemon = daemon
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02):
            self._daemon.do("POST", "/send", to="crashing", message="crash")

    def close(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join()


def _programs(daemon: Served) -> list[psutil.Process]:
    """Those that have been asked, and say nothing."""
    asked = [n for n in range(HUNG) if "session/prompt" in _notes(daemon.home / f"notes{n}")]
    return [
        process
        for process in daemon.process.children(recursive=True)
        if any(str(daemon.home / f"notes{n}") in process.cmdline() for n in asked) and "hang" in process.cmdline()
    ]


def _notes(path: Path) -> str:
    return path.read_text() if path.exists() else ""
