"""The step loop of every backend whose tools run in our process: ask the model, keep the answer, make its calls.

The answer is stored before any call is made and each call's result as it comes, so after a crash the work
goes on in the middle of a step without asking the model, or making a finished call, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from agent_worker.backends.backend import Finished, Hands, Model, Outcome, PastStep, Reply, Turn, Unfinished
from agent_worker.errors import Exhausted


class ToolLoop:
    def __init__(self, model: Model) -> None:
        self._model = model

    async def work(self, turn: Turn, hands: Hands) -> AsyncGenerator[Outcome]:
        steps = list(turn.past)
        if steps and _cut_off(steps[-1]):
            last = len(steps) - 1
            steps[last] = await _call_all(hands, last, steps[last].reply)
            yield Unfinished(last)
        while len(steps) < turn.max_steps:
            number = len(steps)
            reply = (await self._model.reply(turn, steps, hands)).storable
            if not reply.calls and not reply.more:
                yield Finished(number, reply)
                return
            # Asked for together, stored in this order: the answer is on disk before a call reaches outside, and
            # a call that only stores something is in the same commit.
            _, step = _all_or_first_error(
                await asyncio.gather(hands.keep(number, reply), _call_all(hands, number, reply), return_exceptions=True)
            )
            steps.append(step)
            yield Unfinished(number)
        raise Exhausted(
            f"stopped after {turn.max_steps} steps (max_steps)",
            hint="say «continue» to go on, or raise max_steps",
        )

    async def close(self) -> None:
        pass


def _cut_off(step: PastStep) -> bool:
    return any(call.id not in step.results for call in step.reply.calls)


async def _call_all(hands: Hands, step: int, reply: Reply) -> PastStep:
    results = _all_or_first_error(
        await asyncio.gather(*(hands.call(step, call) for call in reply.calls), return_exceptions=True)
    )
    return PastStep(reply, {call.id: result for call, result in zip(reply.calls, results, strict=True)})


def _all_or_first_error(results: Sequence[Any]) -> Sequence[Any]:
    """Only when all have ended: what raised must not leave its neighbours running alone."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results
