"""The bundled team, put to work in this daemon, in a project of its own."""

from __future__ import annotations

import asyncio

from agent_worker.core.later import dataclass
from agent_worker.demo.bundle import lay_out
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin

WORKFLOW = "review"


@dataclass(frozen=True, slots=True)
class Demo:
    project: str
    name: str  #: of the workflow that runs


@operation("POST", "/demo")
async def demo_start(service: Service) -> Demo:
    """Let three mock agents review a bundled change, in a new temporary project. Costs nothing."""
    root = await asyncio.to_thread(lay_out)
    await begin(service, WorkflowRequest(WORKFLOW, str(root)), trust=True)
    return Demo(str(root), WORKFLOW)
