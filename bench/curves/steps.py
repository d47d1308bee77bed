"""The first to the four hundredth step of one run: what a step costs when the thread behind it grows.

With the mock model a step is our own work alone. With `sdk` the whole thread goes over HTTP to a model server on
loopback, in a process of its own, so that a step may cost more by what it sends; the server is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from agent_worker.backends.mock import calls, says
from agent_worker.backends.models.providers import Approval
from agent_worker.core.events import Stepped
from agent_worker.workflows.instance import Instance
from curves.curve import Rounds, Topic
from measures.figure import middle
from measures.teams import ask, noted, open_team, script

SIZES = (1, 100, 200, 400)
MOCK_RUNS, SDK_RUNS = 3, 2
WINDOW = 20  # steps whose middle is taken, ending with the one that is named; the first twenty for the first
STEPS = max(SIZES)
MOCK, SDK = "mock", "sdk, everything sent again each time"
ABOUT = "One run with a stored tool call in each step; CPU of our process, everything of the step in it."
ROOT = Path(__file__).parents[2]


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    runs = [(MOCK, await _mock(folder / f"mock{n}")) for n in range(MOCK_RUNS)]
    runs += [(SDK, await _sdk(folder / f"sdk{n}")) for n in range(SDK_RUNS)]
    for what, run in runs:
        for size in SIZES:
            rounds.note(what, size, _at(run, size))
    return Topic("Steps", "step", ABOUT, rounds.curves(linear=(SDK,)))


def _at(run: list[float], step: int) -> float:
    end = max(step, WINDOW)
    return middle(run[end - WINDOW : end])


async def _mock(folder: Path) -> list[float]:
    async with open_team(folder, {"alice": f"max_steps: {STEPS + 1}\n"}) as team:
        entries = [calls("my_status_set", status=f"step {n}") for n in range(STEPS)]
        script(team, "alice", *entries, says("done"))
        return await _run(team)


async def _sdk(folder: Path) -> list[float]:
    with model_server() as port:
        agent = (
            f"backend: sdk\nmodel: anthropic/claude-sonnet-5\nmax_steps: {STEPS + 1}\nprompt: {{ system: Work. }}\n"
            "auto_memory: false\n"
            f"provider: {{ name: anthropic, base_url: 'http://127.0.0.1:{port}/m/loop', api_key: $GROWTH_KEY }}\n"
        )
        os.environ["GROWTH_KEY"] = "none"
        async with open_team(folder, {"alice": agent}, approval=Approval(local=True)) as team:
            return await _run(team)


async def _run(team: Instance) -> list[float]:
    """CPU seconds of every step."""
    with noted(team, Stepped, time.process_time) as ends:
        await ask(team, "@alice work")
    assert len(ends) >= STEPS, f"it ended after {len(ends)} steps"
    return [after - before for before, after in pairwise(ends)]


@contextmanager
def model_server() -> Iterator[int]:
    """One that asks for a tool for ever."""
    command = (sys.executable, "-m", "tests.fakes.model_server", "--port", "0", "--tool", "my_status_set")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        port = int(server.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        try:
            yield port
        finally:
            server.terminate()
