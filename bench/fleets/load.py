"""Questions to one, two and four real daemons over one PostgreSQL, and to one over SQLite.

The clients, the daemons and the server share the processors: more daemons can be no faster than these allow. Afterwards
what is stored is counted: each question has one run that is done, one step, and one answer.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.postgresql import Cluster

from agent_worker.client.discovery import DATABASE_VARIABLE
from measures.figure import Figure, Series
from measures.teams import write_project
from soaking.house import House, Wire

AGENTS = 16
CLIENTS = 16
QUESTIONS = 160  # in each round
ROUNDS = 3
DAEMONS = (1, 2, 4)
NO_DROP = 0.9  # of what one daemon answers: less is no noise


@dataclass
class Arm:
    """Some daemons that have the same database."""

    houses: list[House]
    project: Path
    url: str = ""
    asked: int = 0
    series: Series = field(default_factory=Series)

    @classmethod
    async def begun(cls, folder: Path, daemons: int, url: str = "") -> Arm:
        project = write_project(folder / "project", {f"agent{n}": "" for n in range(AGENTS)})
        environ = {DATABASE_VARIABLE: url} if url else {}
        made = cls([House(folder / f"host-{n}", environ) for n in range(daemons)], project, url)
        for house in made.houses:
            house.home.mkdir(mode=0o700, parents=True)
            await house.start()
        for house in made.houses:
            wire = Wire(house)
            await wire.ask("GET", f"/status?project={project}")
            wire.close()
        return made

    async def round(self) -> None:
        wires = [Wire(self.houses[n % len(self.houses)]) for n in range(CLIENTS)]
        numbers = iter(range(self.asked, self.asked + QUESTIONS))
        self.asked += QUESTIONS
        with self.series.again():
            await asyncio.gather(*(self._ask(wire, numbers) for wire in wires))
        for wire in wires:
            wire.close()

    async def _ask(self, wire: Wire, numbers: Iterator[int]) -> None:
        for number in numbers:
            body = {"project": str(self.project), "agent": f"agent{number % AGENTS}", "message": f"question {number}"}
            told = await wire.ask("POST", "/ask", **body)
            assert told["state"] == "done", told

    @property
    def rate(self) -> float:
        return QUESTIONS / self.series.wall

    async def end(self) -> None:
        for house in self.houses:
            await house.end(signal.SIGTERM)


async def measure(cluster: Cluster, folder: Path) -> list[Figure]:
    alone = await Arm.begun(folder / "sqlite", 1)
    arms = {n: await Arm.begun(folder / f"postgresql-{n}", n, cluster.new_database()) for n in DAEMONS}
    try:
        for _ in range(ROUNDS + 1):  # the first of each also imports what it needs
            for arm in (alone, *arms.values()):
                await arm.round()
        for arm in (alone, *arms.values()):
            arm.series.all.pop(0)
    finally:
        for arm in (alone, *arms.values()):
            await arm.end()
    return [*(_figure(n, arm, arms[1], alone) for n, arm in arms.items()), _exact(cluster, arms.values())]


def _figure(daemons: int, arm: Arm, one: Arm, alone: Arm) -> Figure:
    what, share = f"questions answered, {daemons} daemon{'s' if daemons > 1 else ''}, one project", arm.rate / one.rate
    said = f"1 daemon: {one.rate:.0f}/s; SQLite, 1 daemon: {alone.rate:.0f}/s"
    return Figure(what, f"{arm.rate:.0f}/s", "", said, share, "no drop", share >= NO_DROP, NO_DROP / share)


def _exact(cluster: Cluster, arms: Sequence[Arm] | Iterator[Arm]) -> Figure:
    """Lost, doubled, or step rows too many; and deadlocks."""
    asked = wrong = deadlocks = 0
    for arm in arms:
        asked += arm.asked
        ((runs, questions, steps),) = cluster.run(
            """select (select count(*) from run where state = 'done'), (select count(distinct instruction) from run),
                      (select count(*) from step)""",
            at=arm.url,
        )
        wrong += abs(runs - arm.asked) + abs(questions - arm.asked) + abs(steps - arm.asked)
        name = arm.url.rpartition("/")[2]
        deadlocks += int(cluster.run("select deadlocks from pg_stat_database where datname = %s", name)[0][0])
    what = f"of {asked:,} questions lost, doubled, or with a step too many; deadlocks"
    return Figure(what, f"{wrong}; {deadlocks}", "", "", 0.0, "0; 0", not wrong and not deadlocks)
