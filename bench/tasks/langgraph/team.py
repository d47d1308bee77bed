from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent

model = ChatOpenAI(model="fake")
writer = create_react_agent(model, [], prompt="You are the writer. Hand the draft to the editor.", name="writer")
editor = create_react_agent(model, [], prompt="You are the editor. Print what you are given.", name="editor")
graph = StateGraph(MessagesState)
graph.add_node("writer", writer)
graph.add_node("editor", editor)
graph.add_edge(START, "writer")
graph.add_edge("writer", "editor")
graph.add_edge("editor", END)
team = graph.compile()
print(team.invoke({"messages": [("user", "write about bees")]})["messages"][-1].content)
