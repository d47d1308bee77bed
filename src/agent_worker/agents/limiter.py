"""One gate per credential: when a provider says "come back later", all its users wait together.

After the wait one of them goes first; only when it got through are the others let in, two, four, eight at a
time, so that the storm does not begin again. Waiting here does not use up anyone's tries. A wait is a little longer
than was asked for, by chance: other hosts may have the same key.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from agent_worker.agents.retries import wait_before
from agent_worker.core.clock import Clock

_SPREAD = 0.1  # of a wait, on top of it


@dataclass(slots=True)
class _Gate:
    until: float = 0.0  #: monotonic; closed before that
    refusals: int = 0  #: in a row
    width: int = 0  #: how many may be inside while it recovers; 0 is wide open
    inside: int = 0
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Limiter:
    def __init__(self, clock: Clock, chance: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._chance = chance
        self._gates: dict[str, _Gate] = {}

    async def enter(self, credential: str) -> None:
        """Wait until the gate lets us in. Every `enter` is followed by one `leave`."""
        gate = self._gates.setdefault(credential, _Gate())
        while True:
            if (wait := gate.until - self._clock.monotonic()) > 0:
                await self._clock.sleep(wait)
            elif gate.width and gate.inside >= gate.width:
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                gate.waiting.append(turn)
                try:
                    await turn
                except asyncio.CancelledError:
                    self._let_in(gate)  # our turn, if it had come, is the next one's
                    raise
            else:
                break
        gate.inside += 1

    def still_open(self, credential: str) -> bool:
        """May one who is inside go on? The gate may have closed while it waited for something else."""
        gate = self._gates[credential]
        return gate.until <= self._clock.monotonic() and (not gate.width or gate.inside <= gate.width)

    def leave(self, credential: str) -> None:
        gate = self._gates[credential]
        gate.inside -= 1
        self._let_in(gate)

    def succeeded(self, credential: str) -> None:
        """A call got through: widen the gate."""
        gate = self._gates[credential]
        gate.refusals = 0
        if gate.width:
            gate.width = gate.width * 2 if gate.width < 32 else 0
            self._let_in(gate)

    def refused(self, credential: str, retry_after: float | None) -> float:
        """Close the gate; how many seconds until it may open."""
        gate = self._gates[credential]
        now = self._clock.monotonic()
        if gate.until <= now:  # a late refusal of the same storm does not prolong it
            gate.refusals += 1
            asked = retry_after if retry_after is not None else wait_before(gate.refusals)
            gate.until = now + asked * (1 + _SPREAD * self._chance())
            gate.width = 1
        elif retry_after is not None:
            gate.until = max(gate.until, now + retry_after)
        return gate.until - now

    def _let_in(self, gate: _Gate) -> None:
        free = gate.width - gate.inside if gate.width else len(gate.waiting)
        while gate.waiting and free > 0:
            turn = gate.waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                free -= 1
