"""What a step costs us: CPU per step with a model that answers at once, from the first step to the four hundredth.

    uv run python bench/model_step.py [--write docs/figures/model-step.md]

The baseline is the least a loop could do with the same library: the same request, streamed to its end, without our
messages, tools and stored form. Also how long the event loop stands still while the model library is imported.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agent_worker.backends.backend import Reply, Turn
from agent_worker.backends.models.model_api import Catalogue, ModelApi
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.tools.tool import Call, Result, ToolSpec
from measures.figure import Figure, middle, ms, table, us, write_page

STEPS = 400
RUNS = 7
MOST = 0.001  # seconds a step
MOST_GROWTH = 1.5
WINDOWS = {"steps 1–20": slice(0, 20), "steps 91–110": slice(90, 110), "steps 381–400": slice(380, 400)}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TURN = Turn(
    run="bench",
    system="You add numbers.",
    prompt="Add until told to stop.",
    tools=tuple(ToolSpec(f"add{n}", "Add two numbers.", SCHEMA) for n in range(10)),
    model="bench/zero",
    max_steps=STEPS,
)
HEAD = """# What a step with a model costs

Written by `uv run python bench/model_step.py --write docs/figures/model-step.md`; \
[how to read it](../../bench/README.md).

The model answers at once and nothing is stored: what is left is the loop, the messages and the model library.
"""


class Idle:
    """A sink that stores nothing."""

    def say(self, text: str) -> None:
        pass

    def show(self, call: Call, result: Result | None = None) -> None:
        pass

    async def keep(self, step: int, reply: Reply) -> None:
        pass

    async def call(self, step: int, call: Call) -> Result:
        return Result("3")


def zero_latency_model() -> Any:
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    async def answer(messages: list[Any], info: Any) -> AsyncIterator[Any]:
        step = len(messages)
        yield "Let me add. "
        yield {1: DeltaToolCall(name="add0", json_args='{"a": 1, "b": 2}', tool_call_id=f"c{step}")}

    return FunctionModel(stream_function=answer)


async def our_run(api: ModelApi) -> list[float]:
    """CPU seconds of every step."""
    steps: list[float] = []
    before = time.thread_time()
    try:
        async for _ in ToolLoop(api).work(TURN, Idle()):
            now = time.thread_time()
            steps.append(now - before)
            before = now
    except Exception:  # the loop ends by running out of steps
        if len(steps) < STEPS:
            raise
    return steps


async def bare_run(model: Any) -> list[float]:
    """The same steps by the library alone."""
    from pydantic_ai import direct
    from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, ToolReturnPart, UserPromptPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=t.name, description=t.description, parameters_json_schema=t.schema) for t in TURN.tools
    ]
    offered = ModelRequestParameters(function_tools=tools, allow_text_output=True)
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(TURN.prompt)], instructions=TURN.system)]
    steps: list[float] = []
    for _ in range(STEPS):
        before = time.thread_time()
        async with direct.model_request_stream(model, history, model_request_parameters=offered) as stream:
            async for _ in stream:
                pass
        reply = stream.get()
        results = [ToolReturnPart(p.tool_name, "3", p.tool_call_id) for p in reply.parts if isinstance(p, ToolCallPart)]
        history += [reply, ModelRequest(parts=results, instructions=TURN.system)]
        steps.append(time.thread_time() - before)
    return steps


async def longest_stop(catalogue: Catalogue) -> float:
    """Seconds for which nothing else could run while the library was imported."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.005)
            longest = max(longest, time.perf_counter() - before - 0.005)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.02)
    await catalogue.warm()
    ticking.cancel()
    return longest


async def measure() -> list[Figure]:
    catalogue = Catalogue({})
    before = time.process_time()
    stop = await longest_stop(catalogue)
    imported = time.process_time() - before
    model = zero_latency_model()
    await catalogue.add(TURN.model, model)
    api = ModelApi(catalogue)
    await our_run(api)  # warm up
    ours, bare = [], []
    for _ in range(RUNS):
        ours.append(await our_run(api))
        bare.append(await bare_run(model))
    return [*_steps(ours, bare), _import(imported, stop)]


def _steps(ours: list[list[float]], bare: list[list[float]]) -> list[Figure]:
    """The best run of each is the one that others on this machine disturbed least."""
    figures, first = [], 0.0
    for name, window in WINDOWS.items():
        us_, them = (min(middle(run[window]) for run in runs) for runs in (ours, bare))
        first = first or us_
        worst = max(us_ / MOST, us_ / first / MOST_GROWTH)
        figures.append(
            Figure(
                name,
                f"{us_ / first:.2f} of the first",
                us(us_),
                f"the library alone: {us(them)} CPU",
                us_ / them,
                f"≤ {ms(MOST)} CPU and ≤ {MOST_GROWTH} of the first",
                worst <= 1,
                worst,
                cost=us_,
            )
        )
    return figures


def _import(cpu: float, stop: float) -> Figure:
    waited = f"nothing else runs for {ms(stop)} at most"
    return Figure("import of the model library", waited, "", f"the import: {ms(cpu)} CPU", stop / cpu, cost=cpu)


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
