from pydantic_ai import Agent
from sums import add

adder = Agent("openai-chat:fake", instructions="You add numbers.", tools=[add])
print(adder.run_sync("What is 2 + 3?").output)
