import asyncio

from openai.types.responses import ResponseTextDeltaEvent

from agents import Agent, Runner

host = Agent(name="host", model="fake", instructions="You say hello.")


async def main():
    result = Runner.run_streamed(host, "Hello?")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
            print(event.data.delta, end="")


asyncio.run(main())
