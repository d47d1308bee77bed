from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from orders import refund

clerk = Agent(
    role="clerk",
    goal="Refund orders.",
    backstory="You refund orders.",
    llm=LLM("openai/gpt-4o"),
    tools=[tool("refund")(refund)],
)
task = Task(description="Refund order 7.", expected_output="what was done", agent=clerk, human_input=True)
print(Crew(agents=[clerk], tasks=[task]).kickoff().raw)
