"""Tasks, an extension of the protocol (`io.modelcontextprotocol/tasks`): what takes longer than a call goes on, and the
client itself asks how it stands.

A task is a ticket in other words (service/tickets.py): its id is that of the work, nothing is stored for it, and so it
is there after a restart. Whoever does not say in a request that it knows tasks is given none. What waits for the person
is a question to the client only if that can ask them; else it waits in the inbox, and the task says so.
"""

from __future__ import annotations

from typing import Any

import mcp_types as wire
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from agent_worker.core.errors import AgentWorkerError
from agent_worker.daemon.http.request_guard import Admin
from agent_worker.daemon.mcp.questions import can_ask, give, question
from agent_worker.daemon.mcp.results import came
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.service import Service
from agent_worker.service.tickets import work_stop, work_wait

EXTENSION = "io.modelcontextprotocol/tasks"
POLL = 1000  #: milliseconds between two looks of a client
_WAIT = OPERATIONS[work_wait.__name__]
_STOP = OPERATIONS[work_stop.__name__]
_MESSAGE = 300  # characters of how it stands

Context = ServerRequestContext[Any]


class NamedTask(wire.RequestParams):
    task_id: str


class AnsweredTask(NamedTask):
    input_responses: wire.InputResponses


def knows(context: Context) -> bool:
    """Whether the client says in this very request that it knows tasks."""
    able = context.session.client_capabilities
    return able is not None and EXTENSION in (able.extensions or {})


def created(ticket: dict[str, Any]) -> dict[str, Any]:
    """The answer of a tool whose work goes on."""
    return {"resultType": "task"} | _task(ticket, "working")


class Tasks:
    """The requests of the extension."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def serve(self, server: Server[Any]) -> None:
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", NamedTask, self.get)
        server.add_request_handler("tasks/update", AnsweredTask, self.update)
        server.add_request_handler("tasks/cancel", NamedTask, self.cancel)

    async def get(self, context: Context, asked: NamedTask) -> dict[str, Any]:
        return _stands(await self._ticket(context, asked), can_ask=can_ask(context))

    async def update(self, context: Context, asked: AnsweredTask) -> dict[str, Any]:
        """Take the person's answers. One to a question that this task does not ask, or no longer, is ignored."""
        ticket = await self._ticket(context, asked)
        asks = {item["id"] for item in ticket["waits_for"]}
        for id, reply in asked.input_responses.items():
            if id in asks and isinstance(reply, wire.ElicitResult):
                try:
                    await give(self._service, id, reply)
                except AgentWorkerError as error:
                    raise self._refused(error) from None
        return {}

    async def cancel(self, context: Context, asked: NamedTask) -> dict[str, Any]:
        await self._ticket(context, asked)
        await _STOP.call(self._service, {"id": asked.task_id})
        return {}

    async def _ticket(self, context: Context, asked: NamedTask) -> dict[str, Any]:
        assert context.request is not None
        if not isinstance(context.request.scope["caller"], Admin):  # an agent at work, whose tools end within a call
            raise MCPError(wire.METHOD_NOT_FOUND, "tasks are for the person: a run has its tools")
        if not knows(context):
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise MCPError(wire.MISSING_REQUIRED_CLIENT_CAPABILITY, f"announce that you support {EXTENSION}", data)
        try:
            ticket: dict[str, Any] = await _WAIT.call(self._service, {"id": asked.task_id, "seconds": 0})
        except AgentWorkerError as error:
            raise self._refused(error) from None
        if ticket["id"] != asked.task_id:  # people may type how an id begins, programs have it whole
            raise MCPError(wire.INVALID_PARAMS, f"there is no task {asked.task_id[:100]}")
        return ticket

    def _refused(self, error: AgentWorkerError) -> MCPError:
        return MCPError(wire.INVALID_PARAMS, self._service.runtime.database.redact(error.message))


def _stands(ticket: dict[str, Any], *, can_ask: bool) -> dict[str, Any]:
    match ticket["state"]:
        case "working":
            return _task(ticket, "working", _last_word(ticket))
        case "waiting" if can_ask and ticket["waits_for"]:
            asks = {item["id"]: _wire(question(item)) for item in ticket["waits_for"]}
            return _task(ticket, "input_required", ticket["reason"]) | {"inputRequests": asks}
        case "waiting":
            return _task(ticket, "working", f"waits for the person (agent-worker inbox): {ticket['reason']}")
        case "limit":  # it goes on when the person lets it
            return _task(ticket, "working", f"paused (agent-worker resume @{ticket['at']}): {ticket['reason']}")
        case "stopped":
            return _task(ticket, "cancelled", ticket["reason"])
    return _task(ticket, "completed", ticket["reason"]) | {"result": _wire(came(ticket))}


def _task(ticket: dict[str, Any], status: str, message: str = "") -> dict[str, Any]:
    task = {"taskId": ticket["id"], "status": status, "createdAt": ticket["since"], "lastUpdatedAt": ticket["changed"]}
    told = {"statusMessage": message[:_MESSAGE]} if message else {}
    return task | {"ttlMs": None, "pollIntervalMs": POLL} | told


def _last_word(ticket: dict[str, Any]) -> str:
    last = ticket["said"][-1] if ticket["said"] else None
    return f"{last['sender']}: {' '.join(last['text'].split())}" if last else ""


def _wire(model: wire.CallToolResult | wire.ElicitRequest) -> dict[str, Any]:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
