"""pydantic-ai: `Agent.run`; the pair is two agents that are handed each other's words."""

from contest import MODEL, SYSTEM, Arm, add, enter, task
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel


class PydanticAi(Arm):
    def __init__(self):
        self.model = OpenAIChatModel(MODEL)

    async def alone(self, steps):
        agent = Agent(self.model, instructions=SYSTEM, tools=[add])
        result = await agent.run(task(steps), usage_limits=UsageLimits(request_limit=None))
        return result.output

    def speaker(self, name):
        agent = Agent(self.model, instructions=f"You are {name}.")

        async def speak(text):
            return (await agent.run(text)).output

        return speak


if __name__ == "__main__":
    enter(PydanticAi)
