"""CrewAI: `Agent.kickoff_async` for the adders, a crew of two with a task for every turn for the pair."""

from contest import LOOP_LIMIT, MODEL, PAIR, SYSTEM, TURNS, Arm, enter, task
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


@tool("add")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class CrewAi(Arm):
    def __init__(self):
        self.model = LLM(model=f"openai/{MODEL}")

    async def alone(self, steps):
        agent = self.agent("adder", tools=[add], max_iter=LOOP_LIMIT)
        return (await agent.kickoff_async(task(steps))).raw

    async def pair(self, opening):
        agents = [self.agent(name) for name in PAIR]
        told = [opening, *["Go on."] * (TURNS - 1)]
        tasks = [
            Task(description=text, expected_output="the next turn", agent=agents[n % 2]) for n, text in enumerate(told)
        ]
        return (await Crew(agents=agents, tasks=tasks).akickoff()).raw

    def agent(self, name, **more):
        return Agent(role=name, goal=SYSTEM, backstory=f"You are {name}.", llm=self.model, **more)


if __name__ == "__main__":
    enter(CrewAi)
