from agent_worker import Agent, Team, local

writer = Agent("writer", "openai-chat/fake", "You are the writer. Hand the draft to @editor.")
editor = Agent("editor", "openai-chat/fake", "You are the editor. Print what you are given.")

with local() as workers:
    print(workers.run_sync(Team("paper", [writer, editor]), "@writer write about bees").text)
