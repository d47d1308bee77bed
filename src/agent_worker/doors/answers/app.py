"""The door of answer links: shows what one is for, and takes the answer. Reads, calls the service once, writes.

Who has the link is not asked: its secret is all there is, and the service decides what it opens. What the address was
reached by was judged before (daemon/http/public.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import get_args
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.answers import page
from agent_worker.doors.errors import BadRequest, status_of
from agent_worker.doors.request_body import check_texts
from agent_worker.service.answer_links import answer_by_link, linked_item
from agent_worker.service.inbox import Action
from agent_worker.service.service import Service
from agent_worker.work.answer_links import DeadLink


def routes(service: Service) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        return HTMLResponse(page.opening())

    async def post(request: Request) -> Response:
        redact: Callable[[str], str] = service.runtime.database.redact
        try:
            given = _form(await request.body())
            secret, action = given.get("secret", ""), given.get("action")
            if action is None:
                return HTMLResponse(page.question(await linked_item(service, secret), secret))
            for known in get_args(Action):
                if action == known:
                    told = await answer_by_link(service, secret, known, given.get("text", ""))
                    return HTMLResponse(page.sentence("Thank you", _after(told)))
            raise BadRequest("this is not an answer")
        except AgentWorkerError as error:
            title = "This link does not work" if isinstance(error, DeadLink) else "This was not accepted"
            told = page.sentence(title, redact(error.message), redact(error.hint))
            return HTMLResponse(told, status_of(error))

    async def script(request: Request) -> Response:
        return Response(page.SCRIPT, media_type="text/javascript")

    async def style(request: Request) -> Response:
        return Response(page.STYLE, media_type="text/css")

    return [
        Route("/answer", show, methods=["GET"]),
        Route("/answer/item", post, methods=["POST"]),
        Route("/answer/answer.js", script, methods=["GET"]),
        Route("/answer/answer.css", style, methods=["GET"]),
    ]


def _form(body: bytes) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10)
    except ValueError:
        raise BadRequest("the form cannot be read") from None
    if len(dict(pairs)) != len(pairs):
        raise BadRequest("a name is given twice")
    check_texts(dict(pairs))
    return dict(pairs)


def _after(told: str) -> str:
    return (
        "Your answer was accepted." if told == "done" else f"Your answer was accepted: {told.removeprefix('done; ')}."
    )
