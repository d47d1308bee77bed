"""kill -9 in the middle of a long tool loop with a real model protocol: work done is not redone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import stored
from tests.fakes.model_protocols import Answer, Ask, Json
from tests.fakes.model_server import ModelServer
from tests.models import results_in, sdk

STEPS = 20
TOOL = """
import os, threading
from pathlib import Path
here = Path(__file__).parent
def march(n: int) -> str:
    '''Take one step.'''
    with (here / "marched.log").open("a") as log:
        log.write(f"{n}\\n")
    if (here / f"stop at {n}").exists():
        (here / f"stop at {n}").unlink()
        os.kill(os.getpid(), 9)
        threading.Event().wait()
    return f"step {n} is taken"
"""


class Marching:
    """The mind of the model: what it says follows from the results it is shown."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.shown: list[str] = []
        self.kill_at = -1  #: the step whose question kills the one who asks it
        self.pid = 0

    def __call__(self, body: Json) -> Answer:
        self.shown = results_in(body)
        step = len(self.shown)
        self.asked.append(step)
        if step == self.kill_at:
            self.kill_at = -1
            os.kill(self.pid, signal.SIGKILL)
        if step == STEPS:
            return Answer("arrived")
        return Answer("", (Ask("march", {"n": step}, f"call_{step}"),))


class Lives:
    """Lives one after the other, in processes of their own."""

    def __init__(self, process: Process, mind: Marching) -> None:
        self._process = process
        self.mind = mind

    async def next(self) -> int:
        """One life, to its end; how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"live\n")
        self.mind.pid = int(await self._process.stdout.readline())
        return int(await self._process.stdout.readline())


@pytest.fixture
async def lives(project: Path, server: ModelServer) -> AsyncIterator[Lives]:
    server.mind = mind = Marching()
    command = [sys.executable, "-m", "tests.agents.sdk_life", str(project)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    yield Lives(process, mind)
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


@pytest.fixture
def project(tmp_path: Path, server: ModelServer) -> Path:
    (tmp_path / "tool.py").write_text(TOOL)
    more = f"tools: [./tool.py:march]\nmax_steps: {STEPS + 5}\n"
    (tmp_path / "alice.txt").write_text(sdk(server, "think", more=more))
    return tmp_path


async def test_Q5_a_loop_of_twenty_steps_survives_two_kills_and_repeats_nothing(project: Path, lives: Lives) -> None:
    mind = lives.mind
    (project / "stop at 7").touch()
    assert await lives.next() == -signal.SIGKILL
    assert mind.asked == list(range(8)), "killed in the tool call of step 7"
    mind.kill_at = 13
    assert await lives.next() == -signal.SIGKILL
    assert mind.asked == list(range(14)), "it went on with step 8, and was killed while it asked for step 13"
    assert await lives.next() == 0
    asked = Counter(mind.asked)
    assert asked.pop(13) == 2, "the one answer that was not stored is asked for again"
    assert asked == Counter([*range(13), *range(14, STEPS + 1)])
    assert (project / "marched.log").read_text().split() == [str(n) for n in range(STEPS)]
    assert "The outcome of this call is unknown" in mind.shown[7]
    assert [f"step {n} is taken" in shown for n, shown in enumerate(mind.shown)].count(False) == 1
    (asked,) = stored.read(project / "state.db", stored.instructions)
    assert (asked["state"], asked["attempts"]) == ("done", 3)
    paid = Counter(row["step"] for row in stored.read(project / "state.db", stored.ledger))
    assert paid == Counter(range(STEPS + 1)), "each step is paid for once"
