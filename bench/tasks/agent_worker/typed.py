from city import City

from agent_worker import Agent, local

guide = Agent("guide", "openai-chat/fake", "You know cities.")

with local() as workers:
    print(workers.ask_sync(guide, "Which city is warm?", output=City).output.name)
