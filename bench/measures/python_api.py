"""A verb of the Python API, in this process and through the daemon: what `connect()` adds to one call."""

from __future__ import annotations

import signal
from pathlib import Path

from agent_worker import Workers, connect, local
from measures.figure import Figure, Series, ms
from measures.teams import write_project
from soaking.house import House

CALLS = 200
ADDS = 0.002  # seconds


async def measure(folder: Path) -> list[Figure]:
    here, there = Series(), Series()
    async with local(write_project(folder / "here", {"alice": ""}), home=folder / "state") as workers:
        await _calls(workers, here)
    project = write_project(folder / "there", {"alice": ""})
    house = House(folder)
    house.home.mkdir(mode=0o700)
    await house.start()
    try:
        async with connect(project, home=house.home, start=False) as workers:
            await _calls(workers, there)
    finally:
        await house.end(signal.SIGTERM)
    adds = max(0.0, there.wall - here.wall)
    return [
        Figure(
            "what `connect()` adds to a verb",
            ms(adds),
            "",
            f"the same verb with `local()`: {ms(here.wall)}",
            there.wall / here.wall,
            f"≤ {ADDS * 1e3:g} ms",
            adds <= ADDS,
            adds / ADDS,
            cost=adds,
        )
    ]


async def _calls(workers: Workers, series: Series) -> None:
    await workers.inbox()
    for _ in range(CALLS):
        with series.again():
            await workers.inbox()
