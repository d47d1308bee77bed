from agents import Agent, Runner

editor = Agent(name="editor", model="fake", instructions="You are the editor. Print what you are given.")
writer = Agent(
    name="writer",
    model="fake",
    instructions="You are the writer. Hand the draft to the editor.",
    handoffs=[editor],
)
print(Runner.run_sync(writer, "write about bees").final_output)
