"""A thousand agents with nothing to do: memory and CPU of a process of its own, against one with none.

Run as a program it is that process: `python -m measures.idle COUNT SECONDS FOLDER` prints both as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import psutil

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.definitions.project_files import load_project
from measures.child import child
from measures.figure import Figure, measured, ms
from measures.teams import write_project

AGENTS = 1_000
SECONDS = 5.0
MEGABYTES = 150


async def measure(folder: Path) -> list[Figure]:
    many, none = await asyncio.gather(
        child("measures.idle", AGENTS, SECONDS, folder / "many"), child("measures.idle", 0, SECONDS, folder / "none")
    )
    return [
        Figure(
            f"{AGENTS:,} idle agents, memory",
            f"{many['rss']:.0f} MB",
            "",
            f"no agents: {none['rss']:.0f} MB",
            many["rss"] / none["rss"],
            f"≤ {MEGABYTES} MB",
            many["rss"] <= MEGABYTES,
            many["rss"] / MEGABYTES,
            cost=many["rss"],
        ),
        Figure(
            f"{AGENTS:,} idle agents, {SECONDS:g} s",
            "",
            ms(many["cpu"]),
            f"no agents: {ms(none['cpu'])}",
            many["cpu"] / max(none["cpu"], 1e-6),
        ),
    ]


async def be_idle(count: int, seconds: float, folder: Path) -> dict[str, float]:
    """Every agent has its loop, and every loop waits."""
    write_project(folder, {f"agent{n}": "" for n in range(count)})
    project = load_project(folder)
    async with open_runtime(RuntimeSettings(database=folder / "state.db")) as runtime:
        loaded = await runtime.loader.load(project)
        for agent in loaded.agents.values():
            runtime.supervisor.wake(agent)
        await asyncio.sleep(0.5 + count / 500)  # until all have looked into their queues
        assert len(runtime.supervisor._loops) == count
        with measured() as spent:
            await asyncio.sleep(seconds)
        return {"cpu": spent.cpu, "rss": psutil.Process().memory_info().rss / 1e6}


if __name__ == "__main__":
    _, agents, length, place = sys.argv
    print(json.dumps(asyncio.run(be_idle(int(agents), float(length), Path(place)))))
