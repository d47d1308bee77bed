"""No library at all: the loop written by hand over an HTTP client. What every arm pays at least."""

import asyncio
import json
import os

import httpx2
from contest import MODEL, SYSTEM, Arm, enter, task

NUMBER = {"type": "integer"}
SCHEMA = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
TOOL = {"type": "function", "function": {"name": "add", "description": "Add two numbers.", "parameters": SCHEMA}}


def add(a: int, b: int) -> int:
    return a + b


class ByHand(Arm):
    def __init__(self):
        base = os.environ["OPENAI_BASE_URL"].rstrip("/") + "/"
        limits = httpx2.Limits(max_connections=None)
        self.client = httpx2.AsyncClient(base_url=base, timeout=60, limits=limits)

    async def __aexit__(self, *_):
        await self.client.aclose()

    async def alone(self, steps):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task(steps)}]
        while calls := (reply := await self.ask(messages)).get("tool_calls"):
            messages.append(reply)
            for call in calls:
                result = add(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        return reply["content"]

    def speaker(self, name):
        system = {"role": "system", "content": f"You are {name}."}

        async def speak(text):
            return (await self.ask([system, {"role": "user", "content": text}]))["content"]

        return speak

    async def crowd(self, agents, steps):  # as that of all, but written here asyncio counts as an import of its own
        return await asyncio.gather(*(self.alone(steps) for _ in range(agents)))

    async def ask(self, messages):
        body = {"model": MODEL, "messages": messages, "tools": [TOOL]}
        answer = await self.client.post("chat/completions", json=body)
        return answer.json()["choices"][0]["message"]


if __name__ == "__main__":
    enter(ByHand)
