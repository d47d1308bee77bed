"""The application behind `public_url`: answer links and webhooks, each in a folder of its own."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from agent_worker.doors.answers import app as answers
from agent_worker.doors.hooks import app as hooks
from agent_worker.service.service import Service


def make(service: Service) -> ASGIApp:
    routes = [*hooks.routes(service), *answers.routes(service)]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _unrouted})
    app.router.redirect_slashes = False
    return app


async def _unrouted(request: Request, error: Exception) -> Response:
    told = {"code": "not_found", "message": "there is nothing here", "hint": ""}
    return JSONResponse({"error": told}, 404)
