"""A host is told to end, or falls silent, or the database is killed: how soon the work goes on."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from pathlib import Path

from tests.hosts.fleet import Fleet, Slow, TestHost, open_fleet
from tests.models import Attentive
from tests.postgresql import Cluster, open_cluster

from agent_worker.core.events import Event, Started
from agent_worker.database.host_rows import BEAT, LEASE
from agent_worker.service.messages import deliver, put_question
from measures.figure import Figure, middle, ms

HANDOVERS = 20
DEATHS = 12  # hosts that die, of one more, in one round
ROUNDS = 3
OUTAGES = 10


async def measure(cluster: Cluster, folder: Path) -> list[Figure]:
    told = [await _handover(cluster, folder / f"told-{n}") for n in range(HANDOVERS)]
    dead = [taken for n in range(ROUNDS) for taken in await _deaths(cluster, folder / f"dead-{n}")]
    return [
        _within("a host is told to end → its work begins elsewhere, slowest", told, 0.3),
        _within("a host falls silent → its work begins elsewhere, slowest", dead, LEASE + 2),
        _within("the database is back → a question that waited is answered, slowest", await _outages(folder), 1.0),
    ]


def _within(what: str, taken: Sequence[float], target: float) -> Figure:
    said, part = f"{len(taken)} times, middle {ms(middle(taken))}", max(taken) / target
    return Figure(what, ms(max(taken)), "", said, part, f"≤ {target:g} s", part <= 1, part)


class Taken:
    """When a host begins to run an agent, by its id."""

    def __init__(self, host: TestHost) -> None:
        self.at: dict[str, float] = {}
        self.stirred = asyncio.Event()
        host.runtime.bus.listen(self._hear, Started)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Started):
            self.at[event.agent] = time.perf_counter()
            self.stirred.set()

    async def until(self, agent: str) -> float:
        while agent not in self.at:
            self.stirred.clear()
            await self.stirred.wait()
        return self.at[agent]


async def _handover(cluster: Cluster, root: Path) -> float:
    async with open_fleet(cluster.new_database(), root, "alice") as fleet:
        first = await _at_work(fleet, "alice")
        second = await fleet.add()
        second.employ("alice", Attentive())
        taken, begun = Taken(second), time.perf_counter()
        first.runtime.supervisor.grace = 0.0
        await first.stop()
        return await taken.until(first.loaded.agents["alice"]) - begun


async def _at_work(fleet: Fleet, name: str, *labels: str) -> TestHost:
    host, slow = await fleet.add(*labels), Slow("never")
    host.employ(name, slow)
    await deliver(host.runtime, host.loaded, name, "a long story")
    await slow.begun.wait()
    return host


async def _deaths(cluster: Cluster, root: Path) -> list[float]:
    """Of several hosts, each with work of its own, all die but one, at moments that have nothing to do with beats."""
    names = [f"agent{n}" for n in range(DEATHS)]
    needs = {name: f"requires: [{name}]\n" for name in names}
    async with open_fleet(cluster.new_database(), root, *names, extra=needs) as fleet:
        dying = [await _at_work(fleet, name, name) for name in names]
        survivor = await fleet.add(*names)
        for name in names:
            survivor.employ(name, Attentive())
        taken = Taken(survivor)
        return list(await asyncio.gather(*(_dies(host, name, taken) for host, name in zip(dying, names, strict=True))))


async def _dies(host: TestHost, name: str, taken: Taken) -> float:
    hosting = host.runtime.supervisor.hosting
    assert hosting
    await asyncio.sleep(random.uniform(0, 2 * BEAT))
    begun = time.perf_counter()
    await host.fall_silent(at_once=False)
    found = await taken.until(host.loaded.agents[name]) - begun
    host.runtime.supervisor.grace = 0.0
    return found


async def _outages(folder: Path) -> list[float]:
    """It is killed and started again, and syncs as it would elsewhere."""
    found = []
    with open_cluster("fsync = on\nfull_page_writes = on\n") as cluster:
        async with open_fleet(cluster.new_database(), folder / "outages", "alice") as fleet:
            here, _ = await fleet.add(), await fleet.add()
            await put_question(here.runtime, here.loaded, "alice", "ready?")
            for n in range(OUTAGES):
                await asyncio.to_thread(cluster.stop)
                asked = asyncio.ensure_future(put_question(here.runtime, here.loaded, "alice", f"question {n}"))
                await asyncio.to_thread(cluster.start)
                begun = time.perf_counter()
                assert (await asked).state == "done"
                found.append(time.perf_counter() - begun)
    return found
