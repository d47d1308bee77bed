from crewai import LLM, Agent, Crew, Task

model = LLM("openai/gpt-4o")
writer = Agent(role="writer", goal="Write a draft.", backstory="You are the writer.", llm=model)
editor = Agent(role="editor", goal="Print the draft.", backstory="You are the editor.", llm=model)
write = Task(description="write about bees", expected_output="a draft", agent=writer)
edit = Task(description="print the draft", expected_output="a page", agent=editor, context=[write])
print(Crew(agents=[writer, editor], tasks=[write, edit]).kickoff().raw)
