"""The MCP door: the person's AI gets the operations, an agent at work gets the tools of its run.

Who is calling was decided by the guardpost from the token; nothing in a request can change it. Stateless, with JSON
answers, in both eras of the protocol. Every call ends within 25 s: what takes longer goes on, and says where to look.
Importing this takes a second: app.py does it in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from importlib.metadata import version
from typing import Any

import mcp_types as wire
from mcp.server import Server, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings

from agent_worker.agents.hands import RunHands
from agent_worker.daemon.guardpost import App, Caller
from agent_worker.errors import AgentWorkerError, Fenced
from agent_worker.ids import new_id
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.office import Office
from agent_worker.service.operation import Operation
from agent_worker.tools.tool import Call, Seat, ToolSpec

log = logging.getLogger(__name__)

PATIENCE = 20.0  # seconds; coding programs give up on a call after 25 to 30
LARGEST = 60_000  # characters of an answer
INSTRUCTIONS = "agent-worker runs AI agents that work together. Send to alice, @workflow or alice@workflow."

Context = ServerRequestContext[Any]


def make(office: Office) -> App:
    """ASGI, with a lifespan of its own."""
    door = _Door(office)
    server: Server[Any] = Server(
        "agent-worker",
        version=version("agent-worker"),
        instructions=INSTRUCTIONS,
        on_list_tools=door.list_tools,
        on_call_tool=door.call_tool,
    )
    # Host and Origin were judged by the guardpost, before anything was allocated.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)


class _Door:
    def __init__(self, office: Office) -> None:
        self._office = office
        self._late: set[asyncio.Task[Any]] = set()  # calls that outlive their answer
        self._operations = {each.tool: each for each in OPERATIONS.values() if each.tool}

    async def list_tools(self, context: Context, _: object) -> wire.ListToolsResult:
        caller = _caller(context)
        if isinstance(caller, Seat):
            hands = self._hands(caller)
            specs = hands.specs if hands else ()
            return wire.ListToolsResult(tools=[_tool(spec, changes=True) for spec in specs])
        specs_and_methods = [(_spec(each), each.method != "GET") for each in self._operations.values()]
        return wire.ListToolsResult(tools=[_tool(spec, changes=changes) for spec, changes in specs_and_methods])

    async def call_tool(self, context: Context, asked: wire.CallToolRequestParams) -> wire.CallToolResult:
        caller, arguments = _caller(context), dict(asked.arguments or {})
        if isinstance(caller, Seat):
            return await self._call_as_agent(caller, asked.name, arguments)
        operation = self._operations.get(asked.name)
        if operation is None:
            return _said(f"there is no tool {asked.name}; there are: {', '.join(self._operations)}", ok=False)
        return await self._call_as_person(operation, arguments)

    async def _call_as_agent(self, seat: Seat, tool: str, arguments: dict[str, Any]) -> wire.CallToolResult:
        hands = self._hands(seat)
        if hands is None:
            return _said("your run is over: nothing you do now counts", ok=False)
        call = Call(new_id("c"), tool, arguments)
        try:
            result = await hands.call(hands.step, call)
        except Fenced:
            return _said("your run is over: nothing you do now counts", ok=False)
        return _said(result.text, ok=result.ok)

    async def _call_as_person(self, operation: Operation, arguments: dict[str, Any]) -> wire.CallToolResult:
        work = asyncio.create_task(operation.call(self._office, arguments))
        self._late.add(work)
        work.add_done_callback(self._late.discard)
        try:
            value = await asyncio.wait_for(asyncio.shield(work), PATIENCE)
        except TimeoutError:
            return _said("It is still being worked on. Look again later with channel_read or workflow_status.")
        except AgentWorkerError as error:
            return _said(f"{error.message} ({error.hint})" if error.hint else error.message, ok=False)
        return _said(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))

    def _hands(self, seat: Seat) -> RunHands | None:
        return self._office.stage.supervisor.hands(seat.run)


def _caller(context: Context) -> Caller:
    assert context.request is not None
    caller: Caller = context.request.scope["caller"]
    return caller


def _spec(operation: Operation) -> ToolSpec:
    schema = operation.arguments.model_json_schema()
    schema.pop("title", None)
    return ToolSpec(operation.tool, operation.description, schema)


def _tool(spec: ToolSpec, *, changes: bool) -> wire.Tool:
    # Coding programs refuse tools that might destroy something or reach the open world, unless told they do not.
    hints = wire.ToolAnnotations(read_only_hint=not changes, destructive_hint=False, open_world_hint=False)
    return wire.Tool(name=spec.name, description=spec.description, input_schema=spec.schema, annotations=hints)


def _said(text: str, *, ok: bool = True) -> wire.CallToolResult:
    shown = text if len(text) <= LARGEST else f"{text[:LARGEST]}\n[cut: {len(text) - LARGEST} more characters]"
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=shown)], is_error=not ok)
