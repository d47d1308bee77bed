"""The way of a coding program to its model: its request with the key that the program itself is never given.

A program holds the token of its run and no more; so does every command that it runs. Whichever header the token came
in leaves with the key instead, to the one address that this run's model is at. Nothing is kept here, and nothing is
read but how much an answer says was used: a command may ask the model too, and its program knows nothing of it. Above:
request_guard.py knows the token. Below: the client whose requests end with them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable

from agent_worker.backends.models.model_client import ModelAddress, ModelAnswer, ModelClient
from agent_worker.backends.models.passing_usage import PassingUsage
from agent_worker.backends.programs.program import MODEL_PATH, LentModel, ToolEndpoint
from agent_worker.core.errors import BackendFailure, Permanent
from agent_worker.core.outbound import Patience
from agent_worker.daemon.http.asgi import App, Message, Receive, Send
from agent_worker.daemon.http.request_guard import KEY_HEADERS
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.tools.tool import RunIdentity

#: Longer than programs wait by default: they have clocks of their own (backends/programs/runner.py).
_PATIENCE = Patience(silence=900, body=1024 * 1024 * 1024)
_OF_ONE_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"proxy-authorization"}
)
_NOT_SENT = _OF_ONE_CONNECTION | {b"host", b"content-length", b"accept-encoding", b"cookie", b"content-type"}
_NOT_ANSWERED = _OF_ONE_CONNECTION | {b"content-length", b"set-cookie", b"alt-svc", b"date", b"server"}


def make(entries: RunTokens) -> App:
    return _Forwarding(entries)


class _Forwarding:
    def __init__(self, entries: RunTokens) -> None:
        self._entries = entries
        self._client = ModelClient(os.environ, _PATIENCE)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        caller = scope["caller"]
        entry = self._entries.of(caller.run) if isinstance(caller, RunIdentity) else None
        if entry is None or entry.model is None:
            return await _tell(send, 404, "this token comes without a model")
        path = scope["raw_path"].decode("latin-1").removeprefix(MODEL_PATH)
        if scope["method"] != "POST" or ".." in scope["path"].split("/"):
            return await _tell(send, 404, "only requests to a model are forwarded")
        body = (await receive())["body"]
        passing = asyncio.create_task(self._pass_on(entry, entry.model, path, scope, body, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not passing.done():
                passing.cancel()
            await asyncio.gather(passing, return_exceptions=True)

    async def _pass_on(
        self, entry: ToolEndpoint, model: LentModel, path: str, scope: Message, body: bytes, send: Send
    ) -> None:
        query = scope["query_string"].decode("latin-1")
        headers = with_key(scope["headers"], entry.token, model.key)
        address, begun = ModelAddress(model.base_url, is_checked=model.is_checked), False
        try:
            async with self._client.post(address, path + (query and f"?{query}"), headers, body) as answer:
                begun = True
                await _answer(answer, send, entry)
        except BackendFailure as failure:
            if begun:  # a cut that the program sees as one, and may try again after
                return scope["extensions"]["agent_worker"]["drop"]()  # type: ignore[no-any-return]
            await _tell(send, 400 if isinstance(failure, Permanent) else 502, failure.message)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._client.close()
        await send({"type": "lifespan.shutdown.complete"})


def with_key(headers: Iterable[tuple[bytes, bytes]], token: str, key: str) -> dict[str, str]:
    """What is sent on of a program's headers: where its token stood, the key stands."""
    sent = {}
    for name, value in headers:
        if name in KEY_HEADERS:
            if token.encode() not in value:
                continue  # whatever that is, it is not for the provider
            value = value.replace(token.encode(), key.encode())
        if name not in _NOT_SENT:
            sent[name.decode("latin-1")] = value.decode("latin-1")
    return sent


async def _answer(answer: ModelAnswer, send: Send, entry: ToolEndpoint) -> None:
    usage = PassingUsage(streamed="text/event-stream" in answer.header("content-type"))
    headers = [(name, value) for name, value in answer.headers() if name not in _NOT_ANSWERED]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    try:
        async for chunk in answer.chunks():
            usage.feed(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:  # what was cut off was used as well
        entry.used = entry.used.plus(usage.found)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Wait until the program hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _tell(send: Send, status: int, message: str) -> None:
    """Send an error in a shape in which all programs find its sentence."""
    error = {"type": "api_error", "code": status, "status": "UNAVAILABLE", "message": message}
    body = json.dumps({"type": "error", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
