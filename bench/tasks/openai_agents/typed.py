from city import City

from agents import Agent, Runner

guide = Agent(name="guide", model="fake", instructions="You know cities.", output_type=City)
print(Runner.run_sync(guide, "Which city is warm?").final_output.name)
