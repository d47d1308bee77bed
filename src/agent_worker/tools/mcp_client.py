"""Connections to MCP servers: the official library, over guarded HTTP or over the pipes of a child of ours.

Importing the library takes more than a second, so this is itself only imported in a thread, by mcp_pool.py.
Nothing is tried twice here, and no token of ours is known here. What goes wrong is said in our errors: Transient when
there is no connection (any more), Refused when the server said no, BadInput when the definition cannot be right.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from importlib.metadata import version
from typing import Any

import httpx2
from mcp import Client, MCPError
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import MessageStream, create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Implementation,
    JSONRPCError,
    ResourceLink,
    TextContent,
    TextResourceContents,
    jsonrpc_message_adapter,
)
from mcp_types import Tool as ListedTool
from pydantic import ValidationError

from agent_worker.core.disk_space import amount
from agent_worker.core.errors import AgentWorkerError, Refused, Transient
from agent_worker.core.outbound import IPAddress, checked_addresses, proxy_for
from agent_worker.core.text import plural
from agent_worker.processes.child import Child, start
from agent_worker.processes.environment import safe_environment
from agent_worker.processes.streams import Ends, lines
from agent_worker.tools.images import MOST, Image, image_of, why_not
from agent_worker.tools.mcp_server import ANSWER_CAP, OFFERS_CAP, SHOWN, McpProgram, McpRemote, Offer, Server
from agent_worker.tools.tool import Result


def pinned(request: httpx2.Request, address: IPAddress) -> httpx2.Request:
    """This request, sent to this address; certificate and Host stay those of the name."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


DESCRIBED = 4096  #: characters of a description that the model gets to read
SCHEMA_CAP = 32 * 1024
REASON = 500
PARTING = 2.0  #: seconds for a server to end by itself

Lost = Callable[[str], None]  #: told once, why, when a connection ends by itself


@asynccontextmanager
async def connect(server: Server, lost: Lost) -> AsyncIterator[Link]:
    """An open connection. Must be left by the task that entered it."""
    try:
        async with Client(_transport(server, lost), client_info=_who_we_are()) as client:
            # A server's pattern for its own answers could hold up our event loop for ever; the model judges them.
            client.session.validate_tool_result = _taken_as_it_is  # type: ignore[method-assign]
            yield Link(client)
    except AgentWorkerError:
        raise
    except Exception as error:  # boundary: the library lets through whatever broke, and in groups
        cause = _first(error)
        raise cause if isinstance(cause, AgentWorkerError) else Transient(_reason(cause)) from None


