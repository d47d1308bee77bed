from city import City
from crewai import LLM, Agent

guide = Agent(role="guide", goal="Know cities.", backstory="You know cities.", llm=LLM("openai/gpt-4o"))
print(guide.kickoff("Which city is warm?", response_format=City).pydantic.name)
