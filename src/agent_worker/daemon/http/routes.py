"""The HTTP door: a route for every operation, made from the table. Reads, calls once, writes.

Arguments come from path, query and body, as one: a name that is given twice or unknown is refused. A stream is sent as
server-sent events. Who may ask was decided before (request_guard.py); what is done is decided below (service/).
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from agent_worker.client.discovery import KEYS_HEADER
from agent_worker.core.errors import AgentWorkerError, BadInput, TooBusy
from agent_worker.core.ids import new_id
from agent_worker.core.later import pattern
from agent_worker.files.folder import disk_explained
from agent_worker.service.operation import Operation, Stream, StreamItem
from agent_worker.service.providers import bring
from agent_worker.service.service import Service

STREAMS = 64  #: that are followed at once
PING = 15.0  #: seconds of silence after which a stream shows that it is alive
SEND_PATIENCE = 5.0  #: seconds that the reader of a stream may keep us waiting
LAST_PATIENCE = 1.0  #: and when we are about to end
_DEEPEST = 64
_LARGEST = 2**63
_HALF_A_PAIR = pattern("[\ud800-\udfff]")

#: By the code of the error, or of the nearest class above it that is named here.
STATUS = {
    "bad_request": 400,
    "untrusted": 403,
    "not_found": 404,
    "refused": 409,
    "fenced": 409,
    "bad_input": 422,
    "too_many": 429,
    "backend_failure": 502,
    "storage_fault": 507,
    "unwritable": 507,
    "too_busy": 503,
    "error": 500,
}

Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


class BadRequest(BadInput):
    """Raised for a request that cannot be read at all."""

    code = "bad_request"


class TooMany(AgentWorkerError):
    code = "too_many"


class Routes:
    """The routes to a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._open = 0  # streams

    def routes(self, operations: Iterable[Operation]) -> list[BaseRoute]:
        """All routes. The more of a path is written out, the earlier it is tried."""
        ordered = sorted(operations, key=lambda each: _vagueness(each.path))
        return [route(each.method, each.path, self._endpoint(each)) for each in ordered]

    def _endpoint(self, operation: Operation) -> Endpoint:
        async def answer(request: Request) -> Response:
            await self._take_keys(request)
            return JSONResponse(await operation.call(self._service, await arguments(request)))

        async def stream(request: Request) -> Response:
            await self._take_keys(request)
            given = await arguments(request)
            if (seen := request.headers.get("last-event-id")) and operation.signature.takes("after"):
                given.setdefault("after", seen)
            if self._open >= STREAMS:
                raise TooMany(f"{STREAMS} streams are already open", hint="close one of them")
            self._open += 1
            try:
                happening = await operation.stream(self._service, given)
                return EventResponse(happening, ended=self._stream_ended, closing=self._service.closing)
            except BaseException:
                self._stream_ended()
                raise

        return stream if operation.is_stream else answer

    async def _take_keys(self, request: Request) -> None:
        """Keys that the person's own command brings with it. Whoever gets here has the token of the daemon."""
        if brought := request.headers.get(KEYS_HEADER):
            try:
                keys = json.loads(brought)
            except (ValueError, RecursionError):
                keys = None
            if not isinstance(keys, dict) or not all(isinstance(value, str) for value in keys.values()):
                raise BadRequest(f"{KEYS_HEADER} cannot be read")
            await bring(self._service, keys)

    def _stream_ended(self) -> None:
        self._open -= 1


def route(method: str, path: str, endpoint: Endpoint) -> Route:
    """A route for one method and no other: HEAD of a stream would never end."""
    made = Route(path, explained(endpoint), methods=[method])
    made.methods = {method}
    return made


def _vagueness(path: str) -> list[int]:
    return [2 if part.endswith(":path}") else int(part.startswith("{")) for part in path.split("/")[1:]]


# --- what comes in


