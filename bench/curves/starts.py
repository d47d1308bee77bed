"""Ten to ten thousand agents that have nothing to do: what a start costs, and what they weigh.

Each number of agents is a process of its own: `python -m curves.starts COUNT FOLDER` prints its costs as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil

from agent_worker import local
from curves.curve import Rounds, Topic
from measures.child import child
from measures.figure import measured
from measures.teams import write_project

SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 2
ABOUT = "A project is opened by `agent_worker.local`: files read, rows made, nobody at work. A thousand: at most 0.7 s."
FIRST, AGAIN = "start, all agents new", "start, all agents known"
MEMORY = "memory with all of them"


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    for round in range(ROUNDS):
        for size in SIZES:
            found = await child("curves.starts", size, folder / f"{size}-{round}")
            for what, cost in found.items():
                rounds.note(what, size, cost)
    return Topic("Starts", "agents", ABOUT, rounds.curves(linear=(FIRST, AGAIN, MEMORY), megabytes=(MEMORY,)))


async def costs(count: int, folder: Path) -> dict[str, float]:
    root = write_project(folder, {f"agent{n}": "" for n in range(count)})
    found = {}
    for what in (FIRST, AGAIN):
        with measured() as spent:
            async with local(root, home=root / "home"):
                weight = psutil.Process().memory_info().rss / 1e6
        found[what] = spent.cpu
    return {**found, MEMORY: weight}


if __name__ == "__main__":
    _, agents, place = sys.argv
    print(json.dumps(asyncio.run(costs(int(agents), Path(place)))))
