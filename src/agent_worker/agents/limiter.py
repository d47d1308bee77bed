"""One key gate per credential: when a provider says "come back later", all its users wait together.

A pass is for one request, not for a run: a tool that takes an hour holds up nobody who wants to ask the same model.
After the wait one of them goes first; only when it got through are the others let in, two, four, eight at a time, in
the order in which they came. Waiting here does not use up anyone's tries. A wait is a little longer than was asked for,
by chance: others may have the same key.

Hosts that share a database and a key tell each other of a refusal, and close their gates too; afterwards each lets one
go first. What was under way when a gate closed is not counted: it says nothing about whether the provider is free
again.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import field

from agent_worker.agents.retries import wait_before
from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.errors import Overloaded
from agent_worker.core.later import dataclass

SPREAD = 0.1  #: of a wait, on top of it
SAME = 0.5  # seconds by which a wait that is told again may differ
CLOSED = "the provider of its model asked all who use this key to come back later"
NARROW = "others with the same key go first: its provider had refused them, and they are let in gradually"


@dataclass(slots=True, eq=False)
class _Place:
    """A place in the line before a gate."""

    given: Pass | None = None
    stirred: asyncio.Event = field(default_factory=asyncio.Event)  #: it is its turn, or the gate closes for longer


@dataclass(slots=True)
class _Gate:
    until: float = 0.0  #: monotonic; closed before that
    storms: int = 0  #: how many times it has closed
    refusals: int = 0  #: in a row
    width: int = 0  #: how many may be inside while it recovers; 0 is wide open
    inside: int = 0  #: of those who came in since it last closed
    line: deque[_Place] = field(default_factory=deque)


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """Somebody's leave to call a provider, from `Limiter.enter` to `Limiter.leave`."""

    credential: str
    gate: _Gate
    storms: int  #: how many times the gate had closed when it was given


class Limiter:
    def __init__(self, clock: Clock, chance: Callable[[], float] = random.random) -> None:
        self.key_of: Callable[[str], str] = _itself  #: what its gate is known by: the same for the same key
        self.closed: Callable[[str, float, int], None] = _to_nobody  #: told a key, seconds, and refusals in a row
        self._clock = clock
        self._chance = chance
        self._gates: dict[str, _Gate] = {}  # by key

    def enter_at_once(self, credential: str) -> Pass | None:
        """A pass now, without waiting; None when the gate is closed, or others are before us."""
        gate = self._gate(credential)
        if gate.line or not self._has_room(gate):
            return None
        gate.inside += 1
        return Pass(credential, gate, gate.storms)

    def opens_in(self, credential: str) -> float:
        """Seconds until somebody may be let in; 0 when the gate is not closed, though it may be narrow."""
        return self._closed_for(self._gate(credential))

    async def enter(self, credential: str) -> Pass:
        """Wait until the gate lets us in: whoever came first is let in first. Each pass is given back by `leave`."""
        gate, place = self._gate(credential), _Place()
        gate.line.append(place)
        try:
            while True:
                place.stirred.clear()
                closed = self._closed_for(gate)  # looked at first: it may open while we look for room
                self._let_in(credential, gate)
                if place.given:
                    return place.given
                # Only the first looks at the time. When it is let in, or leaves, the next is stirred.
                is_first = gate.line[0] is place
                await sleep_unless(place.stirred, self._clock, closed if is_first and closed else None)
        except BaseException:
            self._give_up(gate, place)
            raise

    def still_open(self, given: Pass) -> bool:
        """May one who was let in go on? The gate may have closed while it waited for something else."""
        return given.storms == given.gate.storms

    def leave(self, given: Pass) -> None:
        gate = given.gate
        if given.storms == gate.storms:
            gate.inside -= 1
            self._let_in(given.credential, gate)

    def succeeded(self, given: Pass) -> None:
        """A call got through: widen the gate, unless the call was let in before the gate closed."""
        gate = given.gate
        if given.storms != gate.storms:
            return
        gate.refusals = 0
        if gate.width:
            gate.width = gate.width * 2 if gate.width < 32 else 0
            self._let_in(given.credential, gate)

    def refused(self, credential: str, retry_after: float | None) -> float:
        """Close the gate; how many seconds until it may open."""
        gate = self._gate(credential)
        now = self._clock.monotonic()
        if gate.until <= now:  # a late refusal of the same storm does not prolong it
            gate.refusals += 1
            asked = retry_after if retry_after is not None else wait_before(gate.refusals)
            self._close(gate, now + asked * (1 + SPREAD * self._chance()))
        elif retry_after is not None:
            gate.until = max(gate.until, now + retry_after)
        self._stir_first(gate)
        self.closed(self.key_of(credential), gate.until - now, gate.refusals)
        return gate.until - now

    def closed_elsewhere(self, key: str, seconds: float, refusals: int) -> None:
        """Another host was refused, and waits for so long. It may be told several times."""
        gate, now = self._gates.setdefault(key, _Gate()), self._clock.monotonic()
        if now + seconds <= gate.until + SAME:
            return
        gate.refusals = max(gate.refusals, refusals)
        until = now + seconds * (1 + SPREAD * self._chance())
        if gate.until <= now:
            self._close(gate, until)
        gate.until = until
        self._stir_first(gate)

    def _close(self, gate: _Gate, until: float) -> None:
        gate.until = until
        gate.width = 1
        gate.storms += 1
        gate.inside = 0

    def _gate(self, credential: str) -> _Gate:
        return self._gates.setdefault(self.key_of(credential), _Gate())

    def _closed_for(self, gate: _Gate) -> float:
        return max(0.0, gate.until - self._clock.monotonic())

    def _has_room(self, gate: _Gate) -> bool:
        return gate.until <= self._clock.monotonic() and (not gate.width or gate.inside < gate.width)

    def _let_in(self, credential: str, gate: _Gate) -> None:
        """Let in the agents at the head of the line, as many as may pass at once. They are inside before they know
        it."""
        while gate.line and self._has_room(gate):
            place = gate.line.popleft()
            place.given = Pass(credential, gate, gate.storms)
            gate.inside += 1
            place.stirred.set()
            self._stir_first(gate)

    def _give_up(self, gate: _Gate, place: _Place) -> None:
        """Leave the line. If our turn had already come, it is the next agent's."""
        if place.given:
            self.leave(place.given)
        else:
            gate.line.remove(place)
            self._stir_first(gate)

    def _stir_first(self, gate: _Gate) -> None:
        if gate.line:
            gate.line[0].stirred.set()