async def arguments(request: Request) -> dict[str, Any]:
    """The arguments of an operation, from path, query and body; each name once."""
    given: dict[str, Any] = {}
    for name, value in (*request.path_params.items(), *_query(request), *(await _body(request)).items()):
        if name in given:
            raise BadRequest(f"{name} is given twice")
        given[name] = value
    _check(given)
    return given


def _query(request: Request) -> list[tuple[str, str]]:
    try:
        text = request.scope["query_string"].decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise BadRequest("the query cannot be read") from None


async def _body(request: Request) -> dict[str, Any]:
    content = await request.body()
    if not content:
        return {}
    try:
        value = json.loads(content.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON") from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRequest("a name is given twice")
    return found


def _no_number(name: str) -> None:
    raise BadRequest(f"{name} is not a number in JSON")


def _check(value: Any, depth: int = 0) -> None:
    """Refuse text that cannot be stored and given back as it is."""
    if depth > _DEEPEST:
        raise BadRequest(f"deeper than {_DEEPEST} levels")
    match value:
        case str():
            if "\0" in value or _HALF_A_PAIR.search(value):
                raise BadRequest("a text holds something that is not a character: NUL, or half of a pair")
        case bool() | None:
            pass
        case int():
            if not -_LARGEST <= value < _LARGEST:
                raise BadRequest("a number is too large")
        case float():
            if not math.isfinite(value):
                raise BadRequest("a number is too large")
        case dict():
            for name, each in value.items():
                _check(name, depth + 1)
                _check(each, depth + 1)
        case list():
            for each in value:
                _check(each, depth + 1)


# --- what goes out


def explained(endpoint: Endpoint) -> Endpoint:
    """Every error as an answer, without secrets; one we did not expect is logged, and told by its number."""

    async def answer(request: Request) -> Response:
        try:
            with disk_explained():
                return await endpoint(request)
        except AgentWorkerError as error:
            redact = request.app.state.redact
            headers = {"Retry-After": "1"} if isinstance(error, TooBusy) else None
            return failure(status_of(error), error.code, redact(error.message), redact(error.hint), headers=headers)
        except Exception:  # boundary
            id = new_id("e")
            log.exception("%s %s failed: %s", request.method, request.scope["path"], id)
            return failure(500, "bug", f"this should not have happened: {id}", "agent-worker daemon logs")

    return answer


async def unrouted(request: Request, error: Exception) -> Response:
    """Answer a request whose path is unknown, or does not take this method."""
    assert isinstance(error, HTTPException)
    code = "not_found" if error.status_code == 404 else "bad_method"
    told = f"there is no {request.method} {request.app.state.redact(request.scope['path'])[:200]}"
    return failure(error.status_code, code, told, "GET /openapi.json", headers=error.headers)


def failure(
    status: int, code: str, message: str, hint: str = "", *, headers: Mapping[str, str] | None = None
) -> Response:
    return JSONResponse({"error": {"code": code, "message": message, "hint": hint}}, status, headers)


def status_of(error: AgentWorkerError) -> int:
    codes = (vars(kind).get("code") for kind in type(error).__mro__)
    return next(STATUS[code] for code in codes if code in STATUS)


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
        leaving = asyncio.create_task(_left(receive))
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
    """The data is JSON on one line, so nothing in it can end the event or begin another."""
    id = f"id: {each.position}\n" if each.position else ""
    return f"{id}event: {each.kind}\ndata: {each.data}\n\n".encode()


async def _next(batches: AsyncIterator[Sequence[StreamItem]]) -> Sequence[StreamItem]:
    """The next piece of a stream; empty at the end, and only then."""
    try:
        return await anext(batches)
    except StopAsyncIteration:
        return ()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _cut(scope: Scope) -> bool:
    """Cut off a client that does not read: what was meant for it would stay in memory for ever."""
    connection = scope.get("extensions", {}).get("agent_worker")
    if connection:
        connection["drop"]()
    return bool(connection)
