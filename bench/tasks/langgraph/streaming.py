from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

host = create_react_agent(ChatOpenAI(model="fake"), [], prompt="You say hello.")
for chunk, _ in host.stream({"messages": [("user", "Hello?")]}, stream_mode="messages"):
    print(chunk.content, end="")
