from crewai import LLM, Agent, Crew, Task

host = Agent(role="host", goal="Say hello.", backstory="You say hello.", llm=LLM("openai/gpt-4o"))
task = Task(description="Hello?", expected_output="a greeting", agent=host)
streaming = Crew(agents=[host], tasks=[task], stream=True).kickoff()
for chunk in streaming:
    print(chunk.content, end="")
