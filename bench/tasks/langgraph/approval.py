from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt
from orders import refund as pay_back


def refund(order: int) -> str:
    """Pay an order back."""
    if not interrupt({"tool": "refund", "order": order}):
        return "the person said no"
    return pay_back(order)


clerk = create_react_agent(
    ChatOpenAI(model="fake"), [refund], prompt="You refund orders.", checkpointer=InMemorySaver()
)
config = {"configurable": {"thread_id": "1"}}
clerk.invoke({"messages": [("user", "Refund order 7.")]}, config)
print(clerk.invoke(Command(resume=True), config)["messages"][-1].content)
