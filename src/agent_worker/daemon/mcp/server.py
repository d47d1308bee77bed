"""The MCP door: the person's AI gets the operations, an agent at work gets the tools of its run.

Who is calling was decided by the request guard from the token; nothing in a request can change it. Stateless, with JSON
answers, in both eras of the protocol. Every call ends within 25 s: what takes longer goes on, and says where to look.
Programs repeat calls when a stream breaks under them: what was said with the same words in the same run is one call.
Importing this takes a second: app.py does it in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from importlib.metadata import version
from typing import Any

import mcp_types as wire
from mcp.server import Server, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError

from agent_worker.agents.supervisor import Working
from agent_worker.backends.backend import Suspended
from agent_worker.core.errors import AgentWorkerError, Fenced
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.daemon.http.asgi import App
from agent_worker.daemon.http.request_guard import Caller
from agent_worker.daemon.mcp.hints import Hints, offered
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.service.catalogue import OPERATIONS
from agent_worker.service.operation import Operation
from agent_worker.service.service import Service
from agent_worker.tools.tool import Call, Result, RunIdentity, ToolSpec

log = logging.getLogger(__name__)

PATIENCE = 20.0  # seconds; coding programs give up on a call after 25 to 30
LARGEST = 60_000  # characters of an answer
CALL_ID = "claudecode/toolUseId"  # by which claude names a call, also when it makes it again
#: What nobody means to say twice in the same words. Reading, on the other hand, is done again for what is new.
ONCE = frozenset(
    {"channel_send", "team_doc_append", "team_doc_suggest", "team_proposal_create", "resource_create", "ask_user"}
    | {"note_write", "todo_add", "memory_write", "feedback_submit"}
)
OVER = "your run is over: nothing you do now counts"
INSTRUCTIONS = "agent-worker runs AI agents that work together. Send to alice, @workflow or alice@workflow."

Context = ServerRequestContext[Any]


def make(service: Service, entries: RunTokens | None = None, *, patience: float = PATIENCE) -> App:
    """The MCP server as an ASGI application. `entries` are told what programs do with their tokens."""
    tool_access = _Server(service, entries, patience)
    server: Server[Any] = Server(
        "agent-worker",
        version=version("agent-worker"),
        instructions=INSTRUCTIONS,
        on_list_tools=tool_access.list_tools,
        on_call_tool=tool_access.call_tool,
        on_list_resources=tool_access.list_resources,
        on_read_resource=tool_access.read_resource,
        on_subscriptions_listen=tool_access.listen,
    )
    # Host and Origin were judged by the request guard, before anything was allocated.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)


@dataclass(frozen=True, slots=True)
class _Made:
    """A call of an agent that is being made."""

    step: int
    call: Call
    work: asyncio.Task[Result]


class _Server:
    def __init__(self, service: Service, entries: RunTokens | None, patience: float) -> None:
        self._service = service
        self._patience = patience
        self._entries = entries
        self._under_way: dict[tuple[str, str], _Made] = {}  # calls of agents, by run and words
        self._late: set[asyncio.Task[Any]] = set()  # calls that outlive their answer
        self._operations = {each.tool: each for each in OPERATIONS.values() if each.tool}
        self._offered = [_tool(_spec(each), changes=each.method != "GET") for each in self._operations.values()]
        self._hints = Hints(service.runtime.bus, service.closing)

    async def list_tools(self, context: Context, _: object) -> wire.ListToolsResult:
        caller = _caller(context)
        if isinstance(caller, RunIdentity):
            recorder = self._recorder(caller)
            if self._entries:
                self._entries.listed(caller.run)
            specs = recorder.specs if recorder else ()
            return wire.ListToolsResult(tools=[_tool(spec, changes=True) for spec in specs])
        return wire.ListToolsResult(tools=self._offered)

    async def call_tool(self, context: Context, asked: wire.CallToolRequestParams) -> wire.CallToolResult:
        caller, arguments = _caller(context), dict(asked.arguments or {})
        if isinstance(caller, RunIdentity):
            return await self._call_as_agent(caller, asked, arguments)
        operation = self._operations.get(asked.name)
        if operation is None:
            return _said(f"there is no tool {asked.name}; there are: {', '.join(self._operations)}", ok=False)
        return await self._call_as_person(operation, arguments)

    async def list_resources(self, context: Context, _: object) -> wire.ListResourcesResult:
        return wire.ListResourcesResult(resources=[offered(_caller(context))])

    async def read_resource(self, context: Context, asked: wire.ReadResourceRequestParams) -> wire.ReadResourceResult:
        """Read the inbox: the same words that the tool for it tells."""
        caller = _caller(context)
        if asked.uri != offered(caller).uri:
            raise MCPError(wire.INVALID_PARAMS, f"there is no {asked.uri} here; there is {offered(caller).uri}")
        tool = "my_inbox" if isinstance(caller, RunIdentity) else "inbox_list"
        told = await self.call_tool(context, wire.CallToolRequestParams(name=tool))
        text = "".join(part.text for part in told.content if isinstance(part, wire.TextContent))
        content = wire.TextResourceContents(uri=asked.uri, mime_type="text/plain", text=text)
        return wire.ReadResourceResult(contents=[content])

    async def listen(
        self, context: Context, asked: wire.SubscriptionsListenRequestParams
    ) -> wire.SubscriptionsListenResult:
        return await self._hints.listen(_caller(context), context, asked)

    async def _call_as_agent(
        self, identity: RunIdentity, asked: wire.CallToolRequestParams, arguments: dict[str, Any]
    ) -> wire.CallToolResult:
        recorder = self._recorder(identity)
        if recorder is None:
            return _said(OVER, ok=False)
        words = _digest(asked.name, arguments)
        call = Call(_call_id(asked, words), asked.name, arguments)
        step = recorder.step
        key = identity.run, words
        if key not in self._under_way:  # otherwise it is still being made: this is somebody asking for its result
            self._forget_other_runs(identity.run)
            self._under_way[key] = _Made(step, call, asyncio.create_task(recorder.call(step, call)))
        made = self._under_way[key]
        if not (await asyncio.wait({made.work}, timeout=self._patience))[0]:
            return _said(f"{asked.name} is still working. Call it again with the same arguments to get its result.")
        self._under_way.pop(key, None)
        try:
            result = made.work.result()
        except Fenced:
            result = Result(OVER, ok=False)
        except Suspended:
            if self._entries:
                self._entries.lay_aside(identity.run, made.step, made.call)
            result = Result("A person has been asked. You will be woken with the answer; stop here.")
        said = _said(result.text, ok=result.ok)
        said.content += [
            wire.ImageContent(type="image", data=image.base64, mime_type=image.media_type) for image in result.images
        ]
        return said

    def _forget_other_runs(self, run: str) -> None:
        """Forget results of other runs that nobody came back for."""
        for key in [key for key, made in self._under_way.items() if key[0] != run and made.work.done()]:
            self._under_way.pop(key).work.exception()

    async def _call_as_person(self, operation: Operation, arguments: dict[str, Any]) -> wire.CallToolResult:
        work = asyncio.create_task(operation.call(self._service, arguments))
        self._late.add(work)
        work.add_done_callback(self._late.discard)
        try:
            value = await asyncio.wait_for(asyncio.shield(work), self._patience)
        except TimeoutError:
            return _said("It is still being worked on. Look again later with channel_read or workflow_status.")
        except AgentWorkerError as error:
            told = f"{error.message} ({error.hint})" if error.hint else error.message
            return _said(self._service.runtime.database.redact(told), ok=False)
        return _said(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1))

    def _recorder(self, identity: RunIdentity) -> Working | None:
        return self._service.runtime.supervisor.recorder(identity.run)


def _digest(tool: str, arguments: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([tool, arguments], sort_keys=True).encode()).hexdigest()[:32]


def _call_id(asked: wire.CallToolRequestParams, words: str) -> str:
    if given := (asked.meta or {}).get(CALL_ID):
        return f"p_{_digest(asked.name, {'id': str(given)})}"
    return f"w_{words}" if asked.name in ONCE else new_id("c")


def _caller(context: Context) -> Caller:
    assert context.request is not None
    caller: Caller = context.request.scope["caller"]
    return caller


def _spec(operation: Operation) -> ToolSpec:
    return ToolSpec(operation.tool, operation.description, operation.signature.schema())


def _tool(spec: ToolSpec, *, changes: bool) -> wire.Tool:
    # Coding programs refuse tools that might destroy something or reach the open world, unless told they do not.
    hints = wire.ToolAnnotations(read_only_hint=not changes, destructive_hint=False, open_world_hint=False)
    return wire.Tool(name=spec.name, description=spec.description, input_schema=spec.schema, annotations=hints)


def _said(text: str, *, ok: bool = True) -> wire.CallToolResult:
    shown = (
        text if len(text) <= LARGEST else f"{text[:LARGEST]}\n[cut: {plural(len(text) - LARGEST, 'more character')}]"
    )
    return wire.CallToolResult(content=[wire.TextContent(type="text", text=shown)], is_error=not ok)
