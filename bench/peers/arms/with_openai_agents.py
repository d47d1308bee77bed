"""OpenAI Agents SDK: `Runner.run`; the pair is two agents that are handed each other's words. Tracing is off."""

import asyncio
from contextlib import asynccontextmanager

from contest import LOOP_LIMIT, MODEL, PAIR, SYSTEM, enter, task

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled

set_tracing_disabled(True)
set_default_openai_api("chat_completions")


@function_tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class OpenaiAgents:
    async def alone(self, steps):
        agent = Agent(name="adder", instructions=SYSTEM, model=MODEL, tools=[add])
        result = await Runner.run(agent, task(steps), max_turns=LOOP_LIMIT)
        return result.final_output

    async def pair(self, opening):
        agents = [Agent(name=name, instructions=f"You are {name}.", model=MODEL) for name in PAIR]
        text = opening
        while "@" in text or text == opening:
            text = (await Runner.run(agents[0], text)).final_output
            agents.reverse()
        return text

    async def crowd(self, agents, steps):
        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))


@asynccontextmanager
async def arm():
    yield OpenaiAgents()


if __name__ == "__main__":
    enter(arm)
