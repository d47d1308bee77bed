"""Functions that stay in another program: whoever handed over an agent as a value makes its calls, in its own process.

A program tells which functions each of its agents has, and is there as long as it listens. While it is gone a call
waits for it, up to `GONE_FOR`, and the agent says so. A call that had begun when it went is made again only if its
function says that it may be repeated; otherwise the model is told that nobody knows what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agent_worker.core.clock import Clock, sleep_unless
from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.tools.tool import Result, RunIdentity, Tool, ToolContext, ToolSpec

GONE_FOR = 15 * 60.0  #: seconds that a call waits for the program that can make it
REASON = "the Python program that has its tools is gone: it continues when the program runs again"
UNKNOWN = (
    "The outcome of this call is unknown: the program that made it went away meanwhile. "
    "Check what it did before you make it again."
)


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """A function of a program, as it tells it."""

    name: str
    description: str
    schema: dict[str, Any] = field(default_factory=dict)
    repeatable: bool = False  #: may be called again when nobody knows what came of it
    within: float = 120.0  #: seconds that a call may take


class Gone(Exception):
    """The program went away before the call had ended."""


class FunctionHost(Protocol):
    """A program that calls its own functions when we ask."""

    async def call(self, agent: str, spec: FunctionSpec, arguments: dict[str, Any]) -> Result:
        """Make a call. Raises Gone; cancelled, it cancels the call."""
        ...


@dataclass(frozen=True, slots=True)
class _Offer:
    """The functions that one program has for one agent."""

    program: str
    specs: tuple[FunctionSpec, ...]


class ProgramFunctions:
    """Which programs have functions for which agents, and which of them listen now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offers: dict[tuple[Path, str], list[_Offer]] = {}  # the newest last
        self._hosts: dict[str, FunctionHost] = {}
        self._arrived = asyncio.Event()
        #: Told that a run begins to wait for its program (a reason), and that it waits no longer ('').
        self.tell: Callable[[RunIdentity, str], None] = lambda identity, reason: None

    def offer(self, root: Path, agent: str, program: str, specs: tuple[FunctionSpec, ...]) -> bool:
        """A program has these functions for an agent. Whether they are others than were known last."""
        offers = self._offers.setdefault((root, agent), [])
        before = offers[-1].specs if offers else ()
        offers[:] = [each for each in offers if each.program != program]
        offers.append(_Offer(program, specs))
        self._stir()
        return before != specs

    def arrive(self, program: str, host: FunctionHost) -> None:
        self._hosts[program] = host
        self._stir()

    def leave(self, program: str, host: FunctionHost) -> None:
        """Note that a program listens no longer. What it had is remembered: it may come again."""
        if self._hosts.get(program) is host:
            del self._hosts[program]

    def host(self, program: str) -> FunctionHost | None:
        """The program of this name, if it listens now."""
        return self._hosts.get(program)

    def _stir(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    def tools(self, root: Path, agent: str) -> dict[str, Tool]:
        """The functions of an agent as tools, by name: those of the program that told of them last."""
        offers = self._offers.get((root, agent))
        return {spec.name: self._tool(root, agent, spec) for spec in offers[-1].specs} if offers else {}

    def _tool(self, root: Path, agent: str, spec: FunctionSpec) -> Tool:
        return Tool(
            ToolSpec(spec.name, spec.description, spec.schema),
            partial(self._call, root, agent, spec),
            dict,  # the program checks the arguments itself: it has the types
            stored=False,
            repeatable=spec.repeatable,
            personal=True,
            foreign=True,
        )

    async def _call(
        self, root: Path, agent: str, spec: FunctionSpec, context: ToolContext, /, **arguments: Any
    ) -> Result:
        begun = False
        while True:
            host = await self._there(root, agent, spec.name, context.identity)
            if begun and not spec.repeatable:
                return Result(UNKNOWN, ok=False)
            begun = True
            with suppress(Gone):
                return await host.call(agent, spec, arguments)

    async def _there(self, root: Path, agent: str, name: str, identity: RunIdentity) -> FunctionHost:
        """The program that listens and has this function; waits for one."""
        until = self._clock.monotonic() + GONE_FOR
        waits = False
        try:
            while (host := self._host(root, agent, name)) is None:
                left = until - self._clock.monotonic()
                if left <= 0:
                    raise Refused(f"{name} was not called: the program that has it was gone for 15 minutes")
                waits = True
                self.tell(identity, REASON)
                await sleep_unless(self._arrived, self._clock, left)
            return host
        finally:
            if waits:
                self.tell(identity, "")

    def _host(self, root: Path, agent: str, name: str) -> FunctionHost | None:
        for offer in reversed(self._offers.get((root, agent), [])):
            if offer.program in self._hosts and any(spec.name == name for spec in offer.specs):
                return self._hosts[offer.program]
        return None
