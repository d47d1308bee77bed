from agent_worker import Agent, TextChunk, local

host = Agent("host", "openai-chat/fake", "You say hello.")

with local() as workers:
    for event in workers.stream_sync(host, "Hello?"):
        if isinstance(event, TextChunk):
            print(event.text, end="")
