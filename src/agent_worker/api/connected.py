"""`connect`: the operations of the user's daemon, over HTTP; functions are called here, when it asks for them.

A daemon that ended is found or started anew by the next verb, and told our values again. A question that was on its way
is followed on by its key.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from agent_worker.api.functions import OwnFunctions
from agent_worker.api.workers import Workers
from agent_worker.client import connection
from agent_worker.client.async_http import AsyncClient, Lost
from agent_worker.client.discovery import KEYS_HEADER, come_from
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.ids import new_id
from agent_worker.core.provider_variables import brought_by

LOOK_AGAIN = 0.5  #: seconds between two looks for a daemon that has gone

#: The operations that the verbs and the door of ACP use; their routes are in docs/reference/routes.md.
ROUTES: dict[str, tuple[str, str]] = {
    "agents_list": ("GET", "/agents"),
    "events": ("GET", "/events"),
    "explain": ("GET", "/runs/{run}"),
    "inbox_answer": ("POST", "/inbox/{item}"),
    "inbox_list": ("GET", "/inbox"),
    "inbox_show": ("GET", "/inbox/{item}"),
    "memory_set": ("PUT", "/agents/{name}/memory"),
    "memory_show": ("GET", "/agents/{name}/memory"),
    "read": ("GET", "/messages"),
    "resource_get": ("GET", "/resources/{id}"),
    "run": ("POST", "/run"),
    "run_refuse": ("POST", "/runs/{run}/refuse"),
    "send": ("POST", "/send"),
    "session_open": ("POST", "/sessions"),
    "sessions_list": ("GET", "/sessions"),
    "status": ("GET", "/status"),
    "todos_list": ("GET", "/agents/{name}/todos"),
    "trust_give": ("POST", "/trust"),
    "values_answer": ("POST", "/values/{program}/{call}"),
    "values_calls": ("GET", "/values/{program}"),
    "values_put": ("PUT", "/values"),
    "work_cancel": ("DELETE", "/instructions/{id}"),
    "workflow_finish": ("POST", "/workflows/{instance}/finish"),
    "workflow_set": ("POST", "/workflows/{instance}/{action}"),
    "workflow_start": ("POST", "/workflows"),
    "workflow_stop": ("DELETE", "/workflows/{instance}"),
    "workflow_wait": ("POST", "/workflows/{instance}/wait"),
    "workflows_list": ("GET", "/workflows"),
}


def connect(
    project: Path | str | None = None,
    *,
    home: Path | str | None = None,
    trust: bool = False,
    start: bool = True,
) -> Workers:
    """Use the daemon, and start it if it is not running (unless `start` is False).

    `project` is the directory of the project that is meant: that of the current directory, unless you name one. `home`
    is the daemon's, if it is not the usual one.

    What files of the project would execute, or which secrets they would get, a person approves first
    (`agent-worker trust`); until then it is Untrusted. With `trust` the program says yes to what they say when
    it is opened; the daemon keeps that, as it keeps a person's yes. What your own code hands over needs no approval.
    """
    return Workers(ConnectedOperations(project, home, start=start, trust=trust))


class ConnectedOperations:
    """The operations of a daemon."""

    def __init__(self, project: Path | str | None, home: Path | str | None, *, start: bool, trust: bool) -> None:
        self._home = Path(home) if home is not None else None
        self._start = start
        self._trust = trust
        self._client: AsyncClient | None = None
        self._finding: asyncio.Lock | None = None
        self._functions = OwnFunctions()
        self._handed: list[dict[str, Any]] = []
        self._listening: asyncio.Task[None] | None = None
        self._calls: dict[str, asyncio.Task[None]] = {}
        self.project = os.path.abspath(project if project is not None else ".")
        self.program = new_id("p")

    async def open(self, functions: OwnFunctions) -> None:
        self._functions, self._finding = functions, asyncio.Lock()
        await self._found(start=self._start)
        if self._trust:
            await self.call("trust_give", {"project": self.project})

    async def close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [each for each in (self._listening, *self._calls.values()) if each is not None]
        self._listening = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            self._client.close()
            self._client = None

    async def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        if operation == "values_put":
            self._handed.append(arguments)
        try:
            made = await self._request(operation, arguments)
        except Lost:
            if not _may_be_repeated(operation, arguments):
                raise
            made = await self._request(operation, arguments)
        except AgentWorkerError:
            if operation == "values_put":
                self._handed.remove(arguments)
            raise
        if operation == "values_put" and any(arguments["functions"].values()):
            self._listen()
        return made

    async def stream(self, operation: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        return self._resumed(operation, arguments, await self._anew(operation, arguments))

    async def _resumed(
        self, operation: str, arguments: dict[str, Any], items: AsyncIterator[dict[str, Any]]
    ) -> AsyncIterator[dict[str, Any]]:
        """Go on where the daemon ended: a question is known by its key."""
        while True:
            try:
                async for item in items:
                    if _says_goodbye(item) and _may_be_repeated(operation, arguments):
                        raise Lost("the daemon is stopping")
                    yield item
                return
            except Lost:
                if not _may_be_repeated(operation, arguments):
                    raise
            finally:
                await items.aclose()  # type: ignore[attr-defined]
            items = await self._anew(operation, arguments)

    async def _anew(self, operation: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Call an operation, a second time where the first finds no daemon: that finds or starts the one to ask."""
        try:
            return await self._streamed(operation, arguments)
        except Lost:
            return await self._streamed(operation, arguments)

    # --- the daemon -----------------------------------------------------------------------------------

    async def _found(self, *, start: bool) -> AsyncClient:
        """The daemon, told what we have handed over if it is another than before."""
        assert self._finding is not None
        async with self._finding:
            if self._client is None:
                looking = asyncio.to_thread(connection.connect, start=start, home=self._home)
                client = AsyncClient((await looking).found, asyncio.get_running_loop().time, _keys() | come_from())
                for handed in self._handed:
                    await client.request("PUT", "/values", handed)
                self._client = client
            return self._client

    async def _request(self, operation: str, arguments: dict[str, Any]) -> Any:
        client = await self._found(start=self._start)
        try:
            return await client.request(*_route(operation, arguments))
        except Lost:
            self._lose(client)
            raise

    async def _streamed(self, operation: str, arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        client = await self._found(start=self._start)
        try:
            return await client.stream(*_route(operation, arguments))
        except Lost:
            self._lose(client)
            raise

    def _lose(self, client: AsyncClient) -> None:
        client.close()
        if self._client is client:
            self._client = None

    # --- functions ------------------------------------------------------------------------------------

    def _listen(self) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        """Make the calls that the daemon asks for, as long as we are open; while it is gone, look for it."""
        while True:
            with suppress(AgentWorkerError):
                client = await self._found(start=False)  # who stopped it did so on purpose: verbs start it again
                try:
                    async for told in await client.stream(*_route("values_calls", {"program": self.program})):
                        self._told(told)
                finally:
                    self._lose(client)
            await asyncio.sleep(LOOK_AGAIN)

    def _told(self, told: dict[str, Any]) -> None:
        match told:
            case {"event": "call", "id": str(id)}:
                task = self._calls[id] = asyncio.create_task(self._make(id, told))
                task.add_done_callback(lambda _: self._calls.pop(id, None))
            case {"event": "cancel", "id": str(id)} if id in self._calls:
                self._calls[id].cancel()

    async def _make(self, id: str, told: dict[str, Any]) -> None:
        text, ok = await self._functions.call(told["agent"], told["function"], told["arguments"])
        answer = {"program": self.program, "call": id, "text": text, "ok": ok}
        with suppress(AgentWorkerError):  # gone meanwhile: the daemon asks again, if it may
            await self._request("values_answer", answer)


def _says_goodbye(item: dict[str, Any]) -> bool:
    return item.get("event") == "error" and item.get("message") == "the daemon is stopping"


def _keys() -> dict[str, str]:
    """The keys of model providers that are set here: the daemon takes what it lacks."""
    brought = brought_by(os.environ)
    return {KEYS_HEADER: json.dumps(brought)} if brought else {}


def _may_be_repeated(operation: str, arguments: dict[str, Any]) -> bool:
    """Whether an operation that is asked for again after a break happens only once."""
    method, _ = ROUTES[operation]
    return (
        method in ("GET", "PUT")
        or operation in ("trust_give", "run_refuse", "session_open")
        or bool(arguments.get("key"))
    )


def _route(operation: str, arguments: dict[str, Any]) -> tuple[str, str, Any]:
    """The method, the path with its arguments, and the body for an operation."""
    method, path = ROUTES[operation]
    rest = dict(arguments)
    for name in [name for name in arguments if f"{{{name}}}" in path]:
        path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))
    if method in ("POST", "PUT"):
        return method, path, rest
    written = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in rest.items()}
    return method, f"{path}?{urlencode(written)}" if written else path, None