class Link:
    """What can be asked of a server while it is connected."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def offers(self) -> list[Offer]:
        with _in_our_words():
            if self._client.server_capabilities.tools is None:
                return []
            page = await self._client.list_tools()
            listed = page.tools
            while page.next_cursor and page.tools and len(listed) < OFFERS_CAP:
                page = await self._client.list_tools(cursor=page.next_cursor)
                listed = [*listed, *page.tools]
        return [_offer(tool) for tool in listed[:OFFERS_CAP] if len(json.dumps(tool.input_schema)) <= SCHEMA_CAP]

    async def call(self, tool: str, arguments: dict[str, Any]) -> Result:
        with _in_our_words():
            result = await self._client.call_tool(tool, arguments)
        pictures = await asyncio.to_thread(_pictures, result)
        return Result(_shown(result, pictures), not result.is_error, tuple(filter(None, pictures)))


def _transport(server: Server, lost: Lost) -> Transport:
    match server:
        case McpRemote(url):
            return _over_http(url, lost)
        case McpProgram():
            return _over_pipes(server, lost)


# --- over HTTP ----------------------------------------------------------------------------------------


@asynccontextmanager
async def _over_http(url: str, lost: Lost) -> AsyncIterator[Any]:
    proxy = proxy_for(url, os.environ)
    if proxy is None:
        await _addresses(httpx2.URL(url))  # what can never be reached is the definition's fault, so said here
    certificates = await asyncio.to_thread(_certificates)
    wire = _GuardedTransport(
        httpx2.AsyncHTTPTransport(verify=certificates, proxy=proxy), pinned=proxy is None, lost=lost
    )
    # How long an answer may take is for whoever asks to say.
    timeout = httpx2.Timeout(None, connect=10, write=30)
    async with (
        httpx2.AsyncClient(transport=wire, timeout=timeout, headers={"user-agent": "agent-worker"}) as http,
        streamable_http_client(url, http_client=http, max_sse_event_size=ANSWER_CAP) as streams,
    ):
        yield streams


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends only to addresses we looked at. What fails comes back as an answer that says so: the library ends the
    whole connection, and everybody's calls with it, when a single request raises."""

    def __init__(self, wire: httpx2.AsyncBaseTransport, *, pinned: bool, lost: Lost) -> None:
        self._wire = wire
        self._pinned = pinned  # a proxy resolves names by itself
        self._lost = lost

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            # The stream of what a server says unasked stays open for ever, and says nothing that we use.
            return httpx2.Response(405)
        request.headers["accept-encoding"] = "identity"  # an answer that unpacks to gigabytes cannot be sent
        if request.method == "DELETE":  # a farewell
            request.extensions = {**request.extensions, "timeout": dict.fromkeys(("connect", "read", "write"), PARTING)}
        try:
            response = await _bounded(await self._send(request))
        except (httpx2.TransportError, AgentWorkerError, OSError) as error:
            return _refusal(_reason(error))
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            self._lost("the server no longer knows our session")
        if response.status_code >= 400 and not _says_why(response):
            return _refusal(f"it answered {response.status_code} {response.reason_phrase}")
        return response

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        if not self._pinned:
            return await self._wire.handle_async_request(request)
        *others, last = await _addresses(request.url)
        for address in others:
            with suppress(httpx2.ConnectError):  # localhost is two addresses, of which a server may serve one
                return await self._wire.handle_async_request(pinned(request, address))
        return await self._wire.handle_async_request(pinned(request, last))


async def _addresses(url: httpx2.URL) -> list[IPAddress]:
    """Where a name leads: this machine and its network are fine for an MCP server, the metadata of a cloud is not."""
    return await checked_addresses(url.host, url.port or (443 if url.scheme == "https" else 80), allow_local=True)


async def _bounded(response: httpx2.Response) -> httpx2.Response:
    """The answer, read to its end unless it is a stream of events, which the library bounds one by one."""
    if response.headers.get("content-encoding", "identity") != "identity":
        await response.aclose()
        raise Refused("it sent a compressed answer though it was asked not to")
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return response
    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        async for chunk in response.stream:
            body += chunk
            if len(body) > ANSWER_CAP:
                raise Refused(f"its answer is larger than {ANSWER_CAP:,} bytes")
    finally:
        await response.aclose()
    return httpx2.Response(response.status_code, headers=response.headers, content=bytes(body))


def _says_why(response: httpx2.Response) -> bool:
    try:
        return isinstance(jsonrpc_message_adapter.validate_json(response.content, by_name=False), JSONRPCError)
    except ValueError:
        return False


