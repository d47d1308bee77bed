"""AutoGen: `AssistantAgent.run`; the pair is a round-robin group chat."""

import asyncio
from contextlib import asynccontextmanager

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient
from contest import LOOP_LIMIT, MODEL, PAIR, SYSTEM, TURNS, enter, task


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Autogen:
    def __init__(self, model):
        self.model = model

    async def alone(self, steps):
        agent = AssistantAgent("adder", self.model, tools=[add], system_message=SYSTEM, max_tool_iterations=LOOP_LIMIT)
        return (await agent.run(task=task(steps))).messages[-1].to_text()

    async def pair(self, opening):
        agents = [AssistantAgent(name, self.model, system_message=f"You are {name}.") for name in PAIR]
        team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(TURNS + 1))
        return (await team.run(task=opening)).messages[-1].to_text()

    async def crowd(self, agents, steps):
        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))


@asynccontextmanager
async def arm():
    model = OpenAIChatCompletionClient(model=MODEL)
    yield Autogen(model)
    await model.close()


if __name__ == "__main__":
    enter(arm)
