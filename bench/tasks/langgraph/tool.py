from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.prebuilt import create_react_agent
from sums import add

with SqliteSaver.from_conn_string("state.db") as saver:
    adder = create_react_agent(ChatOpenAI(model="fake"), [add], prompt="You add numbers.", checkpointer=saver)
    config = {"configurable": {"thread_id": "sum"}}
    begun = adder.get_state(config).next
    question = None if begun else {"messages": [("user", "What is 2 + 3?")]}
    print(adder.invoke(question, config, durability="sync")["messages"][-1].content)
