"""`GET /metrics` in the text format of Prometheus, for the project of the door token that asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from agent_worker.core.errors import AgentWorkerError
from agent_worker.doors.errors import status_of
from agent_worker.service.metrics import Metric, project_metrics
from agent_worker.service.service import Service
from agent_worker.work.door_tokens import DoorToken

KIND = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "agent_worker_"


def make(service: Service) -> ASGIApp:
    async def metrics(request: Request) -> Response:
        token = request.scope["caller"]
        assert isinstance(token, DoorToken), "the request guard lets nobody else in here"
        try:
            loaded = await service.project(token.root)
            found = await project_metrics(service, loaded)
        except AgentWorkerError as error:
            told = {"code": error.code, "message": service.runtime.database.redact(error.message), "hint": error.hint}
            return JSONResponse({"error": told}, status_of(error))
        return Response(as_text(found, loaded.project.definition.name), media_type=KIND)

    return Starlette(routes=[Route("/metrics", metrics, methods=["GET"])])


def as_text(metrics: Iterable[Metric], project: str) -> str:
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric, project))


def _lines(metric: Metric, project: str) -> Iterator[str]:
    name = f"{_PREFIX}{metric.name}"
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} {metric.kind}"
    for labels, value in metric.values.items():
        pairs = ",".join(f'{label}="{_escaped(text)}"' for label, text in (("project", project), *labels))
        yield f"{name}{{{pairs}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
