"""`mcp`: the daemon's tools for an AI tool that speaks MCP over standard input and output.

Each line is passed to the daemon's own MCP endpoint and its answer back; what concerns a project, and names none, is
about the one we are in.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from agent_worker.cli.call import here
from agent_worker.client.connection import Client, connect
from agent_worker.client.discovery import PROJECT_META
from agent_worker.core.errors import AgentWorkerError

_writing = threading.Lock()
_LISTEN = "subscriptions/listen"
_LONG = ("tools/call", "prompts/list", "prompts/get", _LISTEN)  # may take a while, or are about a project
_ACCEPT = {"Accept": "application/json, text/event-stream"}


@click.command()
@click.option("--project", help="The directory that is meant, where an editor starts this somewhere else.")
def mcp(project: str | None) -> None:
    """Serve the daemon to an AI tool over standard input and output.

    In that tool's configuration, use the command `agent-worker` with the argument `mcp`.
    """
    connect()  # so that a daemon that cannot be started is told before anything is asked
    # An editor without an open folder leaves its variable as it is.
    relay(_pass_on, prepare=partial(_in_project, project if project and os.path.isdir(project) else here()))


def relay(pass_on: Callable[[Any], None], *, prepare: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Pass on each line of our input, those that may take a while beside the others, until it ends."""
    under_way: list[threading.Thread] = []
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError:
            write({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}})
            continue
        if not isinstance(message, dict):
            told = "send one message at a time: there are no batches in this protocol"
            write({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": told}})
            continue
        if message.get("method") not in _LONG:
            pass_on(message)
            continue
        prepare(message)
        # Beside the others: whoever waits for an agent asks other things meanwhile.
        work = threading.Thread(target=pass_on, args=(message,), daemon=True)
        work.start()
        if message["method"] != _LISTEN:
            under_way = [each for each in under_way if each.is_alive()] + [work]
    for work in under_way:
        work.join()


def _pass_on(message: Any) -> None:
    is_request = isinstance(message, dict)
    try:
        client = connect()  # each time: it may be another daemon by now
        if is_request and (message.get("method") == _LISTEN or _meta(message).get("progressToken") is not None):
            _stream(client, message)
        else:
            _, answer = client.request("POST", "/mcp", message, headers=headers_of(message), timeout=60)
            if answer is not None:
                write(answer)
    except AgentWorkerError as error:
        if (told := failure(message, error)) is not None:
            write(told)


def write(message: Any) -> None:
    with _writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _stream(client: Client, message: dict[str, Any]) -> None:
    """Pass on an answer that is a stream: hints or progress as they come, and at last the answer itself."""
    for event in client.stream("POST", "/mcp", message, headers=headers_of(message), silence=86_400.0):
        write(json.loads(event.data))


def failure(message: Any, error: AgentWorkerError) -> Any:
    """The error that answers a message; None for one that wants no answer."""
    id = message.get("id") if isinstance(message, dict) else None
    return None if id is None else {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": error.message}}


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def headers_of(message: Any) -> dict[str, str]:
    """The newer protocol says in headers what is in the body, too."""
    said = _meta(message).get("io.modelcontextprotocol/protocolVersion") if isinstance(message, dict) else None
    if not isinstance(said, str):
        return _ACCEPT
    named = {"MCP-Protocol-Version": said, "Mcp-Method": str(message.get("method"))}
    params = message["params"]
    name = params.get("taskId") if str(message.get("method")).startswith("tasks/") else params.get("name")
    return _ACCEPT | named | ({"Mcp-Name": name} if isinstance(name, str) else {})


def _in_project(project: str, message: dict[str, Any]) -> None:
    params = message.setdefault("params", {})
    if isinstance(params, dict):
        params["_meta"] = {PROJECT_META: project} | _meta(message)
