from orders import refund

from agent_worker import Agent, local, tool

clerk = Agent("clerk", "openai-chat/fake", "You refund orders.", tools=[tool(approve=True)(refund)])

with local() as workers:
    answer = workers.ask_sync(clerk, "Refund order 7.")
    answer.questions[0].approve_sync()
    print(answer.go_on_sync().text)
