"""How long a person waits for the command line: CPU of whole processes, with compiled bytecode, as installed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from measures.figure import Figure, middle, ms

TIMES = 5
WARM = 1  # times before, which compile what is not compiled yet
BARE = "python itself"
ASK = "a program that asks a mock agent, to its end"
ASKING = """
from agent_worker import Agent, local
with local() as workers:
    workers.ask_sync(Agent("alice", script=[{"say": "hello"}]), "hello")
"""
AT_MOST = {"import agent_worker": 0.05, "agent-worker --help": 0.1, ASK: 0.3}  # seconds
PROGRAM = str(Path(sys.executable).with_name("agent-worker"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

Run = Callable[[dict[str, str]], float]  # in this environment → CPU seconds


async def measure(folder: Path) -> list[Figure]:
    environment = ENVIRONMENT | {"TMPDIR": str(folder)}
    for _ in range(WARM):
        for run in RUNS.values():
            run(environment)
    taken: dict[str, list[float]] = {what: [] for what in RUNS}
    for _ in range(TIMES):
        for what, run in RUNS.items():
            taken[what].append(run(environment))
    bare = middle(taken.pop(BARE))
    return [_figure(what, middle(values), bare) for what, values in taken.items()]


def python(code: str) -> Run:
    return partial(_whole, (sys.executable, "-c", code))


def _whole(command: Sequence[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _until_line(command: Sequence[str], number: int, environment: dict[str, str]) -> float:
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        for _ in range(number):
            process.stdout.readline()
        times = psutil.Process(process.pid).cpu_times()
        process.kill()
    return times.user + times.system


RUNS: dict[str, Run] = {
    BARE: python("pass"),
    "import agent_worker": python("import agent_worker"),
    "import agent_worker.cli.main": python("import agent_worker.cli.main"),
    ASK: python(ASKING),
    "agent-worker --help": partial(_whole, (PROGRAM, "--help")),
    "agent-worker demo, to its first line": partial(_until_line, (PROGRAM, "demo"), 1),
    "agent-worker demo, to its first message": partial(_until_line, (PROGRAM, "demo"), 3),
}


def _figure(what: str, taken: float, bare: float) -> Figure:
    most = AT_MOST.get(what)
    return Figure(
        what,
        "",
        ms(taken),
        f"{BARE}: {ms(bare)}",
        taken / bare,
        f"≤ {most * 1e3:.0f} ms" if most else "",
        taken <= most if most else None,
        taken / most if most else None,
        cost=taken,
    )
