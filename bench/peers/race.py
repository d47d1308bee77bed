"""Runs every arm through every task, and lets nobody win by doing nothing: the model counts what it was asked.

Arms take turns inside a round, so that all meet the same machine; a figure is the median of the rounds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.arms.contest import AGENTS, STEPS, STEPS_OF_EACH, TURNS
from bench.peers.field import ARMS, BY_HAND, ROOT, Arm, environment

#: How many requests the model must have seen; all but the first two begin with a step to warm up, which is two.
CALLS = {
    "import": 0,
    "first": 1,
    "alone": 2 + STEPS + 1,
    "pair": 2 + TURNS,
    "crowd": 2 + AGENTS * (STEPS_OF_EACH + 1),
}
TIME_LIMIT = 300


class Foul(Exception):
    """An arm did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class Model:
    """The process that plays the model."""

    url: str
    process: subprocess.Popen[str]

    def report(self) -> dict[str, Any]:
        """What it was asked since the last report."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@contextmanager
def model() -> Iterator[Model]:
    command = (sys.executable, "-m", "bench.peers.model")
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield Model(process.stdout.readline().strip(), process)
        finally:
            process.stdin.close()


Measures = dict[str, float]


def race(arms: Iterable[Arm], folder: Path) -> dict[str, Measures]:
    """One round: every measure of every arm, by its name."""
    with model() as there:
        bare = _run((sys.executable, str(ARMS / "contest.py")), environment(there.url, folder))
        found = {arm.name: _measures(arm, there, bare, folder) for arm in arms}
    if loop_context := found.get(BY_HAND.name):
        for measures in found.values():
            measures["step added"] = measures["step wall"] - loop_context["step wall"]
    return found


def _measures(arm: Arm, there: Model, bare: Measures, folder: Path) -> Measures:
    done = {task: perform(arm, task, there, folder) for task in CALLS}
    print(f"{arm.name}: {done['crowd']['cpu']:.1f} s CPU for the crowd", file=sys.stderr)
    steps = STEPS + 1
    return {
        "import wall": done["import"]["whole wall"] - bare["whole wall"],
        "import cpu": done["import"]["whole cpu"] - bare["whole cpu"],
        "import memory": done["import"]["memory"],
        "first wall": done["first"]["first"],
        "first cpu": done["first"]["whole cpu"],
        "step wall": done["alone"]["wall"] / steps,
        "step cpu": done["alone"]["cpu"] / steps,
        "turn wall": done["pair"]["wall"] / TURNS,
        "turn cpu": done["pair"]["cpu"] / TURNS,
        "crowd wall": done["crowd"]["wall"],
        "crowd cpu": done["crowd"]["cpu"],
        "crowd memory": done["crowd"]["memory"],
    }


def perform(arm: Arm, task: str, there: Model, folder: Path) -> Measures:
    """The arm does its task; checked by what the model saw."""
    there.report()
    begun = time.monotonic()
    spent = _run(arm.command(task), environment(there.url, folder))
    seen = there.report()
    if seen["calls"] != CALLS[task] or seen["wrong"]:
        raise Foul(f"{arm.name}, {task}: {seen['calls']} calls instead of {CALLS[task]}; {seen['wrong']}")
    return spent | {"first": seen["first"] - begun}


def _run(command: Iterable[str], env: dict[str, str]) -> Measures:
    """What a whole process took, and what it says of itself."""
    begun, before = time.monotonic(), _used_by_children()
    with subprocess.Popen(tuple(command), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        said, complained = process.communicate(timeout=TIME_LIMIT)
    spent = {"whole wall": time.monotonic() - begun, "whole cpu": _used_by_children() - before}
    if process.returncode:
        raise Foul(f"{' '.join(command)} failed:\n{(complained or said).decode()[-2000:]}")
    told = [line for line in said.decode().splitlines() if line.startswith("{")]  # some print around it
    return spent | (json.loads(told[-1]) if told else {})


def _used_by_children() -> float:
    """CPU seconds of those that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
