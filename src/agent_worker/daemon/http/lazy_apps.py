"""Doors that are made when somebody first knocks: what they import costs those nothing who never do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvicorn
from starlette.routing import Route
from uvicorn.lifespan.on import LifespanOn

from agent_worker.backends.programs.program import MODEL_PATH, TOOLS_PATH
from agent_worker.core.late_imports import taking_turns
from agent_worker.daemon.http.asgi import App, Message, Receive, Send
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.service.service import Service


def mcp_app(service: Service, entries: RunTokens) -> App:
    with taking_turns:
        from agent_worker.daemon.mcp.server import make  # takes a second: this runs in a thread

    return make(service, entries)


def openai_app(service: Service) -> App:
    with taking_turns:
        from agent_worker.doors.openai.app import make

    return make(service)


def model_app(entries: RunTokens) -> App:
    with taking_turns:
        from agent_worker.daemon.http.model_forwarding import make

    return make(entries)


def run_routes(tools: App, model: App) -> list[Route]:
    """The routes that the token of a run opens."""
    return [
        Route(TOOLS_PATH, tools, methods=["POST"]),  # a GET would be a stream that nothing is ever sent on
        Route(f"{MODEL_PATH}/{{path:path}}", model),
    ]


def metrics_app(service: Service) -> App:
    with taking_turns:
        from agent_worker.doors.metrics import make

    return make(service)


def public_app(service: Service) -> App:
    with taking_turns:
        from agent_worker.doors.public import make

    return make(service)


class LazyApp:
    """An ASGI application that is made in a thread when it is first asked for; its lifespan lasts until `close`."""

    def __init__(self, make: Callable[[], App]) -> None:
        self._make = make
        self._making = asyncio.Lock()
        self._app: App | None = None
        self._waking: asyncio.Task[App] | None = None
        self._life: LifespanOn | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        app = await self._ready()
        await app(scope, receive, send)

    def wake(self) -> None:
        """Begin to make the application: somebody is about to use it, and does not wait for long."""
        if self._app is None and self._waking is None:
            self._waking = asyncio.create_task(self._ready())

    async def _ready(self) -> App:
        async with self._making:
            if self._app is None:
                self._app = await self._made()
            return self._app

    async def close(self) -> None:
        if self._waking is not None:
            await asyncio.wait({self._waking})
        if self._life is not None:
            await self._life.shutdown()

    async def _made(self) -> App:
        app = await asyncio.to_thread(self._make)
        self._life = LifespanOn(uvicorn.Config(app, lifespan="auto", interface="asgi3", log_config=None))
        await self._life.startup()
        return app
