"""The step loop of every backend whose tools run in our process: ask the model, keep the answer, make its calls.

The answer is stored before any call is made and each call's result as it comes, so after a crash the work
goes on in the middle of a step without asking the model, or making a finished call, again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

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
            await hands.keep(number, reply)
            steps.append(await _call_all(hands, number, reply))
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
    results = await asyncio.gather(*(hands.call(step, call) for call in reply.calls), return_exceptions=True)
    for result in results:  # only now: a call that raised must not leave its neighbours running alone
        if isinstance(result, BaseException):
            raise result
    return PastStep(reply, {call.id: result for call, result in zip(reply.calls, results, strict=True)})  # type: ignore[misc]
