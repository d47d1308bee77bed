from crewai import LLM, Agent
from crewai.tools import tool
from sums import add

adder = Agent(role="adder", goal="Add numbers.", backstory="", llm=LLM("openai/gpt-4o"), tools=[tool("add")(add)])
print(adder.kickoff("What is 2 + 3?").raw)
