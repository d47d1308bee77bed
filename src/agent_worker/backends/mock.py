"""A model that plays a script, or answers sensibly without one. No key, no network, no cost.

It stands where a real model stands, under the same tool loop, so what it drives is what a real model drives.
A script that is too short is a failure of the run; one that was not played out is found by `left_over`.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Sequence

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn, Usage
from agent_worker.core.clock import Clock
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient
from agent_worker.definitions.script import ScriptedCall as ScriptCall
from agent_worker.definitions.script import ScriptEntry
from agent_worker.tools.tool import Call

_FAILURES: dict[str, type[BackendFailure]] = {
    "transient": Transient,
    "overloaded": Overloaded,
    "permanent": Permanent,
    "resource": Exhausted,
    "crash": Crashed,
}
_TOLD_TO_CALL = re.compile(r"\b(?:ask|tell|ping|call on|hand it to|pass it to)\s+@?([A-Za-z][\w-]*)", re.I)


def says(text: str) -> ScriptEntry:
    """The run ends with this text."""
    return ScriptEntry(say=text)


def calls(tool: str, **arguments: object) -> ScriptEntry:
    """A step that calls a tool."""
    return ScriptEntry(call=(ScriptCall.model_validate({"tool": tool, "with": arguments}),))


def fails(kind: str) -> ScriptEntry:
    """The step fails with this class: transient, overloaded, permanent, resource or crash."""
    return ScriptEntry.model_validate({"fail": kind})


def steps(count: int) -> ScriptEntry:
    """So many steps that lead nowhere."""
    return ScriptEntry(steps=count)


class MockModel:
    """Entries are played in order, across runs; without any it answers by itself."""

    def __init__(self, clock: Clock, script: Iterable[ScriptEntry] | None = None) -> None:
        self._clock = clock
        self._whole = [entry for written in script or () for entry in _spread(written)]  # from the definition
        self._script = None if script is None else deque(self._whole)
        self._begun = False
        self._ids = itertools.count(1)

    def then(self, *entries: ScriptEntry) -> None:
        """Play these next."""
        if self._script is None:
            self._script = deque()
        self._script.extend(itertools.chain.from_iterable(map(_spread, entries)))

    @property
    def left_over(self) -> list[ScriptEntry]:
        """What was not played."""
        return list(self._script or ())

    async def reply(self, turn: Turn, steps: Sequence[PastStep], sink: StepSink) -> Reply:
        if self._script is None:
            return _sensible(turn, steps)
        if not self._begun:  # a new process goes on with work that an old one began
            for _ in zip(turn.past, tuple(self._script), strict=False):  # it may have been made shorter since
                self._script.popleft()
        self._begun = True
        if self._script and self._script[0].again:
            self._script = deque(self._whole)
        if not self._script:
            raise Permanent("the mock's script has no entry left", hint="add an entry to script:")
        return await self._play(self._script.popleft(), sink)

    async def _play(self, entry: ScriptEntry, sink: StepSink) -> Reply:
        if entry.slow:
            await self._clock.sleep(entry.slow)
        if entry.fail:
            raise _FAILURES[entry.fail](f"a failure ({entry.fail}), as the script says")
        if entry.call:
            return Reply(calls=tuple(Call(f"c{next(self._ids)}", c.tool, dict(c.arguments)) for c in entry.call))
        if entry.steps:
            return Reply(more=True)
        sink.say(entry.say or "")
        return Reply(text=entry.say or "", usage=Usage(usd=0.0))


def _spread(entry: ScriptEntry) -> list[ScriptEntry]:
    """`steps: n` as n entries."""
    return [entry.model_copy(update={"steps": 1})] * entry.steps if entry.steps else [entry]


def _sensible(turn: Turn, past: Sequence[PastStep]) -> Reply:
    """Say what one is doing, then answer, calling on whom one was told to call on."""
    asked = (turn.asked or turn.prompt).strip()
    first_line = asked.partition("\n")[0][:160]
    tools = {spec.name for spec in turn.tools}
    votes = _votes(turn)
    if votes and not past:
        return Reply(calls=votes)
    if votes and asked.startswith("[PROPOSAL]"):
        return Reply(text="", usage=Usage(usd=0.0))
    if not past and "my_status_set" in tools:
        return Reply(calls=(Call("c1", "my_status_set", {"status": f"on it: {first_line[:60]}"}),))
    called = " ".join(dict.fromkeys(f"@{name}" for name in _TOLD_TO_CALL.findall(asked) if name in turn.members))
    quoted = first_line.replace("@", "")  # an echo must not wake those it echoes
    return Reply(text=f"{called} I have looked at this: {quoted}".strip(), usage=Usage(usd=0.0))


def _votes(turn: Turn) -> tuple[Call, ...]:
    """For the first option of every proposal one was called on for."""
    return tuple(
        Call(f"v{number}", "team_vote", {"proposal": number, "choice": options[0]})
        for number, options in turn.ballots.items()
    )
