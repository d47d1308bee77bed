from sums import add

from agents import Agent, Runner, function_tool

adder = Agent(name="adder", model="fake", instructions="You add numbers.", tools=[function_tool(add)])
print(Runner.run_sync(adder, "What is 2 + 3?").final_output)
