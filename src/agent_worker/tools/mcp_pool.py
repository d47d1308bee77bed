"""The MCP servers that definitions name, as tools: one connection for each, shared by all agents of a runtime.

A connection is opened when it is first needed, kept open, closed when nobody used it for a while, and opened anew
when it was lost. The server checks the arguments of a call; its description and schema are what the model reads.
Above: the loop, which asks for the tools of a run. Below: mcp_client.py, the library.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from agent_worker.core.clock import Clock
from agent_worker.core.errors import (
    AgentWorkerError,
    BackendFailure,
    BadInput,
    Permanent,
    Refused,
    Transient,
    Untrusted,
)
from agent_worker.core.late_imports import taking_turns
from agent_worker.tools.mcp_server import McpProgram, Offer, Server, Times
from agent_worker.tools.tool import Result, Tool, ToolContext, ToolSpec

if TYPE_CHECKING:  # importing it takes more than a second
    from agent_worker.tools.mcp_client import Link

    Connect = Callable[[Server, Callable[[str], None]], AbstractAsyncContextManager[Link]]

log = logging.getLogger(__name__)

CLOSING = 20.0  #: seconds until what does not end by itself is cut off
MOMENT = 3.0  #: seconds between the end of a connection and our knowing why
_NAME_CAP = 64  # characters; what the providers of models take


class McpPool:
    def __init__(self, clock: Clock, times: Times | None = None) -> None:
        self._clock = clock
        self._times = times or Times()
        self._open: dict[Server, _Connection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def tools(self, servers: Mapping[str, Server]) -> tuple[Tool, ...]:
        """The tools of these servers. Raises Transient or Permanent, naming the server that cannot be used."""
        offered = await asyncio.gather(*(self._offers(name, server) for name, server in servers.items()))
        tools: dict[str, Tool] = {}
        for (name, server), offers in zip(servers.items(), offered, strict=True):
            for offer in offers:
                tool = self._tool(name, server, offer)
                if tools.setdefault(tool.name, tool) is not tool:
                    log.warning("MCP server %s: its %s is left out: another is %s", name, offer.name, tool.name)
        return tuple(tools.values())

    async def close(self) -> None:
        """End all servers we started, and leave the others."""
        self._closed = True
        for connection in self._open.values():
            connection.end("agent-worker is stopping")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSING)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _tool(self, name: str, server: Server, offer: Offer) -> Tool:
        async def call(context: ToolContext, /, **arguments: Any) -> Result:
            return await self._call(name, server, offer.name, arguments)

        return Tool(
            spec=ToolSpec(_prefixed(name, offer.name), offer.description, offer.schema),
            function=call,
            check=dict,
            stored=False,
            repeatable=offer.repeatable,
            personal=True,
            foreign=True,
        )

    async def _offers(self, name: str, server: Server) -> list[Offer]:
        kept = self._kept(server)
        try:
            return await self._list(name, server)
        except Transient:
            if kept is None or not kept.is_over:
                raise
            return await self._list(name, server)  # what we kept open was dead, which shows only when it is used

    async def _list(self, name: str, server: Server) -> list[Offer]:
        try:
            async with self._link(server) as link, asyncio.timeout(self._times.listing):
                return await link.offers()
        except TimeoutError:
            raise Transient(f"MCP server {name} ({server}) did not say what it offers") from None
        except AgentWorkerError as error:
            raise _unusable(name, server, error) from None

    async def _call(self, name: str, server: Server, tool: str, arguments: dict[str, Any]) -> Result:
        try:
            async with self._link(server) as link, asyncio.timeout(self._times.call):
                result = await link.call(tool, arguments)
        except TimeoutError:
            limit = f"{self._times.call:g} s"
            raise Refused(f"{name} did not answer within {limit}; what the call did is unknown") from None
        except _Lost as error:
            raise Refused(f"{name} was lost during the call: {error.message}; what it did is unknown") from None
        except (Transient, BadInput) as error:
            raise _unusable(name, server, error) from None
        except Refused as error:
            raise Refused(f"{name}: {error.message}") from None
        if not result.ok:
            raise Refused(result.text)
        return result

    @asynccontextmanager
    async def _link(self, server: Server) -> AsyncIterator[Link]:
        if self._closed:
            raise Refused("agent-worker is stopping")
        connection = self._kept(server) or self._opened(server)
        with connection.in_use():
            link = await connection.link()
            try:
                yield link
            except (Transient, Refused) as error:
                raise await connection.verdict(error) from None

    def _kept(self, server: Server) -> _Connection | None:
        found = self._open.get(server)
        return None if found is None or found.is_over else found

    def _opened(self, server: Server) -> _Connection:
        connection = _Connection(server, self._clock, self._times, before=self._open.get(server))
        self._open[server] = connection
        self._tasks.add(connection.task)
        connection.task.add_done_callback(self._tasks.discard)
        return connection


class _Lost(Transient):
    """There was a connection, and it ended while it was used."""


class _Connection:
    """A server, held by a task of its own: the library must be left by the task that entered it."""

    def __init__(self, server: Server, clock: Clock, times: Times, *, before: _Connection | None) -> None:
        self._server = server
        self._clock = clock
        self._times = times
        self._before = before
        self._opening: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._why = ""
        self._users = 0
        self._last_used = clock.monotonic()
        self.task = asyncio.create_task(self._hold(), name=f"MCP server {server}")

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self, why: str) -> None:
        if self.is_over:
            return
        self._why = why
        self._over.set()
        if not self._opening.done():
            self.task.cancel()

    async def link(self) -> Link:
        return await asyncio.shield(self._opening)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._last_used = self._clock.monotonic()

    async def verdict(self, error: Transient | Refused) -> AgentWorkerError:
        """What an error of the library means: the end of the connection, or an answer of the server."""
        if isinstance(error, Transient):
            with suppress(TimeoutError):  # why it ended comes a moment after its silence
                async with asyncio.timeout(MOMENT):
                    await self._over.wait()
        return _Lost(self._why or error.message) if self.is_over or isinstance(error, Transient) else error

    async def _hold(self) -> None:
        failure: AgentWorkerError = Transient("it was given up before it was open")
        try:
            if self._before:
                await asyncio.wait({self._before.task})  # a program may not bear a second one of itself
            connect = await asyncio.to_thread(_import_connect)
            if isinstance(self._server, McpProgram):
                await asyncio.to_thread(self._server.check)
            async with asyncio.timeout(self._times.connect) as limit, connect(self._server, self.end) as link:
                limit.reschedule(None)
                self._opening.set_result(link)
                await self._until_over()
        except TimeoutError:
            failure = Transient(f"it did not answer within {self._times.connect:g} s")
        except AgentWorkerError as error:
            failure = error
        finally:
            self._before = None
            if not self._opening.done():
                self._opening.set_exception(Transient(self._why) if self.is_over else failure)
                self._opening.exception()  # whoever asked may have left
            self.end(failure.message)
            log.info("MCP server %s: closed: %s", self._server, self._why)

    async def _until_over(self) -> None:
        idling = asyncio.create_task(self._end_when_idle())
        try:
            await self._over.wait()
        finally:
            idling.cancel()

    async def _end_when_idle(self) -> None:
        while (rest := self._last_used + self._times.idle - self._clock.monotonic()) > 0 or self._users:
            await self._clock.sleep(rest if rest > 0 else self._times.idle)
        self.end("nobody used it")


def _import_connect() -> Connect:
    with taking_turns:
        from agent_worker.tools.mcp_client import connect

    return connect


def _unusable(name: str, server: Server, error: AgentWorkerError) -> BackendFailure:
    failure = Permanent if isinstance(error, BadInput | Untrusted) else Transient
    return failure(f"MCP server {name} ({server}) cannot be used: {error.message}", hint=error.hint)


def _prefixed(server: str, tool: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}")[:_NAME_CAP]
