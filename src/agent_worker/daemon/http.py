"""The HTTP door: a route for every operation, made from the table. Reads, calls once, writes.

Arguments come from path, query and body, as one: a name given twice or unknown is refused. A stream is sent as
server-sent events. Who may ask was decided before (guardpost.py); what is done is decided below (service/).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from agent_worker.errors import AgentWorkerError, BadInput
from agent_worker.service.office import Office
from agent_worker.service.operation import Operation

STREAMS = 64  #: that can be followed at once
PING = 15.0  #: seconds of silence after which a stream says that it is alive
SEND_PATIENCE = 10.0  #: seconds that a reader of a stream may let us wait
_DEEPEST = 64

_STATUS = {
    "bad_request": 400,
    "untrusted": 403,
    "not_found": 404,
    "refused": 409,
    "fenced": 409,
    "bad_input": 422,
    "too_many": 429,
    "backend_failure": 502,
    "storage_fault": 507,
}

log = logging.getLogger(__name__)


class BadRequest(BadInput):
    """Not even a request."""

    code = "bad_request"


class TooMany(AgentWorkerError):
    code = "too_many"


class Door:
    """Makes routes of operations."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._streams = 0

    def routes(self, operations: Mapping[str, Operation]) -> list[BaseRoute]:
        """The more of a path is written out, the earlier it is tried."""
        ordered = sorted(operations.values(), key=lambda each: _vagueness(each.path))
        return [_route(each.path, each.method, self._endpoint(each)) for each in ordered]

    def _endpoint(self, operation: Operation) -> Endpoint:
        return self._streamed(operation) if operation.result is None else self._answered(operation)

    def _answered(self, operation: Operation) -> Endpoint:
        async def answer(request: Request) -> Response:
            return JSONResponse(await operation.call(self._office, await _arguments(request)))

        return _explained(answer)

    def _streamed(self, operation: Operation) -> Endpoint:
        async def answer(request: Request) -> Response:
            if self._streams >= STREAMS:
                raise TooMany(f"{STREAMS} streams are open already", hint="close one of them")
            self._streams += 1
            try:
                given = await _arguments(request)
                if (seen := request.headers.get("last-event-id")) and "after" in operation.arguments.model_fields:
                    given.setdefault("after", seen)
                stream = await operation.stream(self._office, given)
            except BaseException:
                self._streams -= 1
                raise
            return EventResponse(stream, self._stream_ended)

        return _explained(answer)

    def _stream_ended(self) -> None:
        self._streams -= 1
