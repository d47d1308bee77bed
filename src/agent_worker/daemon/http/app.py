"""The daemon's application: a runtime, the service that works with it, the routes to the service, a guard before them.

Made when the process already answers (daemon/process/process.py), and ended by its lifespan.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent_worker.agents.prompt_texts import kept_for
from agent_worker.client.discovery import (
    DATABASE,
    DATABASE_VARIABLE,
    HOME_VARIABLE,
    LABELS_VARIABLE,
    authority,
    open_private,
)
from agent_worker.compose import RuntimeSettings, open_runtime
from agent_worker.core.clock import Clock
from agent_worker.core.disk_space import Space
from agent_worker.core.errors import BadInput
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.http.doors import open_doors
from agent_worker.daemon.http.lazy_apps import LazyApp, mcp_app, metrics_app, model_app, openai_app, run_routes
from agent_worker.daemon.http.openapi import describe
from agent_worker.daemon.http.request_guard import RequestGuard, Tokens
from agent_worker.daemon.http.routes import Routes, arguments, route, unrouted
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.daemon.process.front import Identity
from agent_worker.daemon.process.heap import give_back
from agent_worker.daemon.process.leftovers import clear_away
from agent_worker.daemon.web.rendering import end_rendering
from agent_worker.daemon.web.site import STRANGERS, page_routes
from agent_worker.definitions.settings import read_settings, with_environment
from agent_worker.files.root import Root
from agent_worker.service import background
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.providers import keys_changed
from agent_worker.service.service import Service
from agent_worker.service.tokens import hold_tokens

TIDY = 60.0  #: seconds after which memory that is free goes back to the system


async def make_app(identity: Identity) -> App:
    """Make the ASGI application. Whatever a last daemon left running goes on as soon as this returns."""
    tokens = Tokens(identity.token)
    entries = RunTokens(tokens, f"http://{authority(identity.host, identity.port)}")
    async with AsyncExitStack() as opening:
        private = Root.private(identity.home)
        settings = _settings(identity, private)
        runtime = await opening.enter_async_context(open_runtime(settings, tool_access=entries, redact=identity.redact))
        entries.identity_of = runtime.supervisor.identity
        service = Service(runtime, closing=identity.stopping)
        opening.push_async_callback(service.close)
        tokens.of_doors, tokens.now = service.door_tokens, runtime.clock.micros
        opening.callback(tokens.follow(runtime.bus))
        opening.callback(entries.follow(runtime.bus))
        mcp = LazyApp(lambda: mcp_app(service, entries))
        entries.expects = mcp.wake
        model = LazyApp(lambda: model_app(entries))
        openai = LazyApp(lambda: openai_app(service))
        metrics = LazyApp(lambda: metrics_app(service))
        opening.callback(end_rendering)
        opening.push_async_callback(mcp.close)
        opening.push_async_callback(model.close)
        opening.push_async_callback(openai.close)
        opening.push_async_callback(metrics.close)
        background.share(service)
        await hold_tokens(service)
        await service.open_again()
        await keys_changed(service)  # what is asked for may have come with this start
        background.begin(service)
        open_doors(service, opening)
        service.background(_tidy_memory(runtime.clock))
        everything = opening.pop_all()
    routes = [  # tried in this order
        *_own_routes(identity),
        *run_routes(mcp, model),
        Route("/v1/{path:path}", openai),
        Route("/metrics", metrics, methods=["GET"]),
        *Routes(service).routes(OPERATIONS.values()),
        *page_routes(service, tokens, private),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: unrouted},
        lifespan=lambda _: _life(everything),
    )
    app.router.redirect_slashes = False
    app.state.redact = identity.redact
    return RequestGuard(app, tokens, identity.host, identity.port, {"/health": {"GET"}} | STRANGERS)


def _settings(identity: Identity, private: Root) -> RuntimeSettings:
    """What the home's settings and the environment say of the runtime."""
    chosen = with_environment(read_settings(identity.home), os.environ)
    kept = kept_for(os.environ, timedelta(seconds=chosen.keep_prompts)).total_seconds()
    if kept != chosen.keep_prompts:  # what nobody chose stays a default
        chosen = chosen.model_copy(update={"keep_prompts": kept})
    return RuntimeSettings(
        database=_database(identity.home),
        trust=private,
        programs=identity.home / "programs",
        space=Space.of(identity.home, chosen.warn_free, chosen.stop_free),
        reached_by=f"{HOME_VARIABLE}={shlex.quote(str(identity.home))} agent-worker",
        chosen=chosen,
        labels=frozenset(os.environ.get(LABELS_VARIABLE, "").replace(",", " ").split()),
    )


def _database(home: Path) -> Path | str:
    """Where the database is: where the environment says, or in the home."""
    if url := os.environ.get(DATABASE_VARIABLE, "").strip():
        return url if "://" in url else f"?://{url}"  # which is refused, with a sentence
    database = home / DATABASE
    # Made by us it is nobody else's to read, and so is what SQLite puts beside it.
    os.close(open_private(database, os.O_RDWR | os.O_CREAT))
    return database


@asynccontextmanager
async def _life(everything: AsyncExitStack) -> AsyncIterator[None]:
    async with everything:
        clear_away()
        yield


async def _tidy_memory(clock: Clock) -> None:
    while True:
        await clock.sleep(TIDY)
        await asyncio.to_thread(give_back)


def _own_routes(identity: Identity) -> list[BaseRoute]:
    @cache
    def page() -> dict[str, Any]:
        return describe(OPERATIONS.values(), version=version("agent-worker"))

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})  # to anybody: so no version, no process, no path

    async def shutdown(request: Request) -> Response:
        if await arguments(request):
            raise BadInput("shutdown takes nothing")
        identity.stop()
        return JSONResponse({"stopping": True}, 202)

    async def openapi(request: Request) -> Response:
        return JSONResponse(page())

    return [
        route("GET", "/health", health),
        route("POST", "/shutdown", shutdown),
        route("GET", "/openapi.json", openapi),
    ]
