"""Two to a thousand agents: what they weigh, how long a start takes, what a message to one of them costs.

Each number of agents is a process of its own: `python -m curves.agents COUNT MENTIONS POSTS FOLDER` prints its costs
as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.definitions.project_files import load_project
from agent_worker.workflows import start
from curves.curve import Rounds, Topic
from measures.child import child
from measures.figure import Series, measured
from measures.posts import TEXT
from measures.teams import ask, say, write_project

SIZES = (2, 10, 100, 1_000)  # of one alone every post is a question
ROUNDS = 2
MENTIONS, POSTS = 20, 50
ABOUT = "All are in one room and idle, each with its loop."
MEMORY = "memory when idle"
LINEAR = (MEMORY, "start of the runtime, all agents known", "start of a workflow with all of them")


async def measure(folder: Path) -> Topic:
    rounds = Rounds()
    for round in range(ROUNDS):
        for size in SIZES:
            found = await child("curves.agents", size, MENTIONS, POSTS, folder / f"{size}-{round}")
            for what, cost in found.items():
                rounds.note(what, size, cost)
    return Topic("Agents", "agents", ABOUT, rounds.curves(linear=LINEAR, megabytes=(MEMORY,)))


async def costs(count: int, mentions: int, posts: int, folder: Path) -> dict[str, float]:
    root = write_project(folder, {f"agent{n}": "" for n in range(count)})
    settings = RuntimeSettings(database=root / "state.db")
    async with open_runtime(settings) as runtime:  # the first time enrols them
        await runtime.loader.load(load_project(root))
    async with AsyncExitStack() as stack:
        with measured() as started:
            runtime = await stack.enter_async_context(open_runtime(settings))
            loaded = await runtime.loader.load(load_project(root))
        with measured() as opened:
            begin = start.Start(loaded.project.workflows["review"])
            team = await start.start(runtime, loaded, begin)
        for agent in loaded.agents.values():
            runtime.supervisor.wake(agent)
        await asyncio.sleep(0.2 + count / 500)  # until all have looked into their queues
        weight = psutil.Process().memory_info().rss / 1e6
        mention, post = Series(), Series()
        for number in range(mentions):
            with mention.again():
                await ask(team, f"@agent0 what about {number}?")
            with post.again():
                for _ in range(posts):
                    await say(team, TEXT)
    return {
        MEMORY: weight,
        "start of the runtime, all agents known": started.cpu,
        "start of a workflow with all of them": opened.cpu,
        "a mention of one, and its run": min(spent.cpu for spent in mention.all),
        "a post with everybody in the room": min(spent.cpu for spent in post.all) / posts,
    }


if __name__ == "__main__":
    _, agents, called, posted, place = sys.argv
    print(json.dumps(asyncio.run(costs(int(agents), int(called), int(posted), Path(place)))))
