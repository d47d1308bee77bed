from sums import add

from agent_worker import Agent, local

adder = Agent("adder", "openai-chat/fake", "You add numbers.", tools=[add])

with local(home="state") as workers:
    print(workers.ask_sync(adder, "What is 2 + 3?", key="sum").text)
