"""What several daemons over one PostgreSQL cost beside SQLite, and how soon one goes on for another.

uv run python -m bench.hosts [--write docs/figures/hosts.md] [--small]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tests.hosts.fleet import Fleet, Slow, TestHost, open_fleet
from tests.models import Attentive
from tests.postgresql import Cluster, open_cluster
from tests.teams import kept_prices, write_project

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.events import Event, Started
from agent_worker.database.host_rows import LEASE
from agent_worker.definitions.project import load_project
from agent_worker.service.messages import deliver, put_question
from agent_worker.service.service import Service
from agent_worker.workflows.runtime import Runtime
from measures.figure import Figure, middle, ms, table, write_page

HEAD = """# Several daemons over one PostgreSQL

Written by `uv run python -m bench.hosts --write docs/figures/hosts.md`. All hosts run in one process, with the server
beside them on loopback, which syncs nothing but where it is killed: what is measured is our own share.
"""
SYNCED = "fsync = on\nfull_page_writes = on\n"
NEEDS = {"alice": "requires: [gpu]\n"}  #: so that it is known where it works


class Starts:
    """When runs begin, as one host hears it."""

    def __init__(self, runtime: Runtime) -> None:
        self.times: asyncio.Queue[float] = asyncio.Queue()
        runtime.bus.listen(self._hear, Started)

    def _hear(self, _: Event) -> None:
        self.times.put_nowait(time.perf_counter())


@asynccontextmanager
async def fleet_of(cluster: Cluster, folder: Path) -> AsyncIterator[Fleet]:
    root = folder / f"project-{time.monotonic_ns()}"
    async with open_fleet(cluster.new_database(), root, "alice", "bob", extra=NEEDS) as fleet:
        yield fleet


async def until_idle(host: TestHost, agent: str) -> None:
    assert (await put_question(host.runtime, host.loaded, agent, "ready?")).state == "done"


async def first_steps(cluster: Cluster, folder: Path, tries: int) -> Figure:
    """A message that one host accepts begins a run on another."""
    async with fleet_of(cluster, folder) as fleet:
        here, there = await fleet.add(), await fleet.add("gpu")
        await until_idle(here, "alice")
        across = await _starts(here, there.runtime, tries)
    async with open_runtime(RuntimeSettings(database=folder / "alone.db", prices=kept_prices())) as runtime:
        write_project(folder / "alone", ["alice"])
        alone = await _alone(runtime, folder / "alone", tries)
    p50 = middle(across)
    target = "≤ 15 ms"
    what = "a message on one host → its run begins on another, p50"
    return Figure(
        what, ms(p50), "", f"SQLite: {ms(middle(alone))}", p50 / middle(alone), target, p50 <= 0.015, p50 / 0.015
    )


async def _starts(here: TestHost, there: Runtime, tries: int) -> list[float]:
    starts, found = Starts(there), []
    for n in range(tries):
        begun = time.perf_counter()
        await put_question(here.runtime, here.loaded, "alice", f"question {n}")
        found.append(await starts.times.get() - begun)
    return found


async def _alone(runtime: Runtime, root: Path, tries: int) -> list[float]:
    loaded, starts, found = await runtime.loader.load(load_project(root)), Starts(runtime), []
    for n in range(tries):
        begun = time.perf_counter()
        await put_question(runtime, loaded, "alice", f"question {n}")
        found.append(await starts.times.get() - begun)
    return found


async def handovers(cluster: Cluster, folder: Path, tries: int) -> list[Figure]:
    """One host ends, or falls silent, while it works: how soon another has begun the work."""
    clean, dead = [], []
    for _ in range(tries):
        clean.append(await _taken_over(cluster, folder, dies=False))
    for _ in range(max(1, tries // 3)):
        dead.append(await _taken_over(cluster, folder, dies=True))
    worst, last = max(clean), max(dead)
    return [
        _within("a host is told to end → its work begins elsewhere, slowest", worst, 0.3, clean),
        _within("a host dies → its work begins elsewhere, slowest", last, LEASE + 2, dead),
    ]


def _within(what: str, measured: float, target: float, all_: list[float]) -> Figure:
    said, part = f"{len(all_)} tries, middle {ms(middle(all_))}", measured / target
    return Figure(what, ms(measured), "", said, part, f"≤ {target:g} s", measured <= target, part)


async def _taken_over(cluster: Cluster, folder: Path, *, dies: bool) -> float:
    async with fleet_of(cluster, folder) as fleet:
        first = await fleet.add("gpu")
        slow = Slow("never")
        first.employ("alice", slow)
        await deliver(first.runtime, first.loaded, "alice", "a long story")
        await slow.begun.wait()
        second = await fleet.add("gpu")
        second.employ("alice", Attentive())
        starts = Starts(second.runtime)
        hosting = first.runtime.supervisor.hosting
        assert hosting
        begun = time.perf_counter()
        if dies:
            await hosting._lease.close()  # no beat any more; whatever it does goes on
        else:
            first.runtime.supervisor.grace = 0.0
            await first.stop()
        taken = await starts.times.get() - begun
        if dies:
            first.runtime.supervisor.grace = 0.0
            hosting._lease = _Closed()  # type: ignore[assignment]
        return taken


class _Closed:
    async def close(self) -> None: ...


async def outages(folder: Path, tries: int) -> Figure:
    """The database is killed and started again, and a question that waited for it is answered."""
    found = []
    with open_cluster(SYNCED) as cluster:
        async with fleet_of(cluster, folder) as fleet:
            here, _ = await fleet.add("gpu"), await fleet.add("gpu")
            await until_idle(here, "alice")
            for n in range(tries):
                await asyncio.to_thread(cluster.stop)
                asked = asyncio.ensure_future(put_question(here.runtime, here.loaded, "alice", f"question {n}"))
                await asyncio.to_thread(cluster.start)
                begun = time.perf_counter()
                assert (await asked).state == "done"
                found.append(time.perf_counter() - begun)
    return _within("the database is back → a question that waited is answered, slowest", max(found), 1.0, found)


async def throughput(cluster: Cluster, folder: Path, hosts: int, questions: int) -> tuple[float, int]:
    """Answers in a second with so many hosts, each with a project of its own; and the deadlocks there were."""
    url = cluster.new_database()
    name = url.rpartition("/")[2]
    opened: list[tuple[Service, TestHost]] = []
    fleets = [Fleet(url, folder / f"load-{time.monotonic_ns()}-{n}") for n in range(hosts)]
    try:
        for each in fleets:
            write_project(each.root, ["alice", "bob"])
            host = await each.add()
            opened.append((host.service, host))
        begun = time.perf_counter()
        await asyncio.gather(
            *(
                put_question(host.runtime, host.loaded, ("alice", "bob")[n % 2], f"question {n}")
                for _, host in opened
                for n in range(questions)
            )
        )
        rate = hosts * questions / (time.perf_counter() - begun)
    finally:
        for each in fleets:
            for host in reversed(each.hosts):
                await host.stop()
    ((deadlocks,),) = cluster.run("select deadlocks from pg_stat_database where datname = %s", name)
    return rate, int(deadlocks)


async def loads(cluster: Cluster, folder: Path, questions: int) -> list[Figure]:
    rates = {hosts: await throughput(cluster, folder, hosts, questions) for hosts in (1, 2, 4)}
    one = rates[1][0]
    found = []
    for hosts, (rate, deadlocks) in rates.items():
        what = f"questions answered, {hosts} host{'s' if hosts > 1 else ''} in one process"
        said = f"1 host: {one:.0f}/s; {deadlocks} deadlocks"  # one process: more hosts share its processor
        found.append(Figure(what, f"{rate:.0f}/s", "", said, rate / one, "no deadlock", deadlocks == 0))
    return found


async def measure(folder: Path, *, small: bool) -> list[Figure]:
    tries = 3 if small else 30
    with open_cluster() as cluster:
        figures = [await first_steps(cluster, folder, 10 if small else 200)]
        figures += await handovers(cluster, folder, tries)
        figures += await loads(cluster, folder, 20 if small else 400)
    return [*figures, await outages(folder, min(tries, 10))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    parser.add_argument("--small", action="store_true", help="few tries: whether it works")
    options = parser.parse_args()
    folder, begun = Path(tempfile.mkdtemp(prefix="hosts-")), time.perf_counter()
    try:
        figures = asyncio.run(measure(folder, small=options.small))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(figures))
    if options.write:
        write_page(options.write, HEAD, figures, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
