"""Agno: `Agent.arun`; the pair is two agents that are handed each other's words. Telemetry is off."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from contest import MODEL, SYSTEM, Arm, add, enter, task


class Agno(Arm):
    def __init__(self):
        self.model = OpenAIChat(id=MODEL)

    async def alone(self, steps):
        agent = Agent(model=self.model, instructions=SYSTEM, tools=[add], telemetry=False)
        return (await agent.arun(task(steps))).content

    def speaker(self, name):
        agent = Agent(name=name, model=self.model, instructions=f"You are {name}.", telemetry=False)

        async def speak(text):
            return (await agent.arun(text)).content

        return speak


if __name__ == "__main__":
    enter(Agno)
