"""What a step over HTTP costs us: CPU with a model that answers at once, from the first step to the four hundredth.

    uv run python bench/model_step.py [--write docs/figures/model-step.md]

The model is a process of its own on loopback. Beside it, in the same run: the same requests by hand, with nothing but
the HTTP client and JSON; and by the library that one would take instead, with the vendor's library below it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from agent_worker.backends.backend import Reply, Turn, Usage
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.models.model_client import ModelAddress, ModelClient
from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.errors import Exhausted
from agent_worker.core.outbound import NOT_TOO_LONG
from agent_worker.tools.tool import Call, Result, ToolSpec
from measures.figure import Figure, middle, ms, table, us, write_page

STEPS = 400
THEIR_STEPS = 110  # theirs grow with the conversation, and take long
RUNS = 5
MOST = 0.003  # seconds a step
MODEL = "gpt-5"
WINDOWS = {"steps 1–20": slice(0, 20), "steps 91–110": slice(90, 110), "steps 381–400": slice(380, 400)}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TURN = Turn(
    run="bench",
    system="You add numbers, one after the other. " * 100,
    prompt="Add until told to stop.",
    tools=tuple(ToolSpec(f"add{n}", "Add two numbers.", SCHEMA) for n in range(26)),
    model=f"openai-chat/{MODEL}",
    max_steps=STEPS,
)
HEAD = """# What a step with a model costs

Written by `uv run python bench/model_step.py --write docs/figures/model-step.md`; \
[how to read it](../../bench/README.md).

CPU of the whole client process, all threads, for one step over HTTP: a request with 26 tools, a system text of 4 kB and
all steps before it, its streamed answer, and one call. The model is another process and answers at once; nothing is
stored. A request grows with the steps before it, so a step may grow as much as one by hand. *By hand* is the same
request with the HTTP client and JSON alone; *pydantic-ai* has OpenAI's library below it.
"""
Steps = list[float]


class Idle:
    """A sink that stores nothing."""

    def say(self, text: str) -> None:
        pass

    def show(self, call: Call, result: Result | None = None) -> None:
        pass

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def spent(self, usage: Usage) -> None:
        pass

    async def keep(self, step: int, reply: Reply) -> None:
        pass

    async def call(self, step: int, call: Call) -> Result:
        return Result("3")


@asynccontextmanager
async def model_server() -> AsyncIterator[str]:
    """The address of a model that asks for a tool at every step."""
    command = [sys.executable, "-m", "tests.fakes.model_server", "--port", "0"]
    root = Path(__file__).parents[1]
    server = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=root)
    assert server.stdout is not None
    await server.stdout.readline()
    base = (await server.stdout.readline()).decode().split()[-1].removesuffix("/m/ok/v1")
    try:
        yield f"{base}/m/loop/v1"
    finally:
        server.terminate()
        await server.wait()


async def our_run(url: str) -> Steps:
    """CPU seconds of every step."""
    catalogue = Catalogue({"KEY": "k"}, approval=Approval(local=True))
    api = ModelApi(catalogue, Endpoint("openai-chat", url, "$KEY"))
    await catalogue.prices.of("openai-chat", MODEL)  # looked up once, and not part of a step
    steps: Steps = []
    before = time.process_time()
    try:
        async for _ in ToolLoop(api).work(TURN, Idle()):
            now = time.process_time()
            steps.append(now - before)
            before = now
    except Exhausted:  # it ends by running out of steps
        pass
    await catalogue.close()
    return steps


async def run_by_hand(url: str) -> Steps:
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
        for t in TURN.tools
    ]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": TURN.system},
        {"role": "user", "content": TURN.prompt},
    ]
    steps: Steps = []
    client, address = ModelClient({}, NOT_TOO_LONG), ModelAddress(url, is_checked=False)
    for _ in range(STEPS):
        before = time.process_time()
        body = json.dumps({"model": MODEL, "messages": messages, "tools": tools, "stream": True}).encode()
        async with client.post(address, "/chat/completions", {}, body) as reply:
            answer = b"".join([chunk async for chunk in reply.chunks()])
        calls: list[dict[str, Any]] = []
        for line in answer.split(b"\n"):
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:])["choices"]
                for part in (choices[0]["delta"].get("tool_calls") or []) if choices else []:
                    if "id" in part:
                        calls.append(part | {"function": dict(part["function"])})
                    else:
                        calls[-1]["function"]["arguments"] += part["function"]["arguments"]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "3"} for call in calls]
        steps.append(time.process_time() - before)
    await client.close()
    return steps


async def their_run(url: str) -> Steps:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.tools import ToolDefinition

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="k"))
    tools = [
        ToolDefinition(name=t.name, description=t.description, parameters_json_schema=t.schema) for t in TURN.tools
    ]
    offered = ModelRequestParameters(function_tools=tools, allow_text_output=True)
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(TURN.prompt)], instructions=TURN.system)]
    steps: Steps = []
    for _ in range(THEIR_STEPS):
        before = time.process_time()
        async with model.request_stream(history, None, offered) as stream:
            async for _ in stream:
                pass
        reply = stream.get()
        results = [ToolReturnPart(p.tool_name, "3", p.tool_call_id) for p in reply.parts if isinstance(p, ToolCallPart)]
        history += [reply, ModelRequest(parts=results, instructions=TURN.system)]
        steps.append(time.process_time() - before)
    return steps


ARMS: dict[str, Callable[[str], Awaitable[Steps]]] = {"ours": our_run, "by hand": run_by_hand, "theirs": their_run}


async def measure() -> list[Figure]:
    taken: dict[str, list[Steps]] = {name: [] for name in ARMS}
    async with model_server() as url:
        for arm in ARMS.values():
            await arm(url)  # warm up
        for _ in range(RUNS):
            for name, arm in ARMS.items():
                taken[name].append(await arm(url))
    return list(_figures(taken))


def _figures(taken: dict[str, list[Steps]]) -> list[Figure]:
    """The best run of each is the one that others on this machine disturbed least."""
    figures, first = [], (0.0, 0.0)
    for name, window in WINDOWS.items():
        ours, by_hand = (min(middle(run[window]) for run in taken[arm]) for arm in ("ours", "by hand"))
        theirs = min((middle(run[window]) for run in taken.get("theirs", ()) if run[window]), default=None)
        first = first if any(first) else (ours, by_hand)
        growth, allowed = ours / first[0], by_hand / first[1]
        worst = max(ours / MOST, growth / max(allowed, 1))
        beside = f"by hand: {us(by_hand)} CPU" + (f"; pydantic-ai: {us(theirs)}" if theirs else "")
        target = f"≤ {ms(MOST)} CPU, and growing no more than by hand ({allowed:.2f})"
        said = f"{growth:.2f} of the first"
        figures.append(Figure(name, said, us(ours), beside, ours / by_hand, target, worst <= 1, worst, cost=ours))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="also write the page here")
    options = parser.parse_args()
    begun = time.perf_counter()
    figures = asyncio.run(measure())
    print(table(figures))
    if options.write:
        write_page(options.write, HEAD, figures, time.perf_counter() - begun)


if __name__ == "__main__":
    main()
