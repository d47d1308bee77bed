"""pydantic-ai: `Agent.run`; the pair is two agents that are handed each other's words."""

import asyncio
from contextlib import asynccontextmanager

from contest import MODEL, PAIR, SYSTEM, enter, task
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class PydanticAi:
    def __init__(self):
        self.model = OpenAIChatModel(MODEL)

    async def alone(self, steps):
        agent = Agent(self.model, instructions=SYSTEM, tools=[add])
        result = await agent.run(task(steps), usage_limits=UsageLimits(request_limit=None))
        return result.output

    async def pair(self, opening):
        agents = [Agent(self.model, instructions=f"You are {name}.") for name in PAIR]
        text = opening
        while "@" in text or text == opening:
            text = (await agents[0].run(text)).output
            agents.reverse()
        return text

    async def crowd(self, agents, steps):
        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))


@asynccontextmanager
async def arm():
    yield PydanticAi()


if __name__ == "__main__":
    enter(arm)