class KeyPass:
    """The pass by which the loop of one agent calls its model; what the loop does while it waits is in admission.py."""

    def __init__(self, limiter: Limiter, longest_wait: Callable[[], float]) -> None:
        self.answered = False  #: has the model answered anything in the run that is under way?
        self._limiter = limiter
        self._longest_wait = longest_wait  # seconds, as the project's settings say now
        self._given: Pass | None = None

    def take_at_once(self, credential: str) -> bool:
        """Have a pass now, without waiting, if the gate lets us in; given back by `leave`."""
        self._given = self._limiter.enter_at_once(credential)
        return self._given is not None

    @asynccontextmanager
    async def held(self, credential: str) -> AsyncIterator[None]:
        self._given = await self._limiter.enter(credential)
        try:
            yield
        finally:
            self.leave()

    def leave(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            self._limiter.leave(given)

    @asynccontextmanager
    async def one_request(self, credential: str) -> AsyncIterator[None]:
        """One request to a model, through the gate of its key. That is left before any tool is called."""
        given = self._given = self._pass_for(credential)
        try:
            yield
            self.answered = True
            if given is not None:
                self._limiter.succeeded(given)
        except Overloaded as failure:
            if credential:  # before we leave: nobody is let in because we were refused
                asked = failure.retry_after and min(failure.retry_after, self._longest_wait())
                self._limiter.refused(credential, asked or None)
            raise
        finally:
            self.leave()

    def _pass_for(self, credential: str) -> Pass | None:
        """The pass that we came in with, or another one; None for a model without a key."""
        if self._given is not None and self._given.credential == credential:
            return self._given
        self.leave()
        if not credential:
            return None
        if (given := self._limiter.enter_at_once(credential)) is None:
            opens = self._limiter.opens_in(credential)
            raise Overloaded(CLOSED if opens else NARROW, retry_after=opens or None)
        return given

    def may_call(self) -> bool:
        return self._given is None or self._limiter.still_open(self._given)


def _itself(credential: str) -> str:
    return credential


def _to_nobody(key: str, seconds: float, refusals: int) -> None:
    """Tells nobody that a gate closed: there is no other host."""
