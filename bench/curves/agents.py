"""One to a thousand agents: what they weigh, how long a start takes, what a message to one of them costs.

Each number of agents is a process of its own: `python -m curves.agents COUNT FOLDER` prints its costs as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psutil

from agent_worker import routing
from agent_worker.clock import micros
from agent_worker.compose import Engine, Settings, open_engine
from agent_worker.definitions.project import load_project
from agent_worker.events import Ended
from agent_worker.workflows import instance
from curves.curve import Curve, Topic
from measures.figure import Series, measured
from measures.posts import TEXT
from measures.teams import write_project

SIZES = (1, 10, 100, 1_000)
ROUNDS = 2
MENTIONS, POSTS = 20, 50
BENCH = Path(__file__).parents[1]
LINEAR = ("memory when idle", "start of the engine, all agents known", "start of a workflow with all of them")


async def measure(folder: Path) -> Topic:
    taken: dict[str, dict[int, list[float]]] = {}
    for round in range(ROUNDS):
        for size in SIZES:
            for what, cost in (await _child(folder / f"{size}-{round}", size)).items():
                taken.setdefault(what, {}).setdefault(size, []).append(cost)
    curves = [
        Curve(
            what,
            {size: min(costs) for size, costs in by_size.items()},
            "linear" if what in LINEAR else "flat",
            "MB" if "memory" in what else "time",
        )
        for what, by_size in taken.items()
    ]
    return Topic("Agents", "agents", "All are in one room and idle, each with its loop.", curves)


async def _child(folder: Path, count: int) -> dict[str, float]:
    command = (sys.executable, "-m", "curves.agents", str(count), str(folder))
    done = await asyncio.to_thread(subprocess.run, command, cwd=BENCH, check=True, stdout=subprocess.PIPE, timeout=120)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


async def costs(count: int, folder: Path) -> dict[str, float]:
    root = write_project(folder, {f"agent{n}": "" for n in range(count)})
    settings = Settings(database=root / "state.db")
    async with open_engine(settings) as engine:  # the first time enrols them
        await engine.stage.roster.admit(load_project(root))
    with measured() as started:
        context = open_engine(settings)
        engine = await context.__aenter__()
        admitted = await engine.stage.roster.admit(load_project(root))
    try:
        with measured() as opened:
            begin = instance.Start(admitted.project.workflows["review"])
            room = (await instance.start(engine.stage, admitted, begin)).id
        for agent in admitted.agents.values():
            engine.stage.supervisor.wake(agent)
        await asyncio.sleep(0.2 + count / 500)  # until all have looked into their queues
        weight = psutil.Process().memory_info().rss / 1e6
        mention, post = Series(), Series()
        for number in range(MENTIONS):
            with mention.again():
                await _ask(engine, room, f"@agent0 what about {number}?")
            with post.again():
                for _ in range(POSTS):
                    await _say(engine, room, TEXT)
    finally:
        await context.__aexit__(None, None, None)
    least = {what: min(spent.cpu for spent in series.all) for what, series in (("mention", mention), ("post", post))}
    return {
        "memory when idle": weight,
        "start of the engine, all agents known": started.cpu,
        "start of a workflow with all of them": opened.cpu,
        "a mention of one, and its run": least["mention"],
        "a post with everybody in the room": least["post"] / POSTS,
    }


async def _ask(engine: Engine, room: str, text: str) -> None:
    with engine.stage.bus.subscribe(lambda event: isinstance(event, Ended)) as ended:
        await _say(engine, room, text)
        await anext(ended)


async def _say(engine: Engine, room: str, text: str) -> None:
    speech = routing.Speech(room, "user", text)
    await engine.stage.database.write(routing.say, speech, now=micros(engine.stage.clock.now()))


if __name__ == "__main__":
    _, agents, place = sys.argv
    print(json.dumps(asyncio.run(costs(int(agents), Path(place)))))
