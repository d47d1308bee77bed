from city import City
from pydantic_ai import Agent

guide = Agent("openai-chat:fake", instructions="You know cities.", output_type=City)
print(guide.run_sync("Which city is warm?").output.name)
