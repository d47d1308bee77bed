"""What does a step, and how it talks to whoever asked. Knows no queue, no channel, no agent, no database.

`work` is an async generator: every value it yields ends one step, and between two values the loop may stop
asking; what is kept then is what `StepSink.keep` and `StepSink.call` were told. A `Model` is the smaller interface
under the backends whose tools run in our process (tool_loop.py): it answers once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from typing import Any, Protocol

from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass
from agent_worker.tools.tool import Call, Result, ToolSpec


@dataclass(frozen=True, slots=True)
class Usage:
    input: int = 0
    cached: int = 0  #: of the input, read from the provider's cache
    output: int = 0
    usd: float | None = None  #: None when the backend does not know the price
    guessed: bool = False  #: nobody told the tokens: they were counted by the length of texts

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def is_nothing(self) -> bool:
        return not self.tokens and not self.usd

    def plus(self, more: Usage) -> Usage:
        """The usage of two answers together."""
        return replace(
            self, input=self.input + more.input, cached=self.cached + more.cached, output=self.output + more.output
        )

    def at_least(self, seen: Usage) -> Usage:
        """This usage, raised to the tokens that were seen to be used; what the additional ones cost is a guess by their
        number."""
        if seen.input <= self.input and seen.output <= self.output:
            return self
        input, output = max(self.input, seen.input), max(self.output, seen.output)
        usd = self.usd * (input + output) / self.tokens if self.usd is not None and self.tokens else None
        return Usage(input, max(self.cached, seen.cached), output, usd, self.guessed or usd is not None)

    @property
    def plausible(self) -> Usage:
        """This usage within what can be counted: the numbers come from outside, and nobody earns money by a step."""
        input, cached, output = map(_countable, (self.input, self.cached, self.output))
        usd = self.usd if self.usd is not None and self.usd >= 0 else None  # what is not a number is not >= 0
        return Usage(input, cached, output, usd and min(usd, 1e9), self.guessed)


def _countable(count: int) -> int:
    return max(0, min(count, 10**12))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model: text, calls or both. `raw` is its provider's own form, to be sent back as it came."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = Usage()
    raw: str = ""
    more: bool = False  #: no calls, and yet not the end: the model paused and wants to be asked again

    @property
    def storable(self) -> Reply:
        """This reply without halves of characters, which models cut off now and then."""
        record = self.dump()
        try:
            record.encode()
        except UnicodeEncodeError:
            return replace(Reply.load(record.encode(errors="replace").decode()), usage=self.usage)
        return self

    def dump(self) -> str:
        """The reply as JSON, for the record; `load` reads it back. Usage is kept elsewhere."""
        calls = [[call.id, call.tool, call.arguments] for call in self.calls]
        record = {"text": self.text, "calls": calls, "raw": self.raw, "more": self.more}
        return json.dumps(record, ensure_ascii=False)

    @classmethod
    def load(cls, record: str) -> Reply:
        """Read a stored reply, which is data of this shape and nothing more. Raises BadInput."""
        try:
            match json.loads(record):
                case {"text": str(text), "calls": list(calls), "raw": str(raw), "more": bool(more)}:
                    return cls(text=text, calls=tuple(map(_call, calls)), raw=raw, more=more)
        except (ValueError, RecursionError):
            pass
        raise BadInput("the record of its earlier steps cannot be read", hint="dismiss it, and ask again")


def _call(value: object) -> Call:
    match value:
        case [str(id), str(tool), dict(arguments)]:
            return Call(id, tool, arguments)
    raise ValueError


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PastStep:
    """A step done earlier. Calls without a result were cut off; calling them again by the same id is safe."""

    reply: Reply
    results: dict[str, Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything a backend may know about one run."""

    run: str
    system: str
    prompt: str
    tools: tuple[ToolSpec, ...] = ()
    past: tuple[PastStep, ...] = ()  #: steps of this work that earlier runs completed
    model: str = ""
    max_steps: int = 20
    max_tokens: int | None = None
    asked: str = ""  #: the instruction that is in the prompt
    members: tuple[str, ...] = ()  #: names of the others in its workspace
    settings: Mapping[str, Any] = field(default_factory=dict)  #: fields of the request, as the definition names them
    open_votes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  #: proposals it is called on for → options


class StepSink(Protocol):
    """What a backend may do while it works. All of it is stored by whoever made the sink."""

    def say(self, text: str) -> None:
        """Show text as it is being written."""
        ...

    def show(self, call: Call, result: Result | None = None) -> None:
        """Tell of a call that a program makes with its own tools, then of what came of it. It is kept for people."""
        ...

    def preface(self, text: str) -> None:
        """Keep, for people, what a backend says by itself before the prompt. Said again, it is replaced."""
        ...

    def asking(self) -> AbstractAsyncContextManager[None]:
        """Around each request to a model. Raises Overloaded when others with the same key have to be let in first."""
        ...

    def spent(self, usage: Usage) -> None:
        """Charge for an answer that comes to nothing: it failed, was cut off, or nobody wants it any more."""
        ...

    async def keep(self, step: int, reply: Reply) -> None:
        """Store what the model answered in this step. Steps count from 0.

        Calls may be asked for before this is done: it is stored before any of them reaches outside.
        """
        ...

    async def call(self, step: int, call: Call) -> Result:
        """Make a tool call. The same step and id give the same result, however often asked."""
        ...


@dataclass(frozen=True, slots=True)
class LoneSink:
    """The sink of an answer that is no step of a run: nobody watches it, it has no tools, and nothing is stored."""

    charge: Callable[[Usage], None] | None = None  #: for an answer that comes to nothing; None: nobody pays

    def say(self, text: str) -> None:
        pass

    def show(self, call: Call, result: Result | None = None) -> None:
        pass

    def preface(self, text: str) -> None:
        pass

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def spent(self, usage: Usage) -> None:
        if self.charge:
            self.charge(usage)

    async def keep(self, step: int, reply: Reply) -> None:
        pass

    async def call(self, step: int, call: Call) -> Result:
        return Result("there are no tools here", ok=False)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A step is done and more are to come."""

    step: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The work is done; the reply of this last step is not kept by hand but with the end of the work."""

    step: int
    reply: Reply


Outcome = Unfinished | Finished


class Suspended(Exception):
    """Not an error: a call waits for a person, so the work is laid aside. Raised by a sink, passed on by backends."""


class Backend(Protocol):
    def work(self, turn: Turn, sink: StepSink) -> AsyncGenerator[Outcome]:
        """Go on from where `turn.past` ends. Raises BackendFailure; never retries."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...


class Model(Protocol):
    """Answers once. Holds no conversation: it is handed all of it."""

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply: ...
