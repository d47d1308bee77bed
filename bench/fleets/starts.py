"""From a mention on one host to the beginning of its run on another; beside SQLite, where both are one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from tests.hosts.fleet import open_fleet
from tests.postgresql import Cluster
from tests.teams import kept_prices, write_project

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.events import Ended, Event, Started
from agent_worker.service.messages import deliver
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.workflows.runtime import Runtime
from measures.figure import Figure, middle, ms

AGENTS = 100  # each is called on twice: the first time nobody runs it
MOST = 0.015  # seconds
FLOW = "workspace: { provider: sqlite }\n"


class Heard:
    """When runs begin, and when they end, as one process hears it."""

    def __init__(self, runtime: Runtime) -> None:
        self.begun: asyncio.Queue[float] = asyncio.Queue()
        self.ended: asyncio.Queue[float] = asyncio.Queue()
        runtime.bus.listen(self._hear, Started, Ended)

    def _hear(self, event: Event) -> None:
        (self.begun if isinstance(event, Started) else self.ended).put_nowait(time.perf_counter())


async def measure(cluster: Cluster, folder: Path) -> list[Figure]:
    names = [f"agent{n}" for n in range(AGENTS)]
    needs = dict.fromkeys(names, "requires: [gpu]\n")  # so that it is known where they work
    async with open_fleet(cluster.new_database(), folder / "shared", *names, workflow=FLOW, extra=needs) as fleet:
        here, there = await fleet.add(), await fleet.add("gpu")
        free, known = await _twice(here.service, Heard(there.runtime), names, fleet.root)
    write_project(folder / "alone", names, workflow=FLOW)
    async with open_runtime(RuntimeSettings(database=folder / "starts.db", prices=kept_prices())) as runtime:
        service = Service(runtime)
        alone = await _twice(service, Heard(runtime), names, folder / "alone")
        await service.close()
    what = "a mention on one host → its run begins on another, p50"
    return [
        _figure(f"{what}, the agent is run there already", known, alone[1]),
        _figure(f"{what}, nobody runs the agent", free, alone[0]),
    ]


async def _twice(service: Service, heard: Heard, names: Sequence[str], root: Path) -> tuple[list[float], list[float]]:
    """Seconds of each first, and of each second mention."""
    await begin(service, WorkflowRequest("review", str(root)))
    first, second = [], []
    for name in names:
        for found in first, second:
            found.append(await _mention(service, heard, name, root))
    return first, second


async def _mention(service: Service, heard: Heard, name: str, root: Path) -> float:
    loaded, begun = await service.project(str(root)), time.perf_counter()
    await deliver(service.runtime, loaded, "@review", f"@{name} how are you?")
    taken = await heard.begun.get() - begun
    await heard.ended.get()
    return taken


def _figure(what: str, ours: Sequence[float], alone: Sequence[float]) -> Figure:
    p50, theirs = middle(ours), middle(alone)
    return Figure(what, ms(p50), "", f"SQLite: {ms(theirs)}", p50 / theirs, "≤ 15 ms", p50 <= MOST, p50 / MOST)
