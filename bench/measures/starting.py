"""How long a person waits for the command line: CPU of whole processes, with compiled bytecode, as installed."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from measures.figure import Figure, middle, ms

TIMES = 5
HELP_AT_MOST = 0.1  # seconds
PROGRAM = str(Path(sys.executable).with_name("agent-worker"))
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


async def measure(folder: Path) -> list[Figure]:
    environment = ENVIRONMENT | {"TMPDIR": str(folder)}
    commands: dict[str, Callable[[], float]] = {
        "python itself": lambda: _whole(python("pass"), environment),
        "import agent_worker": lambda: _whole(python("import agent_worker"), environment),
        "import agent_worker.cli.main": lambda: _whole(python("import agent_worker.cli.main"), environment),
        "import agent_worker.api": lambda: _whole(python("import agent_worker.api"), environment),
        "agent-worker --help": lambda: _whole((PROGRAM, "--help"), environment),
        "agent-worker demo, to its first line": lambda: _until_line((PROGRAM, "demo"), 1, environment),
        "agent-worker demo, to its first message": lambda: _until_line((PROGRAM, "demo"), 3, environment),
    }
    for run in commands.values():  # compiles what is not compiled yet
        run()
    taken: dict[str, list[float]] = {what: [] for what in commands}
    for _ in range(TIMES):
        for what, run in commands.items():
            taken[what].append(run())
    loop_context = middle(taken.pop("python itself"))
    return [_figure(what, middle(values), loop_context) for what, values in taken.items()]


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


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


def _figure(what: str, taken: float, loop_context: float) -> Figure:
    judged = what.endswith("--help")
    return Figure(
        what,
        "",
        ms(taken),
        f"python itself: {ms(loop_context)}",
        taken / loop_context,
        f"≤ {HELP_AT_MOST * 1e3:.0f} ms" if judged else "",
        taken <= HELP_AT_MOST if judged else None,
        taken / HELP_AT_MOST if judged else None,
        cost=taken,
    )
