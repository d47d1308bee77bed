"""The MCP door on a real server, with a team behind it and the official client before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation
from starlette.applications import Starlette
from starlette.routing import Route
from tests.patience import PATIENCE
from tests.teams import Team, open_team

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import SystemClock
from agent_worker.daemon.http.app import LazyApp
from agent_worker.daemon.http.request_guard import RequestGuard, Tokens
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.daemon.mcp.server import make
from agent_worker.service.service import Service

ADMIN = "a-token-of-the-person-that-is-long-enough-to-be-one"


class Waiting:
    """A model that is at work until it is told to end."""

    def __init__(self, text: str = "") -> None:
        self.end = asyncio.Event()
        self._text = text  # that it says then

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        await self.end.wait()
        return Reply(text=self._text)


@dataclass
class Door:
    team: Team
    service: Service
    tokens: Tokens
    entries: RunTokens
    port: int
    models: dict[str, Waiting] = field(default_factory=dict)  #: of those at work

    @asynccontextmanager
    async def client(
        self, token: str, *, mode: str = "auto", name: str = "test", query: str = "", **more: Any
    ) -> AsyncIterator[Client]:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE)
        transport = streamable_http_client(f"http://127.0.0.1:{self.port}/mcp{query}", http_client=http)
        async with (
            http,
            Client(transport, mode=mode, client_info=Implementation(name=name, version="1"), **more) as client,
        ):
            yield client

    async def post(self, path: str, token: str | None, **body: object) -> httpx2.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        headers |= {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
            return await http.post(f"http://127.0.0.1:{self.port}{path}", json=body)


@asynccontextmanager
async def opened(tmp_path: Path, *, patience: float = PATIENCE) -> AsyncIterator[Door]:
    async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), quiet_moment=0.02) as team:
        service = Service(team.runtime)
        await service.project(str(tmp_path))
        tokens = Tokens(ADMIN)
        unlisten = tokens.follow(team.runtime.bus)
        entries = RunTokens(tokens, "")
        entries.identity_of = team.runtime.supervisor.identity
        mcp = LazyApp(lambda: make(service, entries, patience=patience))
        app = Starlette(routes=[Route("/mcp", mcp, methods=["POST"]), Route("/shutdown", mcp, methods=["POST"])])
        config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        listening = config.bind_socket()
        port = listening.getsockname()[1]
        config.app = RequestGuard(app, tokens, "127.0.0.1", port)
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield Door(team, service, tokens, entries, port)
        finally:
            server.should_exit = True
            await serving
            await mcp.close()
            unlisten()
            await service.close()


def text_of(result: object) -> str:
    return str(result.content[0].text)  # type: ignore[attr-defined]
