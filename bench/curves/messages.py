"""A thousand to a million messages in a room: what is said, looked up, replayed and done there must not notice.

All rooms are open at once and asked in turns. `past.py` says what else happened in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent_worker.agents import briefing
from agent_worker.backends.mock import calls, says
from agent_worker.clock import micros
from agent_worker.compose import Engine
from agent_worker.service import runs, watching
from agent_worker.storage.database import Transaction
from agent_worker.workflows import summary
from agent_worker.workspaces import channel, inbox
from curves.curve import Rounds, Topic, Work
from curves.past import fill
from measures.lookups import job_in
from measures.posts import TEXT
from measures.teams import ask, open_team, say

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MEMBERS = 20
WARM = 8  # each of the readers has looked at what it is asked for
ABOUT = (
    "One room of 20 members; each has 20 open deliveries and has seen all but the last fifty messages. "
    "Every fourth message was the answer of a run that is still on record."
)


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    async with AsyncExitStack() as open_rooms:
        rooms = {size: await _room(open_rooms, folder / str(size), size) for size in SIZES}
        for what, make in _WORKS.items():
            works = {size: make(room) for size, room in rooms.items()}
            for work in works.values():
                for _ in range(WARM):
                    await work()
            await rounds.run(what, works, calls=10)
    return Topic("Messages", "messages", ABOUT, rounds.curves())


@dataclass(frozen=True, slots=True)
class Room:
    engine: Engine
    id: str
    project: str
    agents: dict[str, str]
    messages: int
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def read(self, query: Callable[[Transaction], object]) -> object:
        return await self.engine.stage.database.read(query)


async def _room(open_rooms: AsyncExitStack, folder: Path, size: int) -> Room:
    names = [f"agent{n}" for n in range(MEMBERS)]
    engine, instance = await open_rooms.enter_async_context(open_team(folder, dict.fromkeys(names, "")))
    fill(folder / "state.db", instance.id, size, members=MEMBERS)
    newest = await engine.stage.database.read(lambda tx: tx.all("select max(id) as id from event")[0]["id"])
    engine.stage.database._events = newest  # it counts by itself
    return Room(engine, instance.id, instance.admitted.id, dict(instance.members), size)


def _post(room: Room) -> Work:
    return lambda: say(room.engine, room.id, TEXT)


def _mention(room: Room) -> Work:
    async def work() -> None:
        room.engine.backends.mocks["agent0"].then(says(f"answer {next(room.numbers)}"))
        await ask(room.engine, room.id, f"@agent0 {TEXT}")

    return work


def _tool(room: Room) -> Work:
    async def work() -> None:
        sending = calls("channel_send", text=f"word {next(room.numbers)}")
        room.engine.backends.mocks["agent1"].then(sending, says("done"))
        await ask(room.engine, room.id, f"@agent1 {TEXT}")

    return work


def _reading(query: Callable[[Room], Callable[[Transaction], object]]) -> Callable[[Room], Work]:
    return lambda room: partial(room.read, query(room))


def _prompt(room: Room) -> Callable[[Transaction], object]:
    job, worker = job_in(room.id, room.agents["agent3"], room.messages)
    return lambda tx: briefing.gather(tx, job, worker, ())


def _replay(room: Room) -> Callable[[Transaction], object]:
    def query(tx: Transaction) -> object:
        newest = watching._kept(tx).newest
        return watching._page(tx, newest - 100, watching.Filter(workspace=room.id))

    return query


def _export(room: Room) -> Callable[[Transaction], object]:
    return lambda tx: channel.read(tx, room.id, since=room.messages // 2, limit=500)


def _inbox(room: Room) -> Callable[[Transaction], object]:
    return lambda tx: inbox.open_for(tx, room.agents["agent3"], room.id)


def _last_runs(room: Room) -> Callable[[Transaction], object]:
    return lambda tx: runs._runs(tx, room.project, {"agent": None, "state": None, "room": None}, 50)


def _summary(room: Room) -> Callable[[Transaction], object]:
    since = micros(room.engine.stage.clock.now())
    return lambda tx: summary.summarise(tx, room.id, since, "")


_WORKS: dict[str, Callable[[Room], Work]] = {
    "a post": _post,
    "a mention, and the run it causes": _mention,
    "the same with a tool that posts": _tool,
    "inbox, 20 open": _reading(_inbox),
    "all that a prompt is made of": _reading(_prompt),
    "the last 100 of the event stream": _reading(_replay),
    "tail: the last 100": _reading(lambda room: lambda tx: channel.last(tx, room.id, 100)),
    "export: 500 from the middle": _reading(_export),
    "the last 50 runs": _reading(_last_runs),
    "summary of a run that just began": _reading(_summary),
}
