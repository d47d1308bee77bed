"""`mcp`: the daemon's tools for an AI tool that speaks MCP over standard input and output.

Each line is passed to the daemon's own MCP endpoint and its answer back; calls without a project get the one we are in.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import click

from agent_worker.cli.call import here
from agent_worker.core.errors import AgentWorkerError

_writing = threading.Lock()
_ACCEPT = {"Accept": "application/json, text/event-stream"}


@click.command()
def mcp() -> None:
    """Serve the daemon to an AI tool over standard input and output.

    In Claude Code: claude mcp add agent-worker -- agent-worker mcp
    """
    from agent_worker.client.connection import connect

    client = connect()
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError:
            _write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}})
            continue
        if isinstance(message, dict) and message.get("method") == "subscriptions/listen":
            threading.Thread(target=_listen, args=(client, message), daemon=True).start()
        elif (answer := _answer(client, message)) is not None:
            _write(answer)


def _write(message: Any) -> None:
    with _writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _listen(client: Any, message: dict[str, Any]) -> None:
    """Its answer is a stream: hints as they come, and at last the answer itself."""
    try:
        for event in client.stream("POST", "/mcp", message, headers=_headers(message), silence=86_400.0):
            _write(json.loads(event.data))
    except AgentWorkerError as error:
        _write(_failure(message, error))


def _answer(client: Any, message: Any) -> Any:
    if isinstance(message, dict) and message.get("method") == "tools/call":
        _in_this_project(message)
    try:
        _, answer = client.request("POST", "/mcp", message, headers=_headers(message), timeout=60)
    except AgentWorkerError as error:
        return _failure(message, error)
    return answer


def _failure(message: Any, error: AgentWorkerError) -> Any:
    """The error that answers a message; None for one that wants no answer."""
    id = message.get("id") if isinstance(message, dict) else None
    return None if id is None else {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": error.message}}


def _headers(message: Any) -> dict[str, str]:
    """The newer protocol says in headers what is in the body, too."""
    params: dict[str, Any] = message.get("params") or {} if isinstance(message, dict) else {}
    meta = params.get("_meta")
    said = meta.get("io.modelcontextprotocol/protocolVersion") if isinstance(meta, dict) else None
    if not isinstance(said, str):
        return _ACCEPT
    named = {"MCP-Protocol-Version": said, "Mcp-Method": str(message.get("method"))}
    if isinstance(params.get("name"), str):
        named["Mcp-Name"] = params["name"]
    return _ACCEPT | named


def _in_this_project(message: dict[str, Any]) -> None:
    params = message.get("params")
    if isinstance(params, dict):
        arguments = params.get("arguments") or {}
        if isinstance(arguments, dict) and params.get("name") != "inbox_answer":
            params["arguments"] = {"project": here()} | arguments
