"""The first hour by a stopwatch: what a newcomer types until something is reached, and how long it takes.

    uv run python -m bench.first_hour [--against COMMIT] [--write docs/figures/first-hour.md]

Each line is typed in a shell without a terminal, in a directory and a home of its own, against the fake model server.
`--against` plays the same lines with an earlier commit, installed in an environment of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measures.earlier import ROOT, clone
from measures.figure import machine, markdown

PATIENCE = 60.0  # seconds for one line; then nobody would have waited any longer
FIRST = "817bc61"  # the commit that was tried by newcomers, and whose faults were written down
MODEL_PORT = 18123
HEAD = """# The first hour

What a newcomer types until something is reached, and how long it takes: the lines themselves, in a shell without a
terminal, each row in a directory and a home of its own, so that every row starts its daemon. Models are a server on
loopback that answers at once; the demo is paced to be read. *Not reached* says what stood there instead. Written by
`uv run python -m bench.first_hour --write docs/figures/first-hour.md`.
"""


@dataclass(frozen=True, slots=True)
class Milestone:
    what: str
    lines: tuple[str, ...]
    sees: str  #: in what the last line prints
    files: dict[str, str] = field(default_factory=dict)


def _key(name: str) -> str:
    return f"export OPENAI_API_KEY=sk-{name} OPENAI_BASE_URL=http://127.0.0.1:{MODEL_PORT}/m/ok/v1"


CAREFUL = """backend: mock
tools: [{ name: bash, approve: true }]
script: [{ call: { tool: bash, with: { command: echo hello } } }, { say: it printed hello }]
"""
CURIOUS = """backend: mock
script: [{ call: { tool: ask_user, with: { question: Which one?, options: [red, blue] } } }, { say: I paint it }]
"""
ENDPOINT = f"""model: mine/x
prompt: {{ system: You are Lone. }}
provider: {{ name: mine, base_url: "http://127.0.0.1:{MODEL_PORT}/m/ok/v1" }}
"""
LOOP = """agents:
  ann: { backend: mock, script: [{ say: "@bob and you?" }, { again: true }] }
  bob: { backend: mock, script: [{ say: "@ann and you?" }, { again: true }] }
limits: { turns: 4 }
kickoff: "@ann begin"
"""
#: The answer comes when the agent has gone on; a person looks, and looks again.
AFTERWARDS = "until agent-worker peek ann | grep -E 'printed|paint'; do sleep 0.2; done"
MILESTONES = (
    Milestone("the demo", ("agent-worker demo",), "agent-worker init"),
    Milestone(
        "a first team, of mock agents", ("agent-worker init --backend mock", "agent-worker run review"), "done: "
    ),
    Milestone(
        "a first answer of a model, its key exported before",
        (_key("a"), "agent-worker init", "agent-worker ask alice hi"),
        "well",
    ),
    Milestone(
        "a first answer of a model, its key exported while the daemon runs",
        ("agent-worker status", _key("b"), "agent-worker init", "agent-worker ask alice hi"),
        "well",
    ),
    Milestone(
        "an agent with an endpoint of its own, approved",
        ("agent-worker ask lone hi --trust",),
        "well",
        {".agents/lone.yaml": ENDPOINT},
    ),
    Milestone(
        "a command of an agent, approved",
        ("agent-worker ask ann hi", "agent-worker inbox", "agent-worker inbox approve 1", AFTERWARDS),
        "it printed hello",
        {".agents/ann.yaml": CAREFUL},
    ),
    Milestone(
        "a question of an agent, answered",
        ("agent-worker ask ann hi", "agent-worker inbox", "agent-worker inbox answer 1 2", AFTERWARDS),
        "I paint it",
        {".agents/ann.yaml": CURIOUS},
    ),
    Milestone(
        "a limit in `run`, lifted",
        ("agent-worker run loop", "agent-worker resume @loop"),
        "running",
        {".workflows/loop.yaml": LOOP},
    ),
)
#: How a line may end that asks for the next one: it waits for the person (4), or met a limit (3).
GOES_ON = {0, 3, 4}


@dataclass(frozen=True, slots=True)
class Reached:
    commands: int
    seconds: float
    instead: str = ""

    @property
    def cell(self) -> str:
        if self.instead:
            return f"not reached: {self.instead}"
        return f"{self.commands} command{'s' * (self.commands != 1)}, {self.seconds:.1f} s"


def play(milestone: Milestone, programs: Path) -> Reached:
    """Type its lines; the first that fails ends it."""
    with tempfile.TemporaryDirectory(prefix="first-hour-") as place:
        project, home = Path(place) / "project", Path(place) / "home"
        project.mkdir()
        for name, text in milestone.files.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_text(text)
        keep = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        keep["AGENT_WORKER_PORT"] = str(MODEL_PORT + 1)  # the usual one may be taken
        env = keep | {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home), "AGENT_WORKER_HOME": str(home / "aw")}
        home.mkdir()
        try:
            return _typed(milestone, project, env)
        finally:
            subprocess.run(["agent-worker", "stop", "--all"], cwd=project, env=env, capture_output=True, check=False)


def _typed(milestone: Milestone, project: Path, env: dict[str, str]) -> Reached:
    exported, commands, begun = "", 0, time.perf_counter()
    printed = ""
    for line in milestone.lines:
        if line.startswith("export "):
            exported = f"{line}; "
            continue
        commands += 1
        try:
            done = subprocess.run(
                ["bash", "-c", exported + line],
                cwd=project,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Reached(commands, PATIENCE, f"`{line}` had printed nothing more after {PATIENCE:.0f} s")
        printed = done.stdout
        if done.returncode not in GOES_ON:
            return Reached(commands, 0.0, f"`{line}` said “{_first(printed)}”")
    seconds = time.perf_counter() - begun
    return Reached(commands, seconds, "" if milestone.sees in printed else f"the end was “{_first(printed)}”")


def _first(printed: str) -> str:
    said = next((line.strip() for line in printed.splitlines() if line.strip()), "nothing")
    return said[:160].replace("|", "\\|")


@contextmanager
def model_server() -> Iterator[None]:
    command = (sys.executable, "-m", "tests.fakes.model_server", "--port", str(MODEL_PORT))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        server.stdout.readline()
        try:
            yield
        finally:
            server.kill()


def installed(source: Path) -> Path:
    """Where the programs of a checkout are, once its environment is made."""
    subprocess.run(["uv", "sync", "--quiet", "--no-dev"], cwd=source, check=True)
    return source / ".venv" / "bin"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=FIRST, metavar="COMMIT")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="earlier-") as folder, model_server():
        then = installed(clone(options.against, Path(folder)).parent)
        rows = [_row(milestone, then, Path(sys.executable).parent) for milestone in MILESTONES]
    text = f"{HEAD}\n{markdown(('until', f'at {options.against}', 'now'), rows)}\n"
    print(text)
    if options.write:
        options.write.write_text(f"{text}\n{machine(time.perf_counter() - begun)}")


def _row(milestone: Milestone, then: Path, now: Path) -> Sequence[str]:
    return milestone.what, play(milestone, then).cell, play(milestone, now).cell


if __name__ == "__main__":
    main()
