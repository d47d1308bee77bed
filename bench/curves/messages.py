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

from agent_worker.agents import prompt_data
from agent_worker.backends.mock import calls, says
from agent_worker.database.database import Transaction
from agent_worker.service import events, runs
from agent_worker.workflows import summary
from agent_worker.workflows.runtime import Runtime
from agent_worker.workspaces import channel, deliveries
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
    async with AsyncExitStack() as open_workspaces:
        workspaces = {size: await _workspace(open_workspaces, folder / str(size), size) for size in SIZES}
        for what, make in _WORKS.items():
            works = {size: make(workspace) for size, workspace in workspaces.items()}
            for work in works.values():
                for _ in range(WARM):
                    await work()
            await rounds.run(what, works, calls=10)
    return Topic("Messages", "messages", ABOUT, rounds.curves())


@dataclass(frozen=True, slots=True)
class Room:
    runtime: Runtime
    id: str
    project: str
    agents: dict[str, str]
    messages: int
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def read(self, query: Callable[[Transaction], object]) -> object:
        return await self.runtime.database.read(query)


async def _workspace(open_workspaces: AsyncExitStack, folder: Path, size: int) -> Room:
    names = [f"agent{n}" for n in range(MEMBERS)]
    runtime, instance = await open_workspaces.enter_async_context(open_team(folder, dict.fromkeys(names, "")))
    fill(folder / "state.db", instance.id, size, members=MEMBERS)
    newest = await runtime.database.read(lambda tx: tx.all("select max(id) as id from event")[0]["id"])
    runtime.database._events = newest  # it counts by itself
    return Room(runtime, instance.id, instance.loaded.id, dict(instance.members), size)


def _post(workspace: Room) -> Work:
    return lambda: say(workspace.runtime, workspace.id, TEXT)


def _mention(workspace: Room) -> Work:
    async def work() -> None:
        workspace.runtime.backends.mocks["agent0"].then(says(f"answer {next(workspace.numbers)}"))
        await ask(workspace.runtime, workspace.id, f"@agent0 {TEXT}")

    return work


def _tool(workspace: Room) -> Work:
    async def work() -> None:
        sending = calls("channel_send", text=f"word {next(workspace.numbers)}")
        workspace.runtime.backends.mocks["agent1"].then(sending, says("done"))
        await ask(workspace.runtime, workspace.id, f"@agent1 {TEXT}")

    return work


def _reading(query: Callable[[Room], Callable[[Transaction], object]]) -> Callable[[Room], Work]:
    return lambda workspace: partial(workspace.read, query(workspace))


def _prompt(workspace: Room) -> Callable[[Transaction], object]:
    job, worker = job_in(workspace.id, workspace.agents["agent3"], workspace.messages)
    return lambda tx: prompt_data.gather(tx, job, worker, ())


def _replay(workspace: Room) -> Callable[[Transaction], object]:
    def query(tx: Transaction) -> object:
        newest = events._kept(tx).newest
        return events._page(tx, newest - 100, events.Filter(workspace=workspace.id))

    return query


def _export(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: channel.read(tx, workspace.id, since=workspace.messages // 2, limit=500)


def _inbox(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: deliveries.open_for(tx, workspace.agents["agent3"], workspace.id)


def _last_runs(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: runs._runs(tx, workspace.project, {"agent": None, "state": None, "room": None}, 50)


def _summary(workspace: Room) -> Callable[[Transaction], object]:
    since = workspace.runtime.clock.micros()
    return lambda tx: summary.summarise(tx, workspace.id, since, "")


_WORKS: dict[str, Callable[[Room], Work]] = {
    "a post": _post,
    "a mention, and the run it causes": _mention,
    "the same with a tool that posts": _tool,
    "inbox, 20 open": _reading(_inbox),
    "all that a prompt is made of": _reading(_prompt),
    "the last 100 of the event stream": _reading(_replay),
    "tail: the last 100": _reading(lambda workspace: lambda tx: channel.last(tx, workspace.id, 100)),
    "export: 500 from the middle": _reading(_export),
    "the last 50 runs": _reading(_last_runs),
    "summary of a run that just began": _reading(_summary),
}
