"""What a person tries out is told as spent, all of it: each answer, and each that came to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.backends.programs.probe import probe
from agent_worker.backends.tool_loop import ToolLoop
from agent_worker.core.errors import Transient
from agent_worker.tools.tool import Call

ONE = Usage(input=10, output=1, usd=0.01)


class Echoing:
    """Calls the tool, says what it returned, and breaks off in the middle of the second run."""

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if turn.past:
            sink.spent(ONE)
            raise Transient("it broke off")
        if not steps:
            return Reply(calls=(Call("c1", turn.tools[0].name, {"word": "hello"}),), usage=ONE)
        return Reply(steps[0].results["c1"].text, usage=ONE)


async def test_all_that_the_test_of_a_backend_uses_is_charged() -> None:
    charged: list[Usage] = []
    seen = await probe(ToolLoop(Echoing()), lambda guest: nullcontext(), charged.append)
    assert (seen.works, seen.tokens, seen.cost, seen.resumes) == (True, True, True, False)
    assert charged == [ONE, ONE, ONE]
