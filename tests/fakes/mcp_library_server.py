"""An MCP server made with the official library. As a program it speaks through its pipes; `Served` puts it on loopback.

`Served(era="2025")` refuses the protocol of 2026, as the servers of today do, and so has sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import TracebackType
from typing import Any, Self

import mcp_types as types
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

READ_ONLY = types.ToolAnnotations(read_only_hint=True)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"  # one red dot
TOOLS = [
    types.Tool(name="echo", description="Say it again.", input_schema=TEXT, annotations=READ_ONLY),
    types.Tool(name="refuse", description="Say no.", input_schema=TEXT),
    types.Tool(name="raise", description="Break.", input_schema={"type": "object"}),
    types.Tool(name="much", description="Say a lot.", input_schema={"type": "object"}),
    types.Tool(name="picture", description="Show.", input_schema={"type": "object"}),
]


async def list_tools(
    ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """A page for each, as a server with many tools does it."""
    at = int(params.cursor) if params and params.cursor else 0
    following = str(at + 1) if at + 1 < len(TOOLS) else None
    return types.ListToolsResult(tools=[TOOLS[at]], next_cursor=following)


async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
    text = str((params.arguments or {}).get("text", ""))
    match params.name:
        case "echo":
            return _said(f"echo: {text}")
        case "much":
            return _said("much " * 100_000)
        case "picture":
            broken = types.ImageContent(type="image", data="AAAA", mime_type="image/png")
            picture = types.ImageContent(type="image", data=PICTURE, mime_type="image/jpeg")  # it does not know better
            return types.CallToolResult(content=[types.TextContent(type="text", text="look:"), broken, picture])
        case "raise":
            raise RuntimeError("out of cheese")
        case _:
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"no {text}")], is_error=True)


def _said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def server() -> Server[Any]:
    return Server("fake", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


class Served:
    """On loopback while the block lasts; keeps the headers of every request."""

    def __init__(self, *, era: str = "2026", port: int = 0, json_response: bool = True) -> None:
        self._era = era
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.requests: list[dict[str, str]] = []
        self._app = server().streamable_http_app(json_response=json_response)
        config = uvicorn.Config(self._asgi, interface="asgi3", log_level="critical", timeout_graceful_shutdown=1)
        self._uvicorn = uvicorn.Server(config)

    @property
    def greetings(self) -> int:
        """How often a client introduced itself."""
        return sum(r.get("mcp-method") == "server/discover" for r in self.requests)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._uvicorn.serve([self._listening]))
        while not self._uvicorn.started:  # noqa: ASYNC110 — it tells nobody
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._uvicorn.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _asgi(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append(headers)
            if self._era == "2025" and headers.get("mcp-protocol-version", "").startswith("2026"):
                await send({"type": "http.response.start", "status": 400, "headers": []})
                await send({"type": "http.response.body", "body": b"what is that?"})
                return
        await self._app(scope, receive, send)


async def main() -> None:
    async with stdio_server() as (read, write):
        here = server()
        await here.run(read, write, here.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
