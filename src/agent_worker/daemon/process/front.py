"""The first that answers on the daemon's port: proves who the daemon is, and lets requests wait for the application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from agent_worker.client import discovery
from agent_worker.client.plain_http import LOGS
from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.later import dataclass
from agent_worker.core.redaction import Redactor
from agent_worker.daemon.http.asgi import App, Message, Receive, Send

_NONCE_HEADER = discovery.NONCE_HEADER.lower().encode()


@dataclass(frozen=True, slots=True)
class Identity:
    """What the application that a daemon serves knows of it."""

    home: Path
    host: str  #: where clients connect to
    port: int
    instance: str
    started_at: str
    token: str = field(repr=False)
    redact: Redactor = field(repr=False)  #: as the log does it: what the application learns is kept out of both
    stop: Callable[[], None] = field(repr=False)  #: ask the daemon to end
    stopping: asyncio.Event = field(repr=False)  #: set when asked: endless streams say goodbye and end


class Front:
    """Proves who we are from the first moment; every other request waits until the application is there."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._app: App | None = None
        self._opened = asyncio.Event()

    def open(self, app: App) -> None:
        self._app = app
        self._opened.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if (nonce := self._nonce(scope)) is not None:
            return await _answer(send, 200, self._proof(nonce))
        await self._opened.wait()
        assert self._app is not None
        await self._app(scope, receive, send)

    def _nonce(self, scope: Message) -> str | None:
        """The nonce of a client that asks as ours do; None for any other request to this path, which the application
        judges."""
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/health":
            return None
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        values = [value.decode("latin-1") for name, value in headers if name == _NONCE_HEADER]
        hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
        expected = [discovery.authority(self._identity.host, self._identity.port)]
        from_browser = any(name in (b"origin", b"sec-fetch-site") for name, _ in headers)
        if from_browser or hosts != expected or len(values) != 1 or not discovery.NONCE.fullmatch(values[0]):
            return None
        return values[0]

    def _proof(self, nonce: str) -> dict[str, str]:
        me = self._identity
        return {
            "service": "agent-worker",
            "status": "ok" if self._app else "starting",
            "proof": discovery.proof(me.token, nonce=nonce, port=me.port, instance=me.instance),
        }


def refusing(error: BaseException) -> App:
    known = error if isinstance(error, AgentWorkerError) else None
    told = known or AgentWorkerError("the daemon could not start", hint=LOGS)

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _answer(send, 503, {"error": shown(told)})

    return app


async def _answer(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def shown(error: AgentWorkerError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}
