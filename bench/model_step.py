"""What a step costs us: CPU per step with a model that answers at once, from the first step to the four hundredth.

Also how long the event loop stands still while the model library is imported. Run: `uv run python bench/model_step.py`.
Trust the CPU time and the ratio, not the wall time. Targets: at most 1 ms per step, at most 1.5 times at step 400.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from agent_worker.backends.backend import Reply, Turn
from agent_worker.backends.model_api import Catalogue, ModelApi
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.tools.tool import Call, Result, ToolSpec

STEPS = 400
RUNS = 7
TARGET_US = 1000
TARGET_RATIO = 1.5
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
TURN = Turn(
    run="bench",
    system="You add numbers.",
    prompt="Add until told to stop.",
    tools=tuple(ToolSpec(f"add{n}", "Add two numbers.", SCHEMA) for n in range(10)),
    model="bench/zero",
    max_steps=STEPS,
)


class Idle:
    """Hands that store nothing."""

    def say(self, text: str) -> None:
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


async def one_run(api: ModelApi) -> list[float]:
    """CPU microseconds of every step."""
    steps: list[float] = []
    before = time.thread_time()
    try:
        async for _ in ToolLoop(api).work(TURN, Idle()):
            now = time.thread_time()
            steps.append((now - before) * 1e6)
            before = now
    except Exception as end:  # the loop ends by running out of steps
        if len(steps) < STEPS:
            raise end
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


async def main() -> None:
    catalogue = Catalogue({})
    before = time.process_time()
    stop = await longest_stop(catalogue)
    print(f"import of the model library: {time.process_time() - before:.1f} s CPU, longest stop {stop * 1e3:.0f} ms")

    await catalogue.add(TURN.model, zero_latency_model())
    api = ModelApi(catalogue)
    await one_run(api)  # warm up
    runs = [await one_run(api) for _ in range(RUNS)]
    early = report("steps 1-20", runs, 0, 20)
    report("steps 91-110", runs, 90, 110)
    late = report("steps 381-400", runs, 380, 400)
    verdict = "met" if late <= TARGET_US and late / early <= TARGET_RATIO else "MISSED"
    print(f"ratio {late / early:.2f}; target {TARGET_US} µs and {TARGET_RATIO}: {verdict}")


def report(name: str, runs: list[list[float]], start: int, end: int) -> float:
    medians = [statistics.median(run[start:end]) for run in runs]
    # The best run is the one that others on this machine disturbed least.
    print(f"{name:14} {min(medians):6.0f} µs CPU per step  (worst run {max(medians):.0f})")
    return min(medians)


if __name__ == "__main__":
    asyncio.run(main())
