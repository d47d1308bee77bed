"""Hints over MCP: something has come in, look. Never the thing itself.

The person's AI may listen to what waits for the person, an agent at work to its inbox. Each is a resource that can be
read; a change of it is told to who asked for it with `subscriptions/listen`, for as long as its token is good. (The
tools of a run do not change while it works, so of those there is nothing to tell.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as wire
from mcp.server import ServerRequestContext
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from agent_worker.core.events import Bus, Ended, Event, InboxItemAdded, Queued, Retrying
from agent_worker.daemon.http.request_guard import Admin, Caller
from agent_worker.tools.tool import RunIdentity

INBOX = "agent-worker://inbox"  #: of whoever calls
LISTENERS = 64  #: at once
_BEHIND = 64  # hints that a listener may leave unread


def offered(caller: Caller) -> wire.Resource:
    """The one resource whose changes this caller may listen to."""
    of_agent = isinstance(caller, RunIdentity)
    told = "What waits for you here, as my_inbox tells it." if of_agent else "What waits for the person."
    return wire.Resource(uri=INBOX, name="inbox", description=told)


class Hints:
    def __init__(self, bus: Bus, closing: asyncio.Event) -> None:
        self._bus = bus
        self._closing = closing
        self._open = 0

    async def listen(
        self, caller: Caller, context: ServerRequestContext[Any], asked: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        if self._open >= LISTENERS:
            raise MCPError(wire.INTERNAL_ERROR, f"{LISTENERS} clients are already listening: close one of them")
        ear = _CallerBus(self._bus, caller)
        handler = ListenHandler(ear, max_buffered_events=_BEHIND)
        ear.at_end = handler.close
        ending = asyncio.create_task(_when(self._closing, handler.close))
        self._open += 1
        try:
            return await handler(context, asked)
        finally:
            self._open -= 1
            ending.cancel()


class _CallerBus:
    """The library's bus, with nothing on it but what concerns one caller."""

    def __init__(self, bus: Bus, caller: Caller) -> None:
        self._bus = bus
        self._caller = caller
        self.at_end: Callable[[], None] = lambda: None

    async def publish(self, event: ServerEvent) -> None:
        raise NotImplementedError("hints come from our own bus")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        def hear(event: Event) -> None:
            if self._concerns(event):
                listener(ResourceUpdated(offered(self._caller).uri))
            elif self._ends(event):
                self.at_end()

        return self._bus.listen(hear, Queued, InboxItemAdded, Ended, Retrying)

    def _concerns(self, event: Event) -> bool:
        match self._caller, event:
            case RunIdentity() as identity, Queued():
                return (event.agent, event.workspace) == (identity.agent, identity.workspace)
            case Admin(), InboxItemAdded():
                return True
        return False

    def _ends(self, event: Event) -> bool:
        return (
            isinstance(self._caller, RunIdentity)
            and isinstance(event, Ended | Retrying)
            and event.run == self._caller.run
        )


async def _when(event: asyncio.Event, then: Callable[[], None]) -> None:
    await event.wait()
    then()
