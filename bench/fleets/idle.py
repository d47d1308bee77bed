"""Ten thousand agents with nothing to do, on one of the hosts that share a PostgreSQL: what they cost beside none.

Run as a program it is that host: `python -m fleets.idle COUNT SECONDS FOLDER URL` prints its CPU as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.database.database import WholeTransaction
from agent_worker.service.background import begin, share
from agent_worker.service.service import Service
from measures.child import child
from measures.figure import Figure, measured, ms
from measures.teams import write_project

if TYPE_CHECKING:  # the process that is measured is started where there are no tests
    from tests.postgresql import Cluster

AGENTS = 10_000
SECONDS = 20.0
SETTLED = 3.0  # seconds after the start
MOST = 0.01  # of one processor, beyond what a host without agents takes
PER_SECOND = 1.0  # transactions, beyond those of a host without agents


async def measure(cluster: Cluster, folder: Path) -> list[Figure]:
    none, many = [await _cost(cluster, folder / f"{count}", count) for count in (0, AGENTS)]
    cpu, work = (many["cpu"] - none["cpu"]) / SECONDS, (many["work"] - none["work"]) / SECONDS
    what = f"{AGENTS:,} idle agents on a host"
    return [
        Figure(
            f"{what}, transactions beyond the heartbeat's",
            f"{max(work, 0.0):.1f}/s",
            "",
            f"no agents: {none['work'] / SECONDS:.1f}/s",
            many["work"] / none["work"],
            f"≤ {PER_SECOND:g}/s",
            work <= PER_SECOND,
            max(work, 0.0) / PER_SECOND,
        ),
        Figure(
            f"{what}, a second",
            "",
            ms(many["cpu"] / SECONDS),
            f"no agents: {ms(none['cpu'] / SECONDS)}",
            many["cpu"] / max(none["cpu"], 1e-6),
            f"≤ {MOST:.0%} of a processor more",
            cpu <= MOST,
            max(cpu, 0.0) / MOST,
        ),
    ]


async def _cost(cluster: Cluster, folder: Path, count: int) -> dict[str, float]:
    return await child("fleets.idle", count, SECONDS, folder, cluster.new_database())


async def be_idle(count: int, seconds: float, folder: Path, url: str) -> dict[str, float]:
    write_project(folder, {f"agent{n}": "" for n in range(count)})
    async with open_runtime(RuntimeSettings(database=url)) as runtime:
        service = Service(runtime)
        share(service)
        begin(service)
        await service.project(str(folder))
        await asyncio.sleep(SETTLED)
        before = await runtime.database.read(_transactions)
        with measured() as spent:
            await asyncio.sleep(seconds)
        work = await runtime.database.read(_transactions) - before
        await service.close()
    return {"cpu": spent.cpu, "work": work}


def _transactions(tx: WholeTransaction) -> int:
    row = tx.one("select xact_commit + xact_rollback as n from pg_stat_database where datname = current_database()")
    return int(row["n"]) if row else 0


if __name__ == "__main__":
    _, agents, length, place, where = sys.argv
    print(json.dumps(asyncio.run(be_idle(int(agents), float(length), Path(place), where))))
