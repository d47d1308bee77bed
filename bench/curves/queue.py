"""One to ten thousand instructions that wait for one agent: one more, the next, and whether anything is above them.

Work in lane normal is taken one by one, mentions are taken together, up to fifty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent_worker.agents import run_begin
from agent_worker.agents.run_begin import Assignment, Terms
from agent_worker.core.events import Bus
from agent_worker.database.database import ProjectDatabase, Transaction
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.work import agent_rows, queue
from agent_worker.work.agent_rows import Fence
from agent_worker.work.limits import WorkLimits
from agent_worker.work.queue import Ageing, Lane, Order
from agent_worker.workflows import quiet
from agent_worker.workspaces import member_rows, routing
from curves.curve import Rounds, Topic, Work
from measures.posts import open_workspace

SIZES = (1, 10, 100, 1_000, 10_000)
ROUNDS, CALLS = 5, 10
TERMS = Terms("alice", "mock", "mock", WorkLimits())
NOW = 1_000
ABOUT = "Work of one agent, and as many mentions of another. Each change is undone: the queue stays as long as it is."


class Undo(Exception):
    """The change was measured and is not wanted."""


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    queues = {size: await _queue(folder / f"{size}.db", size) for size in SIZES}
    for what, change in _CHANGES.items():
        works: dict[int, Work] = {size: partial(filled.undone, change) for size, filled in queues.items()}
        await rounds.run(what, works, rounds=ROUNDS, calls=CALLS)
    for filled in queues.values():
        await filled.database.close()
    return Topic("Queue", "waiting", ABOUT, rounds.curves(since={"taking 50 mentions, or all": 100}))


class Queue:
    """As much work as it is long: of alice, one by one; and of bob, who was mentioned as often."""

    def __init__(
        self, database: SqliteDatabase, stored: ProjectDatabase, workspace: str, alice: Fence, bob: Fence
    ) -> None:
        self.database = database
        self.stored = stored
        self.workspace = workspace
        self.alice = alice
        self.bob = bob

    async def undone(self, change: Callable[[Transaction, Queue], object]) -> None:
        def try_out(tx: Transaction) -> None:
            change(tx, self)
            raise Undo

        try:
            await self.stored.write(try_out)
        except Undo:
            return


async def _queue(path: Path, size: int) -> Queue:
    database = await SqliteDatabase.open(path, Bus())
    stored, workspace = await open_workspace(database, "alice", "bob")
    agents = await stored.read(member_rows.members_in, workspace)
    alice, bob = [await stored.write(agent_rows.claim, agents[name], "h_1") for name in ("alice", "bob")]
    await stored.write(_fill, workspace, alice.agent, size)
    await stored.write(_call, workspace, size)
    return Queue(database, stored, workspace, alice, bob)


def _fill(tx: Transaction, workspace: str, agent: str, size: int) -> None:
    for number in range(size):
        order = Order(agent, f"work {number}", "workspace", "user", Lane.NORMAL, f"root{number}", workspace=workspace)
        queue.put(tx, order, now=NOW)


def _call(tx: Transaction, workspace: str, size: int) -> None:
    for _ in range(size):
        routing.say(tx, routing.OutgoingMessage(workspace, "user", "@bob look"), now=NOW)


def _take(tx: Transaction, fence: Fence) -> None:
    taken = run_begin.begin(tx, fence, lambda _: TERMS, now=NOW, ageing=Ageing())
    assert isinstance(taken, Assignment)


_CHANGES: dict[str, Callable[[Transaction, Queue], object]] = {
    "a direct message": lambda tx, filled: routing.tell_agent(tx, filled.alice.agent, "hello", now=NOW),
    "a mention": lambda tx, filled: routing.say(
        tx, routing.OutgoingMessage(filled.workspace, "user", "@bob look"), now=NOW
    ),
    "taking the next": lambda tx, filled: _take(tx, filled.alice),
    "taking 50 mentions, or all": lambda tx, filled: _take(tx, filled.bob),
    "is there a higher lane?": lambda tx, filled: queue.waiting_above(
        tx, filled.alice.agent, Lane.NORMAL, now=NOW, ageing=Ageing()
    ),
    "is the room quiet?": lambda tx, filled: quiet._look(tx, filled.workspace),
}
