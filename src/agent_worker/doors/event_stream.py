"""A stream as server-sent events: it shows that it is alive, and ends with its reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_worker.service.operation import Stream, StreamItem

PING = 15.0  #: seconds of silence after which a stream shows that it is alive
SEND_PATIENCE = 5.0  #: seconds that the reader of a stream may keep us waiting
LAST_PATIENCE = 1.0  #: and when we are about to end


class EventResponse(Response):
    """A stream as server-sent events. Ends with the stream, when the client leaves, or when it does not read."""

    media_type = "text/event-stream"

    def __init__(
        self, stream: Stream, *, ended: Callable[[], None], closing: asyncio.Event, ping: float = PING
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._stream = stream
        self._ended = ended
        self._closing = closing
        self._ping = ping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(left(receive))
        hurrying = asyncio.create_task(self._hurry(scope))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._write(send, leaving)
        except TimeoutError:
            if _cut(scope):
                await leaving  # or the server finds that we have forgotten the end
        finally:
            leaving.cancel()
            hurrying.cancel()
            self._ended()
            await self._stream.close()

    async def _hurry(self, scope: Scope) -> None:
        """Cut off a client that does not read, so that it cannot keep us from ending."""
        await self._closing.wait()
        await asyncio.sleep(LAST_PATIENCE)
        _cut(scope)

    async def _write(self, send: Send, leaving: asyncio.Task[None]) -> None:
        batches = aiter(self._stream)
        following: asyncio.Task[Sequence[StreamItem]] | None = None
        await _send(send, b": hello\n\n")
        try:
            while True:
                following = following or asyncio.create_task(_next(batches))
                await asyncio.wait({following, leaving}, timeout=self._ping, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    return
                if not following.done():
                    await _send(send, b": ping\n\n")
                    continue
                if not (batch := following.result()):
                    return await send({"type": "http.response.body", "body": b""})
                following = None
                await _send(send, b"".join(map(_frame, batch)))
        finally:
            if following is not None:
                following.cancel()
                await asyncio.wait({following})  # not `await following`: its cancellation is not ours


async def _send(send: Send, body: bytes) -> None:
    async with asyncio.timeout(SEND_PATIENCE):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _frame(each: StreamItem) -> bytes:
    """One event as bytes. Its data is JSON on one line, so nothing in it can end the event or begin another."""
    id = f"id: {each.position}\n" if each.position else ""
    kind = f"event: {each.kind}\n" if each.kind else ""
    return f"{id}{kind}data: {each.data}\n\n".encode()


async def _next(batches: AsyncIterator[Sequence[StreamItem]]) -> Sequence[StreamItem]:
    """The next piece of a stream; empty at the end, and only then."""
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return ()


async def left(receive: Receive) -> None:
    """Wait until whoever asked hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _cut(scope: Scope) -> bool:
    """Cut off a client that does not read: what is meant for it would stay in memory for ever."""
    connection = scope.get("extensions", {}).get("agent_worker")
    if connection:
        connection["drop"]()
    return bool(connection)
