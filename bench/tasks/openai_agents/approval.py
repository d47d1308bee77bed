from orders import refund

from agents import Agent, Runner, function_tool

clerk = Agent(
    name="clerk",
    model="fake",
    instructions="You refund orders.",
    tools=[function_tool(refund, needs_approval=True)],
)
result = Runner.run_sync(clerk, "Refund order 7.")
state = result.to_state()
for interruption in result.interruptions:
    state.approve(interruption)
print(Runner.run_sync(clerk, state).final_output)
