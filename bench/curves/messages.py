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
from agent_worker.database.database import Transaction, WholeTransaction
from agent_worker.database.sqlite import SqliteDatabase
from agent_worker.definitions.script import ScriptEntry
from agent_worker.service import events, runs
from agent_worker.workflows import summary
from agent_worker.workflows.instance import Instance
from agent_worker.workspaces import channel, deliveries
from curves.curve import Rounds, Topic, Work
from curves.past import fill
from measures.lookups import job_in
from measures.posts import TEXT
from measures.teams import ask, open_team, say, script

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MEMBERS = 20
ROUNDS, CALLS = 5, 10
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
            await rounds.run(what, works, rounds=ROUNDS, calls=CALLS)
    return Topic("Messages", "messages", ABOUT, rounds.curves())


@dataclass(frozen=True, slots=True)
class Room:
    team: Instance
    messages: int
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def id(self) -> str:
        return self.team.id

    @property
    def project(self) -> str:
        return self.team.loaded.id

    def then(self, agent: str, *entries: ScriptEntry) -> None:
        script(self.team, agent, *entries)


async def _workspace(open_workspaces: AsyncExitStack, folder: Path, size: int) -> Room:
    names = [f"agent{n}" for n in range(MEMBERS)]
    team = await open_workspaces.enter_async_context(open_team(folder, dict.fromkeys(names, "")))
    database = team.runtime.database
    assert isinstance(database, SqliteDatabase)
    await database.write(fill, team.loaded.id, team.id, size, members=MEMBERS)
    database._events = (await database.read(events._kept)).newest  # it counts by itself
    return Room(team, size)


def _post(workspace: Room) -> Work:
    return lambda: say(workspace.team, TEXT)


def _mention(workspace: Room) -> Work:
    async def work() -> None:
        workspace.then("agent0", says(f"answer {next(workspace.numbers)}"))
        await ask(workspace.team, f"@agent0 {TEXT}")

    return work


def _tool(workspace: Room) -> Work:
    async def work() -> None:
        sending = calls("channel_send", text=f"word {next(workspace.numbers)}")
        workspace.then("agent1", sending, says("done"))
        await ask(workspace.team, f"@agent1 {TEXT}")

    return work


def _reading(query: Callable[[Room], Callable[[Transaction], object]]) -> Callable[[Room], Work]:
    return lambda workspace: partial(workspace.team.database.read, query(workspace))


def _prompt(workspace: Room) -> Callable[[Transaction], object]:
    job, worker = job_in(workspace.project, workspace.id, workspace.team.members["agent3"], workspace.messages)
    return lambda tx: prompt_data.gather(tx, job, worker)


def _replay(workspace: Room) -> Work:
    """As a stream reads, which may be about all projects."""

    def query(tx: WholeTransaction) -> object:
        newest = events._kept(tx).newest
        return events._page(tx, newest - 100, events.Filter(workspace=workspace.id))

    return partial(workspace.team.runtime.database.read, query)


def _export(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: channel.read(tx, workspace.id, since=workspace.messages // 2, limit=500)


def _inbox(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: deliveries.open_for(tx, workspace.team.members["agent3"], workspace.id)


def _last_runs(workspace: Room) -> Callable[[Transaction], object]:
    return lambda tx: runs._runs(tx, {"agent": None, "state": None, "workspace": None}, 50)


def _summary(workspace: Room) -> Callable[[Transaction], object]:
    since = workspace.team.runtime.clock.micros()
    return lambda tx: summary.summarise(tx, workspace.id, since, "")


_WORKS: dict[str, Callable[[Room], Work]] = {
    "a post": _post,
    "a mention, and the run it causes": _mention,
    "the same with a tool that posts": _tool,
    "inbox, 20 open": _reading(_inbox),
    "all that a prompt is made of": _reading(_prompt),
    "the last 100 of the event stream": _replay,
    "tail: the last 100": _reading(lambda workspace: lambda tx: channel.last(tx, workspace.id, 100)),
    "export: 500 from the middle": _reading(_export),
    "the last 50 runs": _reading(_last_runs),
    "summary of a run that just began": _reading(_summary),
}
