"""One to ten thousand instructions that wait for one agent: one more, the next, and whether anything is above them.

Work in lane normal is taken one by one, mentions are taken together, up to fifty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent_worker import identities, instructions, routing
from agent_worker.agents import assignments
from agent_worker.agents.assignments import Assignment, Terms
from agent_worker.events import Bus
from agent_worker.identities import Fence
from agent_worker.instructions import Ageing, Lane, Order
from agent_worker.limits import Limits
from agent_worker.storage.database import Transaction
from agent_worker.storage.sqlite import SqliteDatabase
from agent_worker.workflows import quiet
from agent_worker.workspaces import workspace
from curves.curve import Rounds, Topic, Work
from measures.posts import open_room

SIZES = (1, 10, 100, 1_000, 10_000)
TERMS = Terms("alice", "mock", "mock", Limits())
NOW = 1_000
ABOUT = "Work of one agent, and as many mentions of another. Each change is undone: the queue stays as long as it is."


class Undo(Exception):
    """The change was measured and is not wanted."""


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    queues = {size: await _queue(folder / f"{size}.db", size) for size in SIZES}
    for what, change in _CHANGES.items():
        works: dict[int, Work] = {size: partial(queue.undone, change) for size, queue in queues.items()}
        await rounds.run(what, works, rounds=5, calls=10)
    for queue in queues.values():
        await queue.database.close()
    return Topic("Queue", "waiting", ABOUT, rounds.curves(since={"taking 50 mentions, or all": 100}))


class Queue:
    """As much work as it is long: of alice, one by one; and of bob, who was mentioned as often."""

    def __init__(self, database: SqliteDatabase, room: str, alice: Fence, bob: Fence) -> None:
        self.database = database
        self.room = room
        self.alice = alice
        self.bob = bob

    async def undone(self, change: Callable[[Transaction, Queue], object]) -> None:
        def try_out(tx: Transaction) -> None:
            change(tx, self)
            raise Undo

        try:
            await self.database.write(try_out)
        except Undo:
            return


async def _queue(path: Path, size: int) -> Queue:
    database = await SqliteDatabase.open(path, Bus())
    room = await database.write(open_room, "alice", "bob")
    agents = await database.read(lambda tx: workspace.seated(tx, room))
    alice, bob = [await database.write(identities.claim, agents[name], "h_1") for name in ("alice", "bob")]
    await database.write(_fill, room, alice.agent, size)
    await database.write(_call, room, size)
    return Queue(database, room, alice, bob)


def _fill(tx: Transaction, room: str, agent: str, size: int) -> None:
    for number in range(size):
        order = Order(agent, f"work {number}", "workspace", "user", Lane.NORMAL, f"root{number}", workspace=room)
        instructions.put(tx, order, now=NOW)


def _call(tx: Transaction, room: str, size: int) -> None:
    for _ in range(size):
        routing.say(tx, routing.Speech(room, "user", "@bob look"), now=NOW)


def _take(tx: Transaction, fence: Fence) -> None:
    taken = assignments.begin(tx, fence, lambda _: TERMS, now=NOW, ageing=Ageing())
    assert isinstance(taken, Assignment)


_CHANGES: dict[str, Callable[[Transaction, Queue], object]] = {
    "a direct message": lambda tx, queue: routing.tell_agent(tx, queue.alice.agent, "hello", now=NOW),
    "a mention": lambda tx, queue: routing.say(tx, routing.Speech(queue.room, "user", "@bob look"), now=NOW),
    "taking the next": lambda tx, queue: _take(tx, queue.alice),
    "taking 50 mentions, or all": lambda tx, queue: _take(tx, queue.bob),
    "is there a higher lane?": lambda tx, queue: instructions.waiting_above(
        tx, queue.alice.agent, Lane.NORMAL, now=NOW, ageing=Ageing()
    ),
    "is the room quiet?": lambda tx, queue: quiet._look(tx, queue.room),
}
