"""Our tools as servers that a program which speaks ACP is offered: over HTTP, and by a process over stdio.

Some take servers over HTTP and forget to announce it; every one must take a process. A program that has no use for
tools, such as our own door with a team behind it, says so itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from acp.schema import EnvVariable, HttpHeader, HttpMcpServer, McpServerStdio

from agent_worker.backends.programs.json_fields import block
from agent_worker.backends.programs.program import SERVER, TOKEN, URL, ToolEndpoint

PATIENCE = 3.0  #: seconds for a program that has not announced HTTP to ask for our tools there
Servers = list[HttpMcpServer | McpServerStdio]


def announces_http(capabilities: Mapping[str, Any]) -> bool:
    return bool(block(capabilities, "mcpCapabilities").get("http"))


def wants_none(capabilities: Mapping[str, Any]) -> bool:
    """Whether it says that it uses no tools that it is offered: it answers in words alone."""
    return block(block(capabilities, "_meta"), "agent-worker").get("tools") is False


def over_http(entry: ToolEndpoint) -> Servers:
    token = HttpHeader(name="Authorization", value=f"Bearer {entry.token}")
    return [HttpMcpServer(type="http", name=SERVER, url=entry.url, headers=[token])]


def by_a_process(entry: ToolEndpoint) -> Servers:
    """`agent-worker context mcp`, which has the token of the run and nothing else of ours."""
    env = [EnvVariable(name=TOKEN, value=entry.token), EnvVariable(name=URL, value=entry.url)]
    arguments = ["-P", "-m", "agent_worker.cli", "context", "mcp"]
    return [McpServerStdio(name=SERVER, command=sys.executable, args=arguments, env=env)]