def _refusal(why: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": why}}
    return httpx2.Response(502, json=error)


@cache
def _certificates() -> Any:
    return httpx2.create_ssl_context()  # takes long to read


# --- over pipes ---------------------------------------------------------------------------------------


@asynccontextmanager
async def _over_pipes(program: McpProgram, lost: Lost) -> AsyncIterator[MessageStream]:
    said = Ends(4096)
    async with (
        create_client_server_memory_streams() as (ours, theirs),
        start(
            program.command,
            cwd=program.cwd,
            env=safe_environment(program.env),
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as child,
    ):
        hearing = asyncio.create_task(_hear(child, theirs))
        speaking = asyncio.create_task(_speak(child, theirs))
        noting = asyncio.create_task(said.take_all(child.stderr))
        attending = asyncio.create_task(_attend(child, hearing, speaking, said, lost))
        try:
            yield ours
        finally:
            child.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(PARTING):
                    await child.exited.wait()
            tasks = (hearing, speaking, noting, attending)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _hear(child: Child, theirs: MessageStream) -> str:
    """Take in a server's messages until its output ends; returns why we stopped listening, '' at the end."""
    async for line in lines(child.stdout, cap=ANSWER_CAP):
        if len(line) > ANSWER_CAP:
            return f"it sent a message larger than {ANSWER_CAP:,} bytes"
        with suppress(ValueError):  # what it prints beside the protocol
            await theirs[1].send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
    return ""


async def _speak(child: Child, theirs: MessageStream) -> None:
    with suppress(OSError):  # it closed its input
        async for item in theirs[0]:
            if isinstance(item, SessionMessage):
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                child.stdin.write(f"{text}\n".encode())
                await child.stdin.drain()


async def _attend(
    child: Child, hearing: asyncio.Task[str], speaking: asyncio.Task[None], said: Ends, lost: Lost
) -> None:
    """Report why the connection is lost, as soon as the server ends or stops talking. Its output may outlast it, in the
    hands of its children.
    """
    exiting = asyncio.create_task(child.exited.wait())
    try:
        await asyncio.wait({exiting, hearing, speaking}, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done() and (why := hearing.result()):
            return lost(why)
        await asyncio.wait({exiting, hearing}, timeout=PARTING)  # the end of the others comes a moment later
        if not exiting.done():
            return lost("it closed its output" if hearing.done() else "it does not read what we say")
        last_words = said.text().strip()[-REASON:]
        lost(f"it ended with exit code {await child.wait()}{': ' if last_words else ''}{last_words}")
    finally:
        exiting.cancel()


# --- in our words -------------------------------------------------------------------------------------


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except MCPError as error:
        raise (Transient if error.code == CONNECTION_CLOSED else Refused)(_reason(error)) from None
    except (RuntimeError, ValidationError) as error:  # how the library says that an answer makes no sense
        raise Refused(_reason(error)) from None


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, MCPError | AgentWorkerError) else f"{type(error).__name__}: {error}"
    return text if len(text) <= REASON else f"{text[: REASON - 1]}…"


def _offer(tool: ListedTool) -> Offer:
    hints = tool.annotations
    return Offer(
        name=tool.name,
        description=(tool.description or tool.title or tool.name)[:DESCRIBED],
        schema=tool.input_schema,
        repeatable=hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
    )


def _pictures(result: CallToolResult) -> list[Image | None]:
    """For each part of a result the picture that it is, as far as a model can be shown it."""
    found: list[Image | None] = []
    for part in result.content:
        image = image_of(part.data) if isinstance(part, ImageContent) else None
        shows = image is not None and not why_not(image) and len(list(filter(None, found))) < MOST
        found.append(image if shows else None)
    return found


def _shown(result: CallToolResult, pictures: Sequence[Image | None]) -> str:
    parts = zip(result.content, pictures, strict=True)
    text = "\n".join(f"[{picture}]" if picture else _as_text(part) for part, picture in parts)
    if not text and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    if len(text) > SHOWN:
        return f"{text[:SHOWN]}\n[… {plural(len(text) - SHOWN, 'character')} left out …]"
    return text or "(no output)"


def _as_text(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return f"[{uri}]\n{text}"
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}: not text]"
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case _:
            size = amount(len(block.data) // 4 * 3)
            return f"[{block.type}, {block.mime_type}, {size}: not shown]"


@cache
def _who_we_are() -> Implementation:
    return Implementation(name="agent-worker", version=version("agent-worker"))


async def _taken_as_it_is(name: str, result: CallToolResult) -> None:
    pass
