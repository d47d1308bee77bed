"""What we add to a coding program: one run of it by us, against the same program called by hand. Prints Markdown.

    uv run python -m bench.programs [--runs 30] [--write docs/figures/programs.md]

Both talk to the same model on loopback and list tools at the same daemon, in turns, so that both meet the same
machine. Needs what `poe test-setup` installs.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))

from tests.backends.programs.world import PROTOCOL, PROVIDER, World, is_installed, say, world

from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.backends.programs.claude import Claude
from agent_worker.backends.programs.codex import Codex
from agent_worker.backends.programs.gemini import Gemini
from agent_worker.backends.programs.one_shot import PrintingProgram, ProgramJob
from agent_worker.backends.programs.opencode import OpenCode
from agent_worker.backends.programs.program import SERVER, Program, ProgramHost, ToolEndpoint
from agent_worker.backends.programs.runner import Launch
from agent_worker.backends.programs.sessions import Session
from measures import plot

SPEAKING = ("opencode", "gemini")  # over the Agent Client Protocol, until they are told to stop
PROGRAMS: dict[str, Callable[[], PrintingProgram | OpenCode | Gemini]]
PROGRAMS = {"claude": Claude, "codex": Codex, "opencode": OpenCode, "gemini": Gemini}
#: What is called by hand, and whether it is what we start; otherwise what a shell finds, which may be npm's script.
BY_HAND = {"claude": ("claude", False), "codex": ("codex", False), "codex without npm's script": ("codex", True)}
AT_ONCE = 8
MOST_WALL, MOST_CPU = 0.05, 0.050
PAUSES = {"at once": 0.0, "after a second": 1.0}  # how soon the model answers

ABOUT = """\
Wall time may be 5 % over that of the program called by hand, CPU 50 ms. What we add is about the same each time: taking
the work from the queue, its prompt, a private folder, the answer on disk. Our wall time is that until the answer is
stored, which we do as soon as the program says it; by hand one waits until it has ended. The rows *ended* count both to
that moment. By hand is what a shell finds: for codex that is a script of npm, which starts the program. We start the
program itself; the rows *without npm's script* have both do that. No model answers at once: those rows show
our part beside as little else as there can be. OpenCode and Gemini are spoken with, by us and by hand, and do not end
by themselves: both are counted until the answer.

