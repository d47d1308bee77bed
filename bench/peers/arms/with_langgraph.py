"""LangGraph: `create_agent` for the adders, a graph of two nodes for the pair. Stores nothing."""

import asyncio

from contest import LOOP_LIMIT, MODEL, PAIR, SYSTEM, Arm, add, enter, task
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

ADD = tool(add)


class LangGraph(Arm):
    def __init__(self, checkpointer=None, **options):
        self.model = ChatOpenAI(model=MODEL)
        self.checkpointer = checkpointer
        self.options = options  # of every run

    async def alone(self, steps, name="alone"):
        agent = create_agent(self.model, tools=[ADD], system_prompt=SYSTEM, checkpointer=self.checkpointer)
        return await self.run(agent, task(steps), f"{name}{steps}")

    async def pair(self, opening):
        ping, pong = PAIR
        graph = StateGraph(MessagesState)
        graph.add_node(ping, self.node(ping))
        graph.add_node(pong, self.node(pong))
        graph.add_edge(START, ping)
        graph.add_conditional_edges(ping, next_speaker, [pong, END])
        graph.add_conditional_edges(pong, next_speaker, [ping, END])
        return await self.run(graph.compile(checkpointer=self.checkpointer), opening, "pair")

    async def crowd(self, agents, steps):
        return await asyncio.gather(*(self.alone(steps, f"agent{n}-") for n in range(agents)))

    def node(self, name):
        async def speak(state):
            reply = await self.model.ainvoke([("system", f"You are {name}."), *state["messages"]])
            return {"messages": [reply]}

        return speak

    async def run(self, graph, text, thread):
        config = {"recursion_limit": 2 * LOOP_LIMIT, "configurable": {"thread_id": thread}}
        state = await graph.ainvoke({"messages": [{"role": "user", "content": text}]}, config, **self.options)
        return state["messages"][-1].content


def next_speaker(state):
    said = state["messages"][-1].content
    return next((name for name in PAIR if f"@{name}" in said), END)


if __name__ == "__main__":
    enter(LangGraph)
