"""Durable posts: 32 writers through the product's door, against bare group commit of one row per change.

Both sync every commit in full, answer after it, and have one writer thread. The bare one has no savepoints, no
events, no second table: it is what the door could cost at best.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw

from agent_worker.core.events import Bus
from agent_worker.core.redaction import Redactor
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.database.sqlite import GROUP, SqliteDatabase
from agent_worker.work import agent_rows, project_rows
from agent_worker.work.project_rows import Checkout
from agent_worker.workspaces import routing, workspace_state
from measures.figure import Figure, Series, us

WRITERS = 32
EACH = 125
ROUNDS = 12
TEXT = ("The build is red since this morning; the parser test fails on the second run. " * 3)[:200]
PER_SECOND = 10_000
OF_RAW = 0.4


class RawGroupCommit:
    """One row per change, a commit per group."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "full")
        self._connection.execute("create table row(text text)")
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    async def put(self) -> None:
        answer: asyncio.Future[None] = self._loop.create_future()
        self._jobs.put(answer)
        await answer

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _write(self) -> None:
        while (job := self._jobs.get()) is not None:
            group = [job]
            while len(group) < GROUP and not self._jobs.empty() and (more := self._jobs.get()) is not None:
                group.append(more)
            self._connection.execute("begin immediate")
            for _ in group:
                self._connection.execute("insert into row(text) values (:text)", {"text": TEXT})
            self._connection.execute("commit")
            self._loop.call_soon_threadsafe(self._answer, group)
        self._connection.close()

    @staticmethod
    def _answer(group: list[asyncio.Future[None]]) -> None:
        for answer in group:
            answer.set_result(None)


async def open_workspace(database: SqliteDatabase, *members: str) -> tuple[ProjectDatabase, str]:
    """A project with one workspace, which has these members: what is stored of it, and the workspace's id."""
    stored = database.of(await database.write(project_rows.enrol, Checkout("/bench", "bench")))
    return stored, await stored.write(_open, members)


def _open(tx: Transaction, members: Sequence[str]) -> str:
    new = workspace_state.NewWorkspace(workflow="bench", provider="sqlite")
    workspace = workspace_state.open_workspace(tx, new, now=1)
    agents = {name: agent_rows.enrol(tx, name=name) for name in members}
    workspace_state.add_members(tx, workspace, agents)
    workspace_state.let_in(tx, workspace)
    return workspace


async def measure(folder: Path) -> list[Figure]:
    database = await SqliteDatabase.open(folder / "posts.db", Bus(), redact=Redactor())
    raw = RawGroupCommit(folder / "raw.db")
    stored, workspace = await open_workspace(database, "alice", "bob")
    plain, calling = (routing.OutgoingMessage(workspace, "user", text) for text in (TEXT, f"@alice {TEXT}"))

    async def rows() -> None:
        for _ in range(EACH):
            await raw.put()

    async def posts(speech: routing.OutgoingMessage) -> None:
        for number in range(EACH):
            await stored.write(routing.say, speech, now=number)

    bare, posted, called = Series(), Series(), Series()
    for _ in range(ROUNDS):
        with bare.again():
            await asyncio.gather(*(rows() for _ in range(WRITERS)))
        with posted.again():
            await asyncio.gather(*(posts(plain) for _ in range(WRITERS)))
        with called.again():
            await asyncio.gather(*(posts(calling) for _ in range(WRITERS)))
    await database.close()
    await raw.close()
    return [
        _figure(f"channel posts, {WRITERS} writers", posted, bare, wanted=True),
        _figure("the same with a mention: delivery and queue too", called, bare),
    ]


def _figure(what: str, ours: Series, bare: Series, *, wanted: bool = False) -> Figure:
    count = WRITERS * EACH
    rate, ratio = count / ours.wall, bare.cpu / ours.cpu
    return Figure(
        what,
        f"{rate:,.0f}/s; {count / ours.cpu:,.0f} per CPU second",
        f"{us(ours.cpu / count)} a post",
        f"bare group commit: {count / bare.wall:,.0f}/s, {us(bare.cpu / count)} a row",
        ratio,
        f"≥ {PER_SECOND:,}/s or ≥ {OF_RAW} of it" if wanted else "",
        rate >= PER_SECOND or ratio >= OF_RAW if wanted else None,
        min(PER_SECOND / rate, OF_RAW / ratio) if wanted else None,
        cost=ours.cpu / count,
    )
