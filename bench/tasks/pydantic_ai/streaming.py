import asyncio

from pydantic_ai import Agent

host = Agent("openai-chat:fake", instructions="You say hello.")


async def main():
    async with host.run_stream("Hello?") as result:
        async for text in result.stream_text(delta=True):
            print(text, end="")


asyncio.run(main())
