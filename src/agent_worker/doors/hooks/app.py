"""The door of webhooks: `POST /hooks/PROJECT/NAME`. Reads, checks the signature, calls the service, writes.

Whoever cannot sign learns nothing: an unknown project, an unknown name and a wrong signature are one answer, given
after the same time.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.ids import new_id
from agent_worker.doors.errors import status_of
from agent_worker.doors.hooks.signatures import Signed, signed
from agent_worker.doors.request_body import check_texts, read_object
from agent_worker.service.hooks import ArmedTrigger, Webhook, accept, triggers_at
from agent_worker.service.service import Service

UNKNOWN_TAKES = 0.25  #: seconds after which a stranger is refused, whatever the reason

log = logging.getLogger(__name__)


def routes(service: Service) -> list[BaseRoute]:
    async def take(request: Request) -> Response:
        try:
            return await _take(service, request)
        except AgentWorkerError as error:
            return _failure(service, status_of(error), error.code, error.message, error.hint)
        except Exception:  # boundary
            id = new_id("e")
            log.exception("a webhook failed: %s", id)
            return _failure(service, 500, "bug", f"this should not have happened: {id}")

    return [Route("/hooks/{project}/{name}", take, methods=["POST"])]


async def _take(service: Service, request: Request) -> Response:
    clock = service.runtime.clock
    began, body = clock.monotonic(), await request.body()
    found = await _signed(service, request, body)
    if not found:
        await clock.sleep(max(0.0, UNKNOWN_TAKES - (clock.monotonic() - began)))
        told = "there is no such webhook here, or its signature is wrong"
        return _failure(service, 401, "unauthorized", told)
    content = read_object(body)
    check_texts(content)
    done = []
    for armed, by in found:
        event = by.event or str(content.get("type", ""))  # where Standard Webhooks has it
        done.append(asdict(await accept(service, armed, Webhook(event, content, by.id, by.same, by.is_timed))))
    caused = any(each["does"] != "ignored" for each in done)
    return JSONResponse({"accepted": done}, 202 if caused else 200)


async def _signed(service: Service, request: Request, body: bytes) -> list[tuple[ArmedTrigger, Signed]]:
    """The triggers that this webhook is for and is signed for."""
    try:
        triggers = await triggers_at(service, request.path_params["project"], request.path_params["name"])
    except AgentWorkerError as error:  # of a project that cannot be opened: that is for its owner to know
        log.warning("a webhook for %s: %s", request.path_params["project"][:100], error.message)
        return []
    now = service.now() / 1e6
    proofs = [(each, signed(each.trigger, each.secret, request.headers, body, now=now)) for each in triggers]
    return [(armed, by) for armed, by in proofs if by is not None]


def _failure(service: Service, status: int, code: str, message: str, hint: str = "") -> Response:
    redact = service.runtime.database.redact
    told: dict[str, Any] = {"code": code, "message": redact(message), "hint": redact(hint)}
    return JSONResponse({"error": told}, status)
