"""Runs of mock agents: how soon one begins, what a step costs, how long a small team takes to be quiet."""

from __future__ import annotations

import time
from pathlib import Path

import agent_worker
from agent_worker.backends.mock import calls, says
from agent_worker.core.events import Started
from agent_worker.database.database import Transaction
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.quiet import MOMENT
from measures.figure import Figure, Series, middle, ms
from measures.posts import RawGroupCommit
from measures.teams import ask, noted, open_team, script, write_project

MENTIONS = 150
TO_START = 0.005  # seconds
ROUNDS = 10
PER_MENTION = 0.003  # seconds of CPU
STEPS = 200
STEP_ROUNDS = 12
PER_STEP = 0.001
TEAM_ROUNDS = 5
TO_QUIET = 0.5


async def measure(folder: Path) -> list[Figure]:
    return [await _mention(folder), await _answered(folder), await _steps(folder), await _team(folder)]


async def _mention(folder: Path) -> Figure:
    """From handing over the message to the event that tells of the run: two commits and a wake."""
    plain, latencies = Series(), []
    async with open_team(folder / "mention", {"alice": ""}) as team:
        for number in range(MENTIONS):
            with plain.again():
                await team.database.write(_touch)
                await team.database.write(_touch)
            latencies.append(await _latency(team, f"@alice what about {number}?"))
    value = middle(latencies)
    return Figure(
        "mention → run of the mentioned begins",
        ms(value),
        "",
        f"two one-row writes, one after the other: {ms(plain.wall)}",
        value / plain.wall,
        f"≤ {TO_START * 1e3:g} ms",
        value <= TO_START,
        value / TO_START,
        cost=value,
    )


async def _answered(folder: Path) -> Figure:
    """A mention and the run it causes, to its end: accepted, begun, answered."""
    ours, plain = Series(), Series()
    async with open_team(folder / "answered", {"alice": ""}) as team:
        for round in range(ROUNDS):
            script(team, "alice", *(says(f"{round}: {n} is fine") for n in range(MENTIONS)))
            with ours.again():
                for number in range(MENTIONS):
                    await ask(team, f"@alice what about {number}?")
            with plain.again():
                for _ in range(3 * MENTIONS):
                    await team.database.write(_touch)
    each = ours.cpu / MENTIONS
    return Figure(
        "a mention and its run",
        ms(ours.wall / MENTIONS),
        ms(each),
        f"three one-row writes: {ms(plain.cpu / MENTIONS)} CPU",
        ours.cpu / plain.cpu,
        f"≤ {PER_MENTION * 1e3:g} ms CPU",
        each <= PER_MENTION,
        each / PER_MENTION,
        cost=each,
    )


def _touch(tx: Transaction) -> None:
    tx.run("update workspace set seq = seq where project = :project")


async def _latency(team: Instance, text: str) -> float:
    with noted(team, Started, time.perf_counter) as started:
        begun = time.perf_counter()
        await ask(team, text)
    return started[0] - begun


async def _steps(folder: Path) -> Figure:
    """A step is one synced commit: what the model answered, and the call with its result."""
    ours, bare = Series(), Series()
    raw = RawGroupCommit(folder / "steps-raw.db")
    async with open_team(folder / "steps", {"alice": f"max_steps: {STEPS + 1}\n"}) as team:
        for round in range(STEP_ROUNDS):
            entries = [calls("my_status_set", status=f"step {n}") for n in range(STEPS)]
            script(team, "alice", *entries, says(f"done {round}"))
            with ours.again():
                await ask(team, "@alice work")
            with bare.again():
                for _ in range(STEPS):
                    await raw.put()
    await raw.close()
    return Figure(
        "a mock step with one stored tool call",
        ms(ours.wall / STEPS),
        ms(ours.cpu / STEPS),
        f"a bare synced one-row commit: {ms(bare.cpu / STEPS)} CPU",
        ours.cpu / bare.cpu,
        f"≤ {PER_STEP * 1e3:.1f} ms CPU",
        ours.cpu / STEPS <= PER_STEP,
        ours.cpu / STEPS / PER_STEP,
        cost=ours.cpu / STEPS,
    )


async def _team(folder: Path) -> Figure:
    ours = Series()
    scripts = {"alice": "script: [say: '@bob please look at it']\n", "bob": "script: [say: it is fine]\n"}
    for round in range(TEAM_ROUNDS):
        root = write_project(folder / f"team{round}", scripts, workflow='kickoff: "@alice what is left to do?"\n')
        async with agent_worker.local(root, home=root / "home") as project:
            with ours.again():
                team = await project.start("review")
                await team.quiet()
            assert [m.sender for m in await team.messages()] == ["user", "alice", "bob"]
    return Figure(
        "two mock agents, from start to quiet",
        ms(ours.wall),
        ms(ours.cpu),
        f"the quiet time itself: {ms(MOMENT)}",
        ours.wall / MOMENT,
        f"≤ {ms(TO_QUIET)}",
        ours.wall <= TO_QUIET,
        ours.wall / TO_QUIET,
        cost=ours.cpu,
    )
