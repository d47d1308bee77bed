"""Agno: `Agent.arun`; the pair is two agents that are handed each other's words. Telemetry is off."""

import asyncio
from contextlib import asynccontextmanager

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from contest import MODEL, PAIR, SYSTEM, enter, task


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Agno:
    def __init__(self):
        self.model = OpenAIChat(id=MODEL)

    async def alone(self, steps):
        agent = Agent(model=self.model, instructions=SYSTEM, tools=[add], telemetry=False)
        return (await agent.arun(task(steps))).content

    async def pair(self, opening):
        agents = [Agent(name=n, model=self.model, instructions=f"You are {n}.", telemetry=False) for n in PAIR]
        text = opening
        while "@" in text or text == opening:
            text = (await agents[0].arun(text)).content
            agents.reverse()
        return text

    async def crowd(self, agents, steps):
        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))


@asynccontextmanager
async def arm():
    yield Agno()


if __name__ == "__main__":
    enter(arm)
