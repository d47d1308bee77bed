"""Ours, through the Python API in its ordinary durable form: SQLite in a file, every step synced before the next."""

import asyncio
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

from contest import AGENTS, LOOP_LIMIT, MODEL, PAIR, STEPS, SYSTEM, TURNS, enter, task

from agent_worker import Agent, NewMessage, Team, local


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(name):
    return Agent(name, f"openai-chat/{MODEL}", SYSTEM, tools=[add], more={"max_steps": LOOP_LIMIT, "auto_memory": False})


ADDERS = {steps: adder(f"adder{steps}") for steps in (0, 1, STEPS)}
TALK = Team("talk", [Agent(name, f"openai-chat/{MODEL}", SYSTEM) for name in PAIR])
CROWD = [adder(f"agent{n}") for n in range(AGENTS)]


class AgentWorker:
    def __init__(self, workers, folder):
        self.workers = workers
        self.folder = folder

    async def alone(self, steps):
        return await asked(self.workers, ADDERS[steps], steps)

    async def pair(self, opening):
        team = await self.workers.start(TALK)
        events = await team.events()
        await team.send(f"@{PAIR[0]} {opening}")
        async for event in events:
            if isinstance(event, NewMessage) and f"turn {TURNS} of" in event.text:
                return event.text

    async def crowd(self, agents, steps):
        async with local(home=self.folder / "crowd") as workers:
            await workers.add(*CROWD[:agents])
            return await asyncio.gather(*(asked(workers, agent, steps) for agent in CROWD[:agents]))


async def asked(workers, agent, steps):
    return (await workers.ask(agent, task(steps))).text


@asynccontextmanager
async def arm():
    with tempfile.TemporaryDirectory(prefix="peers-") as place:
        folder = Path(place)
        async with local(home=folder / "home") as workers:
            yield AgentWorker(workers, folder)


if __name__ == "__main__":
    enter(arm)
