"""The step loop of every backend whose tools run in our process: ask the model, keep the answer, make its calls.

The answer is stored before any call is made and each call's result as it comes, so after a crash the work
goes on in the middle of a step without asking the model, or making a finished call, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from typing import Any

from agent_worker.backends.backend import Finished, Model, Outcome, PastStep, Reply, StepSink, Turn, Unfinished
from agent_worker.core.errors import Exhausted
from agent_worker.core.text import plural
from agent_worker.tools.tool import Result


class ToolLoop:
    def __init__(self, model: Model) -> None:
        self._model = model

    async def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        steps = list(turn.past)
        if steps and _cut_off(steps[-1]):
            last = len(steps) - 1
            reply = steps[last].reply
            steps[last] = _past(reply, await _all_ended(*_calls(sink, last, reply)))
            yield Unfinished(last)
        while len(steps) < turn.max_steps:
            number = len(steps)
            async with sink.asking():
                reply = (await self._model.reply(turn, steps, sink)).storable
            if not reply.calls and not reply.more:
                yield Finished(number, reply)
                return
            # Asked for in one breath, stored in this order: the answer is on disk before a call reaches outside, and
            # a call that only stores something is in the same commit.
            _, *results = await _all_ended(sink.keep(number, reply), *_calls(sink, number, reply))
            steps.append(_past(reply, results))
            yield Unfinished(number)
        raise Exhausted(
            f"stopped after {plural(turn.max_steps, 'step')} (max_steps)",
            hint="say 'continue', or raise max_steps",
        )

    async def close(self) -> None:
        pass


def _cut_off(step: PastStep) -> bool:
    return any(call.id not in step.results for call in step.reply.calls)


def _calls(sink: StepSink, step: int, reply: Reply) -> Iterator[Awaitable[Result]]:
    return (sink.call(step, call) for call in reply.calls)


def _past(reply: Reply, results: Sequence[Result]) -> PastStep:
    return PastStep(reply, {call.id: result for call, result in zip(reply.calls, results, strict=True)})


async def _all_ended(*awaited: Awaitable[Any]) -> list[Any]:
    """Wait for all tasks, then raise the first error: what raised must not leave its neighbours running alone."""
    results = await asyncio.gather(*awaited, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
