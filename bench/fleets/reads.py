"""What a run looks up before it begins, in a channel of a million messages: PostgreSQL beside SQLite.

Both hold the same rows: one was moved to the other. Both are asked as a daemon asks them, in turns: by a thread, in a
transaction of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

from tests.postgresql import Cluster

from agent_worker.agents import prompt_data
from agent_worker.core.events import Bus
from agent_worker.database.database import Database, Transaction
from agent_worker.database.postgres import PostgresDatabase
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.database.transfer import to_postgres
from agent_worker.workspaces import channel, deliveries, member_rows
from measures.figure import Figure, Series, us
from measures.lookups import AGENTS, fill, job_in
from measures.posts import open_workspace

MESSAGES = 1_000_000
CALLS = 50
ROUNDS = 7
AT_MOST = 1.5
NOTHING = "`select 1`: what any read costs"

Read = Callable[[], Coroutine[None, None, object]]


async def measure(cluster: Cluster, folder: Path) -> list[Figure]:
    path, url = folder / "reads.db", cluster.new_database()
    sqlite = await SqliteDatabase.open(path, Bus())
    stored, workspace = await open_workspace(sqlite, *(f"agent{n}" for n in range(AGENTS)))
    agent = min((await stored.read(member_rows.members_in, workspace)).values())
    await sqlite.close()
    fill(path, stored.project, workspace, MESSAGES)
    begun = time.perf_counter()
    rows = to_postgres(path, url, lambda _: "", lambda _: {})
    moved = time.perf_counter() - begun
    cluster.run("vacuum analyze", at=url)  # as autovacuum does within a minute
    there, here = await PostgresDatabase.open(url, Bus()), await SqliteDatabase.open(path, Bus())
    try:
        figures = [
            await _compare(what, _read(there, stored.project, query), _read(here, stored.project, query))
            for what, query in _queries(stored.project, workspace, agent).items()
        ]
    finally:
        await there.close()
        await here.close()
    what, count = f"`db migrate`, {MESSAGES:,} messages", sum(rows.values())
    return [*figures, Figure(what, f"{moved:.0f} s", "", f"{count:,} rows, {count / moved:,.0f}/s", moved)]


def _queries(project: str, workspace: str, agent: str) -> dict[str, Callable[[Transaction], object]]:
    job, worker = job_in(project, workspace, agent, MESSAGES)
    return {
        NOTHING: _nothing,
        "inbox, 20 open": partial(deliveries.open_for, agent=agent, workspace=workspace),
        "last 50 of the channel": partial(channel.last, workspace=workspace, count=50),
        "all that a prompt is made of": partial(prompt_data.gather, job=job, worker=worker),
    }


def _nothing(tx: Transaction) -> object:
    return tx.one("select 1 as one")


def _read(database: Database, project: str, query: Callable[[Transaction], object]) -> Read:
    return lambda: database.of(project).read(query)


async def _compare(what: str, ours: Read, theirs: Read) -> Figure:
    postgres, sqlite = Series(), Series()
    for _ in range(ROUNDS):
        for read, series in (ours, postgres), (theirs, sqlite):
            with series.again():
                for _ in range(CALLS):
                    await read()
    ratio = postgres.wall / sqlite.wall
    return Figure(
        f"{what}, at {MESSAGES:,} messages",
        us(postgres.wall / CALLS),
        us(postgres.cpu / CALLS),
        f"SQLite: {us(sqlite.wall / CALLS)}, {us(sqlite.cpu / CALLS)} CPU",
        ratio,
        *((f"≤ {AT_MOST:g} × SQLite", ratio <= AT_MOST, ratio / AT_MOST) if what != NOTHING else ()),
    )
