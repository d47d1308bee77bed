"""Before a run: an agent waits for the key of its model, for the gate of that key, and for one of the runs at once.

While it waits it says for what (waiting.py), as long as there is work to wait for. Begins and ends no run; that is
done in loop.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from agent_worker.agents import run_begin, run_end
from agent_worker.agents.limiter import CLOSED, NARROW, SPREAD, KeyPass
from agent_worker.agents.loop_context import LoopContext
from agent_worker.agents.registry import AgentRuntime
from agent_worker.agents.retries import LONGEST_GUESS
from agent_worker.agents.run_begin import NotYet, Pending
from agent_worker.agents.waiting import WaitingAgent, Waits, WaitsFor
from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.errors import BackendFailure, NoKey, Overloaded
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.definitions.settings import Settings
from agent_worker.work.agent_rows import Fence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NoSpace:
    """There is work for the agent, but too little space on the disk to do it."""

    work: Pending
    reason: str


@dataclass(frozen=True, slots=True)
class Keyless:
    """There is work for the agent, but not the key that it needs."""

    work: Pending
    missing: NoKey


Later = NotYet | NoSpace | Keyless  # work that cannot be done now


class Admission:
    def __init__(self, fence: Fence, loop_context: LoopContext) -> None:
        self.arrived = asyncio.Event()  #: something may have changed for this agent
        self.setbacks: dict[str, BackendFailure] = {}  #: instruction → why it is tried again later
        self._fence = fence
        self._loop_context = loop_context
        self._database = loop_context.recording.database.of(fence.project)
        self.key_pass = KeyPass(loop_context.limiter, lambda: self.settings.longest_wait)

    async def has_key(self) -> Later | bool | None:
        """Whether the key for the next piece of work is there. True also when nothing says that one is missing."""
        registry = self._loop_context.registry
        if not registry.lacks_key(self._fence.agent):
            return True
        found = await self.look()
        if not isinstance(found, Pending):
            return found
        worker = registry.worker(self._fence.agent, found.workspace)
        missing = worker.lacks_key() if worker.lacks_key else None
        return Keyless(found, missing) if missing else True

    async def ask_for_key(self, work: Pending, missing: NoKey) -> None:
        """Put the missing key into the person's inbox, once for each wait; the item is closed when the key is there
        (service/providers.py).
        """
        wait = self.waits.of(self._fence.agent)
        reason = f"{missing.message}: {missing.hint}"
        self.wait(work, "key", reason)
        if wait is None or wait.what != "key":
            await self._write(run_end.ask_for_key, self._fence, work.workspace, missing.subject, reason)

    async def come_in(self, places: AsyncExitStack, worker: AgentRuntime) -> Later | bool | None:
        """Pass the gate of the agent's key, for one request or until `places` end. True: the agent may go on."""
        key, limiter = worker.credential, self._loop_context.limiter
        if not key:
            return True
        if self.key_pass.take_at_once(key):
            places.callback(self.key_pass.leave)
            return True

        async def line_up(work: Pending) -> float | None:
            left = self.settings.longest_wait - self.waited(work.since)
            if left <= 0:
                await self._give_up_waiting(work)
                return 0.0
            if work.since is None:  # kept: whoever looks after a restart sees how long it is
                await self._write(run_begin.begin_wait, self._fence, work.instruction)
            opens = limiter.opens_in(key)
            self.wait(work, "model", CLOSED if opens else NARROW, seconds=opens or None)
            return min(left, opens or left)

        return await self._in_line(places.enter_async_context(self.key_pass.held(key)), line_up)

    async def take_slot(self, slot: AsyncExitStack, worker: AgentRuntime) -> Later | bool | None:
        """Wait for one of the runs that may go on at once; True when we have it. It is given back when `slot`
        closes."""
        slots = self._loop_context.slots
        why = slots.all_taken(worker)
        if not why:
            await slot.enter_async_context(slots.one(worker))
            return True

        async def line_up(work: Pending) -> None:
            self.wait(work, "slot", why)

        return await self._in_line(slot.enter_async_context(slots.one(worker)), line_up)

    async def _in_line(
        self,
        entering: Coroutine[None, None, object],
        line_up: Callable[[Pending], Awaitable[float | None]],
    ) -> Later | bool | None:
        """Wait for the agent's turn, as long as there is work to wait for. True: its turn has come.

        `line_up` is told for which work, each time that may have changed, and says after how many seconds to ask it
        again.
        """
        clock, turn = self._loop_context.clock, asyncio.ensure_future(entering)
        try:
            while not turn.done():
                self.arrived.clear()
                found = await self.look()
                if not isinstance(found, Pending):
                    return found
                await _first_of(turn, self.arrived, clock, await line_up(found))
            turn.result()
            return True
        finally:  # if our turn came in this very moment it ends with what we were to enter
            turn.cancel()
            await asyncio.wait({turn})

    async def look(self) -> Pending | NotYet | None:
        context = self._loop_context
        now, longest = context.now(), self.longest_told
        return await self._database.read(run_begin.look, self._fence.agent, now=now, longest=longest)

    async def _give_up_waiting(self, work: Pending) -> None:
        setback = self.setbacks.pop(work.instruction, None)
        why = setback.message if setback else "its provider refuses requests with this key"
        await self._write(run_end.give_up_waiting, self._fence, work.instruction, self.too_long(why))

    def waited(self, since: int | None) -> float:
        """Seconds that work has waited for its model by now."""
        return 0.0 if since is None else max(0.0, (self._loop_context.now() - since) / 1e6)

    def too_long(self, why: str) -> str:
        seconds = self.settings.longest_wait
        waited = plural(round(seconds / 60), "minute") if seconds >= 120 else plural(round(seconds), "second")
        return f"it waited {waited} for its model: {why}"

    def tell_setback(self, later: NotYet) -> None:
        setback = self.setbacks.get(later.work.instruction)
        # Without one it was in another process: what is stored tells for what it waits, though not the words.
        is_overload = isinstance(setback, Overloaded) if setback else later.work.since is not None
        unknown = CLOSED if is_overload else "it failed, and will be tried again"
        what: WaitsFor = "model" if is_overload else "retry"
        self.wait(later.work, what, setback.message if setback else unknown, seconds=later.wait / 1e6)

    def wait(self, work: Pending, what: WaitsFor, reason: str, *, seconds: float | None = None) -> None:
        name = self._loop_context.registry.worker(self._fence.agent, work.workspace).name
        who = WaitingAgent(self._fence.project, self._fence.agent, name, work.workspace)
        self.waits.begin(who, what, reason, seconds=seconds, since=work.since if what == "model" else None)

    @property
    def waits(self) -> Waits:
        return self._loop_context.waits

    @property
    def settings(self) -> Settings:
        return self._loop_context.registry.settings_of(self._fence.project)

    @property
    def longest_told(self) -> float:
        """The most seconds that work is told to wait: a gate adds a little to what the provider asked for."""
        return max(self.settings.longest_wait, LONGEST_GUESS) * (1 + SPREAD)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds, or until something arrives."""
        await sleep_unless(self.arrived, self._loop_context.clock, max(0.001, seconds))

    async def _write(self, change: Callable[..., T], *args: object, **kwargs: object) -> T:
        return await self._database.write(change, *args, now=self._loop_context.now(), **kwargs)


async def _first_of(turn: asyncio.Future[object], arrived: asyncio.Event, clock: Clock, seconds: float | None) -> None:
    """Wait until it is the agent's turn, something arrives, or so many seconds are over (None: never)."""
    either: set[asyncio.Future[Any]] = {turn, asyncio.ensure_future(sleep_unless(arrived, clock, seconds))}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in either - {turn}:
            each.cancel()
