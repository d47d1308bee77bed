from pydantic_ai import Agent

editor = Agent("openai-chat:fake", instructions="You are the editor. Print what you are given.")
writer = Agent("openai-chat:fake", instructions="You are the writer. Hand the draft to the editor.")


@writer.tool_plain
async def transfer_to_editor(draft: str) -> str:
    """Hand the draft to the editor."""
    return (await editor.run(draft)).output


print(writer.run_sync("write about bees").output)
