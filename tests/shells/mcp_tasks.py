"""A client that knows tasks: the official one, with the extension as its own interface for extensions has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import mcp_types as wire
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

EXTENSION = "io.modelcontextprotocol/tasks"


class Created(wire.Result):
    result_type: Literal["task"]
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class Task(wire.Result):
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    status_message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class Named(wire.RequestParams):
    task_id: str


class Answered(Named):
    input_responses: dict[str, Any]


class Get(wire.Request[Named, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: Named
    name_param = "taskId"


class Update(wire.Request[Answered, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: Answered
    name_param = "taskId"


class Cancel(wire.Request[Named, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: Named
    name_param = "taskId"


async def look(client: Client, id: str) -> Task:
    return await client.session.send_request(Get(params=Named(task_id=id)), Task)


async def until(client: Client, id: str, *states: str) -> Task:
    """How a task stands once it is in one of these states."""
    while (task := await look(client, id)).status not in states:
        pass
    return task


class Tasks(ClientExtension):
    """A call is over when its task is; `seen` are the tasks that were created."""

    identifier = EXTENSION

    def __init__(self, meanwhile: Callable[[Created], Awaitable[None]] | None = None) -> None:
        self.seen: list[Created] = []
        self._meanwhile = meanwhile

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Created, resolve=self._resolve)]

    async def _resolve(self, created: Created, context: ClaimContext) -> wire.CallToolResult:
        self.seen.append(created)
        if self._meanwhile is not None:
            await self._meanwhile(created)
        while True:
            task = await context.session.send_request(Get(params=Named(task_id=created.task_id)), Task)
            if task.status == "completed":
                return wire.CallToolResult.model_validate(task.result)
            if task.status in ("cancelled", "failed"):
                text = wire.TextContent(type="text", text=task.status)
                return wire.CallToolResult(content=[text], is_error=True)
