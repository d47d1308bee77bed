"""The HTTP door: a route for every operation, made from the table. Reads, calls once, writes.

Arguments come from path, query and body, as one: a name that is given twice or unknown is refused. A stream is sent as
server-sent events. Who may ask was decided before (request_guard.py); what is done is decided below (service/).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent_worker.client.discovery import KEYS_HEADER, RUN_HEADER
from agent_worker.core.errors import AgentWorkerError, TooBusy, trouble_of
from agent_worker.core.ids import new_id
from agent_worker.doors.errors import BadRequest, status_of
from agent_worker.doors.event_stream import EventResponse
from agent_worker.doors.request_body import check_texts, read_object
from agent_worker.service.operation import Operation
from agent_worker.service.providers import bring
from agent_worker.service.service import Service

STREAMS = 64  #: that are followed at once

Endpoint = Callable[[Request], Awaitable[Response]]

log = logging.getLogger(__name__)


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
            return JSONResponse(
                await operation.call(self._service, with_cause(operation, request, await arguments(request)))
            )

        async def stream(request: Request) -> Response:
            await self._take_keys(request)
            given = with_cause(operation, request, await arguments(request))
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
    for name, value in (*request.path_params.items(), *_query(request), *read_object(await request.body()).items()):
        if name in given:
            raise BadRequest(f"{name} is given twice")
        given[name] = value
    check_texts(given)
    return given


def with_cause(operation: Operation, request: Request, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments together with the run that started the command which asks, whatever else the command says."""
    run = request.headers.get(RUN_HEADER, "")
    return given | {"cause": run} if run and operation.signature.takes("cause") else given


def _query(request: Request) -> list[tuple[str, str]]:
    try:
        text = request.scope["query_string"].decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise BadRequest("the query string cannot be read") from None


# --- what goes out


def explained(endpoint: Endpoint) -> Endpoint:
    """Answer every error as JSON without secrets; one we did not expect is logged, and shown by its number."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:  # boundary
            known = trouble_of(error) if isinstance(error, OSError) else error
            if isinstance(known, AgentWorkerError):
                return _told(request, known)
            id = new_id("e")
            log.exception("%s %s failed: %s", request.method, request.scope["path"], id)
            return failure(500, "bug", f"this should not have happened: {id}", "agent-worker daemon logs")

    return answer


def _told(request: Request, error: AgentWorkerError) -> Response:
    redact = request.app.state.redact
    headers = {"Retry-After": "1"} if isinstance(error, TooBusy) else None
    told = {"code": error.code, "message": redact(error.message), "hint": redact(error.hint)}
    slip = {"slip": asdict(error.slip)} if error.slip else {}
    return JSONResponse({"error": told | slip}, status_of(error), headers)


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
