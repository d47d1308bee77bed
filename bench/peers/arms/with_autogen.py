"""AutoGen: `AssistantAgent.run`; the pair is a round-robin group chat."""

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient
from contest import LOOP_LIMIT, MODEL, PAIR, SYSTEM, TURNS, Arm, add, enter, task


class Autogen(Arm):
    def __init__(self):
        self.model = OpenAIChatCompletionClient(model=MODEL)

    async def __aexit__(self, *_):
        await self.model.close()

    async def alone(self, steps):
        agent = AssistantAgent("adder", self.model, tools=[add], system_message=SYSTEM, max_tool_iterations=LOOP_LIMIT)
        return (await agent.run(task=task(steps))).messages[-1].to_text()

    async def pair(self, opening):
        agents = [AssistantAgent(name, self.model, system_message=f"You are {name}.") for name in PAIR]
        team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(TURNS + 1))
        return (await team.run(task=opening)).messages[-1].to_text()


if __name__ == "__main__":
    enter(Autogen)