CPU is the daemon's own, on average; it lists our tools to the program called by hand, too. That of the program is not
counted: it is the same whoever starts it, and differs by more than all of ours from one run to the next."""


@dataclass(frozen=True, slots=True)
class Cost:
    wall: float  #: until its answer is stored; by hand, until it has ended
    ended: float  #: until it has ended
    cpu: float  #: of the daemon


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30, help="beside a model that answers at once; else half of it")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    if missing := [name for name in PROGRAMS if not is_installed(name)]:
        sys.exit(f"not installed: {', '.join(missing)}; run: uv run poe test-setup")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, world(Path(folder)) as there:
        rows = [row for label in BY_HAND for row in measured(there, label, options.runs)]
        rows += [row for name in SPEAKING for row in spoken_with(there, name, options.runs // 3)]
        rows += [at_once(there, name) for name in ("claude", "codex")]
    print(page(rows, "", options.runs))
    if options.write:
        picture = plot.bars(options.write, {row.what: row.part for row in rows})
        options.write.write_text(page(rows, picture, options.runs))


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    cells: str
    part: float  #: of the target that is used


def page(rows: Sequence[Row], picture: str, runs: int) -> str:
    head = "| what | ours | by hand | we add | target | met |\n| --- | --- | --- | --- | --- | --- |"
    body = "\n".join(f"| {row.what} | {row.cells} |" for row in rows)
    load = (
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; medians of {runs} and {runs // 2} runs, in turns."
    )
    by = "Written by `uv run python -m bench.programs --write docs/figures/programs.md`."
    return f"# What we add to a coding program\n\n{by}\n\n{ABOUT}\n\n{picture}{head}\n{body}\n\n{load}\n"


def measured(there: World, label: str, runs: int) -> Iterator[Row]:
    name, itself = BY_HAND[label]
    agent = there.hire(f"{name}-one", name)
    there.model.mind = say("All is well.")
    there.ask(agent)  # the first one imports what all others find
    with by_hand(there, name, itself=itself) as call:
        call()
        for when, pause in PAUSES.items():
            there.model.mind = partial(_think, pause)
            several = runs // 2 if pause else runs
            pairs = [(cost(there, lambda: there.ask(agent)), cost(there, call)) for _ in range(several)]
            wall = MOST_WALL * statistics.median(bare.wall for _, bare in pairs)
            for what, most in (("wall", wall), ("ended", wall), ("cpu", MOST_CPU)):
                yield row(f"{label}, answered {when}, {what}", what, pairs, most)


def spoken_with(there: World, name: str, runs: int) -> Iterator[Row]:
    agent = there.hire(f"{name}-one", name)
    there.model.mind = say("All is well.")
    there.ask(agent)
    with by_hand(there, name, itself=True) as call:
        cost(there, call)
        pairs = [(cost(there, lambda: there.ask(agent)), cost(there, call)) for _ in range(runs)]
    wall = MOST_WALL * statistics.median(bare.wall for _, bare in pairs)
    for what, most in (("wall", wall), ("cpu", MOST_CPU)):
        yield row(f"{name}, answered at once, {what}", what, pairs, most)


def _think(pause: float, body: object) -> str:
    time.sleep(pause)  # one asks at a time, and the model has a thread of its own
    return "All is well."


def row(about: str, what: str, pairs: Sequence[tuple[Cost, Cost]], most: float) -> Row:
    """What we add is the middle of the differences: both of a pair meet the same moods of the machine."""
    measured = [(getattr(ours, what), getattr(bare, what)) for ours, bare in pairs]
    middle = statistics.mean if what == "cpu" else statistics.median  # that is counted in steps of 10 ms
    ours, bare = (middle(each) for each in zip(*measured, strict=True))
    added = middle([ours - bare for ours, bare in measured])
    met = "yes" if added <= most else "**no**"
    return Row(about, f"{ms(ours)} | {ms(bare)} | {ms(added)} | ≤ {ms(most)} | {met}", max(0.0, added / most))


def ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"


def cost(there: World, work: Callable[[], object]) -> Cost:
    began, before = time.perf_counter(), used(there)
    left = work()
    took = time.perf_counter() - began
    if isinstance(left, subprocess.Popen):  # it would wait for the next word
        left.kill()
        left.communicate()
    for pid in programs_of(there):
        with suppress(ProcessLookupError):
            await_end(pid)
    ended = time.perf_counter() - began
    while programs_of(there):  # what we do after its end costs CPU too, and must not disturb the next one
        time.sleep(0.001)
    return Cost(took, ended, used(there) - before)


def programs_of(there: World) -> list[int]:
    """What the daemon has started; also what has ended, until it has noticed. Asks the system for no more than that."""
    daemon = there.client.found.pid
    return [int(pid) for pid in Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()]


def await_end(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        select.select([process], [], [])
    finally:
        os.close(process)


def used(there: World) -> float:
    """CPU seconds of the daemon so far."""
    daemon = psutil.Process(there.client.found.pid).cpu_times()
    return float(daemon.user + daemon.system)


@contextmanager
def by_hand(there: World, name: str, *, itself: bool) -> Iterator[Callable[[], object]]:
    """The very command line, started by nobody in particular."""
    daemon = there.client.found
    entry = ToolEndpoint(f"http://127.0.0.1:{daemon.port}/mcp", daemon.token)
    state = there.home.parent / "by-hand"
    allowed = Approval(local=True, hosts=frozenset({"127.0.0.1"}))
    endpoint = Endpoint(PROVIDER[name], there.model.url("think", PROTOCOL[name]), "$TEST_KEY")
    program_host = ProgramHost(
        None, state, os.environ | there.environ, allowed
    )  # the daemon's own: certificates take time
    program = Program(name, "hand", there.project, there.project, program_host, model="fake-model", endpoint=endpoint)
    with tempfile.TemporaryDirectory() as folder:
        job = ProgramJob(program, entry, Path(folder), "You are nobody.", "Do it.", Session(name))
        launch = PROGRAMS[name]().launch(job)
        argv = launch.argv if itself else (program.binary(name), *launch.argv[1:])

        def call() -> object:
            return subprocess.run(
                argv,
                cwd=launch.cwd,
                env=launch.env,
                input=launch.prompt.encode(),
                capture_output=True,
                check=True,
            )

        yield call if name not in SPEAKING else partial(converse, launch, entry)


def converse(launch: Launch, entry: ToolEndpoint) -> subprocess.Popen[str]:
    """The least that gets an answer of a program that is spoken with. It still runs afterwards."""
    child = subprocess.Popen(
        launch.argv,
        cwd=launch.cwd,
        env=launch.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def ask(method: str, **given: object) -> Any:
        assert child.stdin
        assert child.stdout
        child.stdin.write(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": given}) + "\n")
        child.stdin.flush()
        return next(each for each in map(json.loads, child.stdout) if each.get("id") == method)["result"]

    ask("initialize", protocolVersion=1, clientCapabilities={})
    token = {"name": "Authorization", "value": f"Bearer {entry.token}"}
    tools = {"type": "http", "name": SERVER, "url": entry.url, "headers": [token]}
    session = ask("session/new", cwd=str(launch.cwd), mcpServers=[tools])["sessionId"]
    ended = ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": launch.prompt}])
    assert ended["stopReason"] == "end_turn", ended
    return child


def at_once(there: World, name: str) -> Row:
    """Many agents at the same time: how many programs were there at most, and did all answer?"""
    there.model.mind = say("All is well.")
    agents = [there.hire(f"{name}-{number}", name) for number in range(AT_ONCE)]
    answers: list[object] = []
    asking = [threading.Thread(target=lambda a=agent: answers.append(there.ask(a))) for agent in agents]
    began, most = time.perf_counter(), 0
    for thread in asking:
        thread.start()
    while any(thread.is_alive() for thread in asking):
        most = max(most, len(programs_of(there)))
        time.sleep(0.02)
    took = time.perf_counter() - began
    done = sum(1 for each in answers if isinstance(each, dict) and each["state"] == "done")
    met = "yes" if done == AT_ONCE and most <= 4 else "**no**"
    cells = f"{done} done in {took:.1f} s | | at most {most} programs | ≤ 4 | {met}"
    return Row(f"{name}, {AT_ONCE} agents at once", cells, most / 4)


if __name__ == "__main__":
    main()
