"""One tiny piece of work that shows what a backend can do here: reach our tools, stream, tell costs, go on later.

The model is asked to call one tool of ours and to repeat what it said; then, in a second run of the same work, to say
it again. What is told is what was seen, not what a manual promises.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import field
from typing import Any

from agent_worker.backends.backend import Backend, Finished, PastStep, Reply, Turn, Usage
from agent_worker.core.errors import BackendFailure
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.tools.tool import Call, Result, RunIdentity, ToolSpec

ECHO = ToolSpec(
    "echo",
    "Returns the word it is given, with a second word.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"], "additionalProperties": False},
)
FIRST = "Call the tool echo with the word ready. Then answer with exactly what it returned, and nothing else."
AGAIN = "Answer once more with exactly what the tool echo returned, without calling it again."
SYSTEM = "You are being tested. Do exactly what you are asked, in as few words as possible."

Invite = Callable[["ProbeSink"], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a backend did when it was tried."""

    works: bool
    reason: str = ""  #: why not
    tools: bool = False  #: it called a tool of ours
    streams: bool = False  #: its text came in pieces
    resumes: bool = False  #: a second run went on with the first one's conversation
    tokens: bool = False  #: it told how many it used
    cost: bool = False  #: and what they cost
    seconds: float = 0.0  #: of the first run


@dataclass(slots=True)
class ProbeSink:
    """The step sink of a run that no agent has: nothing is stored, and there is one tool."""

    charge: Callable[[Usage], None]
    run: str = field(default_factory=lambda: new_id("r"))
    word: str = field(default_factory=lambda: secrets.token_hex(4))
    pieces: int = 0
    called: bool = False
    kept: list[PastStep] = field(default_factory=list)

    @property
    def identity(self) -> RunIdentity:
        return RunIdentity(agent="", name="probe", project="", run=self.run, root="", hop=0)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return (ECHO,)

    @property
    def step(self) -> int:
        return len(self.kept)

    def say(self, text: str) -> None:
        self.pieces += 1

    def show(self, call: Call, result: Result | None = None) -> None:
        pass

    def preface(self, text: str) -> None:
        pass

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def spent(self, usage: Usage) -> None:
        self.charge(usage)

    async def keep(self, step: int, reply: Reply) -> None:
        self.charge(reply.usage)
        self.kept.append(PastStep(reply))

    async def call(self, step: int, call: Call) -> Result:
        if call.tool != ECHO.name:
            return Result(f"there is no tool {call.tool}; there is {ECHO.name}", ok=False)
        self.called = True
        return Result(f"{call.arguments.get('word', '')} {self.word}")


async def probe(backend: Backend, invite: Invite, charge: Callable[[Usage], None], *, model: str = "") -> ProbeResult:
    """What a backend can do. `charge` is told of everything that it uses."""
    first = ProbeSink(charge)
    began = time.monotonic()
    try:
        reply = await _work(backend, invite, first, _turn(first, FIRST, model))
    except BackendFailure as failure:
        return ProbeResult(False, failure.message, tools=first.called)
    took = time.monotonic() - began
    second = ProbeSink(charge, word=first.word)
    past = (*first.kept, PastStep(reply))
    try:
        again = await _work(backend, invite, second, _turn(second, AGAIN, model, past))
        resumes = first.word in again.text and not second.called
    except BackendFailure:
        resumes = False
    return ProbeResult(
        works=first.called,
        reason="" if first.called else "it answered, but did not call the tool it was asked to call",
        tools=first.called,
        streams=first.pieces > 1,
        resumes=resumes,
        tokens=reply.usage.tokens > 0,
        cost=reply.usage.usd is not None,
        seconds=round(took, 1),
    )


def _turn(guest: ProbeSink, prompt: str, model: str, past: tuple[PastStep, ...] = ()) -> Turn:
    return Turn(run=guest.run, system=SYSTEM, prompt=prompt, tools=guest.specs, past=past, model=model)


async def _work(backend: Backend, invite: Invite, guest: ProbeSink, turn: Turn) -> Reply:
    with invite(guest):
        work: Any = backend.work(turn, guest)
        try:
            async for outcome in work:
                if isinstance(outcome, Finished):
                    guest.charge(outcome.reply.usage)
                    return outcome.reply
        finally:
            await work.aclose()
    raise BackendFailure("it ended without an answer")
