"""The MCP door: the person's AI gets the operations, an agent at work gets the tools of its run.

Who is calling was decided by the request guard from the token; nothing in a request can change it. Stateless, in both
eras of the protocol; the answer is JSON, or a stream for whoever asks to be told of progress. Every call ends within
25 s: what takes longer goes on, and says how to ask for it again (person.py). Programs repeat calls when a stream
breaks under them: what was said with the same words in the same run is one call.
Importing this takes a second: daemon/http/app.py does it in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import mcp_types as wire
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from agent_worker.agents.supervisor import Working
from agent_worker.backends.backend import Suspended
from agent_worker.core.errors import Fenced
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.daemon.http.asgi import App, Message, Receive, Send
from agent_worker.daemon.http.request_guard import Caller
from agent_worker.daemon.mcp.hints import Hints, offered
from agent_worker.daemon.mcp.person import INSTRUCTIONS, PersonsTools
from agent_worker.daemon.mcp.results import said
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.daemon.mcp.tasks import Tasks
from agent_worker.service.service import Service
from agent_worker.service.tickets import PATIENCE
from agent_worker.tools.tool import Call, Result, RunIdentity, ToolSpec

log = logging.getLogger(__name__)

CALL_ID = "claudecode/toolUseId"  # by which claude names a call, also when it makes it again
#: What nobody means to say twice in the same words. Reading, on the other hand, is done again for what is new.
ONCE = frozenset(
    {"channel_send", "team_doc_append", "team_doc_suggest", "team_proposal_create", "resource_create", "ask_user"}
    | {"note_write", "todo_add", "memory_write", "feedback_submit"}
)
OVER = "your run is over: nothing you do counts any more"

Context = ServerRequestContext[Any]


def make(service: Service, entries: RunTokens | None = None, *, patience: float = PATIENCE) -> App:
    """The MCP server as an ASGI application. `entries` are told what programs do with their tokens."""
    tool_access = _Server(service, entries, patience)
    server: Server[Any] = Server(
        "agent-worker",
        version=version("agent-worker"),
        instructions=INSTRUCTIONS,
        on_list_prompts=tool_access.list_prompts,
        on_get_prompt=tool_access.get_prompt,
        on_list_tools=tool_access.list_tools,
        on_list_resources=tool_access.list_resources,
        on_read_resource=tool_access.read_resource,
        on_subscriptions_listen=tool_access.listen,
    )
    server.add_request_handler("tools/call", wire.CallToolRequestParams, tool_access.call_tool)  # or it is a task
    Tasks(service).serve(server)
    return _Transport(server)


class _Transport:
    """ASGI: one server behind two transports, of which one streams."""

    def __init__(self, server: Server[Any]) -> None:
        # Host and Origin were judged by the request guard, before anything was allocated.
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._plain, self._streaming = (
            StreamableHTTPSessionManager(server, json_response=plain, stateless=True, security_settings=security)
            for plain in (True, False)
        )
        self._life = Starlette(lifespan=self._running)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._life(scope, receive, send)
        first = await receive()
        body = first.get("body", b"")
        if body and not first.get("more_body") and (wrong := _wrong_with(body)):
            return await _refusal(wrong)(scope, receive, send)
        wants_progress = b'"progressToken"' in body
        manager = self._streaming if wants_progress else self._plain
        await manager.handle_request(scope, _again(first, receive), send)

    @asynccontextmanager
    async def _running(self, _: Starlette) -> AsyncIterator[None]:
        async with self._plain.run(), self._streaming.run():
            yield


def _wrong_with(body: bytes) -> str:
    """Why this is no message of the protocol, in a sentence: the library would recite the fields of its models."""
    try:
        message = json.loads(body)
    except ValueError:
        return ""  # that it says itself
    except RecursionError:
        return "the message has too many things inside each other"
    if isinstance(message, list):
        return "send one message at a time: there are no batches in this protocol"
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return 'a message is an object that says "jsonrpc": "2.0"'
    if not isinstance(message.get("id", 0), str | int | float | None):
        return "the id of a message is a text or a number"
    if "result" in message or "error" in message:
        return ""
    if not isinstance(message.get("method"), str):
        return "a request names its method, such as tools/list"
    return "" if isinstance(message.get("params", {}), dict | None) else "params must be an object"


def _refusal(wrong: str) -> JSONResponse:
    error = {"code": wire.INVALID_REQUEST, "message": wrong}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status_code=400)


def _again(first: Message, receive: Receive) -> Receive:
    """A `receive` that hands out a message that was read already, then what follows."""
    waiting = [first]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


@dataclass(frozen=True, slots=True)
class _Made:
    """A tool call of an agent that is under way."""

    step: int
    call: Call
    work: asyncio.Task[Result]


class _Server:
    def __init__(self, service: Service, entries: RunTokens | None, patience: float) -> None:
        self._service = service
        self._patience = patience
        self._entries = entries
        self._under_way: dict[tuple[str, str], _Made] = {}  # calls of agents, by run and words
        self._person = PersonsTools(service, patience)
        self._hints = Hints(service.runtime.bus, service.closing)

    async def list_tools(self, context: Context, _: object) -> wire.ListToolsResult:
        caller = _caller(context)
        if isinstance(caller, RunIdentity):
            recorder = self._recorder(caller)
            if self._entries:
                self._entries.listed(caller.run)
            specs = recorder.specs if recorder else ()
            return wire.ListToolsResult(tools=[_tool(spec) for spec in specs])
        return wire.ListToolsResult(tools=self._person.offered)

    async def call_tool(
        self, context: Context, asked: wire.CallToolRequestParams
    ) -> wire.CallToolResult | wire.InputRequiredResult | dict[str, Any]:
        caller = _caller(context)
        if isinstance(caller, RunIdentity):
            return await self._call_as_agent(caller, asked, dict(asked.arguments or {}))
        return await self._person.call(context, asked)

    async def list_prompts(self, context: Context, asked: wire.PaginatedRequestParams | None) -> wire.ListPromptsResult:
        """The prompts for the person's AI. Agents at work get none: what they are to do is in their own prompt."""
        if isinstance(_caller(context), RunIdentity):
            return wire.ListPromptsResult(prompts=[])
        return wire.ListPromptsResult(prompts=await self._person.prompts(asked.meta if asked else None))

    async def get_prompt(self, context: Context, asked: wire.GetPromptRequestParams) -> wire.GetPromptResult:
        if isinstance(_caller(context), RunIdentity):
            raise MCPError(wire.INVALID_PARAMS, f"there is no prompt {asked.name[:100]} here")
        return await self._person.prompt(asked)

    async def list_resources(self, context: Context, _: object) -> wire.ListResourcesResult:
        return wire.ListResourcesResult(resources=[offered(_caller(context))])

    async def read_resource(self, context: Context, asked: wire.ReadResourceRequestParams) -> wire.ReadResourceResult:
        """Read the inbox: the same words that the tool for it tells."""
        caller = _caller(context)
        if asked.uri != offered(caller).uri:
            raise MCPError(wire.INVALID_PARAMS, f"there is no {asked.uri} here; there is {offered(caller).uri}")
        tool = "my_inbox" if isinstance(caller, RunIdentity) else "inbox_list"
        told = await self.call_tool(context, wire.CallToolRequestParams(name=tool))
        assert isinstance(told, wire.CallToolResult)
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
            return said(OVER, ok=False)
        words = _digest(asked.name, arguments)
        call = Call(_call_id(asked, words), asked.name, arguments)
        step = recorder.step
        key = identity.run, words
        if key not in self._under_way:  # otherwise it is still being made: this is somebody asking for its result
            self._forget_other_runs(identity.run)
            self._under_way[key] = _Made(step, call, asyncio.create_task(recorder.call(step, call)))
        made = self._under_way[key]
        if not (await asyncio.wait({made.work}, timeout=self._patience))[0]:
            return said(f"{asked.name} is still working. Call it again with the same arguments to get its result.")
        self._under_way.pop(key, None)
        try:
            result = made.work.result()
        except Fenced:
            result = Result(OVER, ok=False)
        except Suspended:
            if self._entries:
                self._entries.lay_aside(identity.run, made.step, made.call)
            result = Result("A person has been asked. You will be woken with the answer; stop here.")
        answer = said(result.text, ok=result.ok)
        answer.content += [
            wire.ImageContent(type="image", data=image.base64, mime_type=image.media_type) for image in result.images
        ]
        return answer

    def _forget_other_runs(self, run: str) -> None:
        """Forget results of other runs that nobody came back for."""
        for key in [key for key, made in self._under_way.items() if key[0] != run and made.work.done()]:
            self._under_way.pop(key).work.exception()

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


def _tool(spec: ToolSpec) -> wire.Tool:
    """A tool of an agent. Its results are texts: programs show their models data in different ways, a text as it is."""
    # Coding programs refuse tools that might destroy something or reach the open world, unless told they do not.
    hints = wire.ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    return wire.Tool(name=spec.name, description=spec.description, input_schema=spec.schema, annotations=hints)
