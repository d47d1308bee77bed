"""`context`: the tools of a run, for a program that speaks no MCP. Who is calling is told by the run's token alone."""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import click

from agent_worker.cli.output import as_json_option, tell_json
from agent_worker.cli.typed import TextCommand
from agent_worker.client.discovery import RUN_TOKEN
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.core.text import clean

URL = "AGENT_WORKER_RUN_URL"


@click.group()
def context() -> None:
    """Use the tools of the run you are in, where there is no MCP.

    AGENT_WORKER_RUN_TOKEN says who you are, and AGENT_WORKER_RUN_URL where the tools are: both are set in your shell.
    """


@context.command()
@as_json_option
def tools(as_json: bool) -> None:
    """List the tools you have, with their arguments."""
    found = _ask("tools/list", {})["tools"]
    if as_json:
        return tell_json(found)
    for tool in found:
        takes = ", ".join(tool["inputSchema"].get("properties", {}))
        click.echo(clean(f"{tool['name']}({takes})\n    {tool['description'].splitlines()[0]}"))


@context.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
@as_json_option
def call(tool: str, arguments: str, as_json: bool) -> None:
    """Call any TOOL; its ARGUMENTS are a JSON object."""
    try:
        given = json.loads(arguments)
    except ValueError:
        raise BadInput("the arguments are not JSON", hint='such as {"text": "hello"}') from None
    _call(tool, as_json, **given)


@context.command(cls=TextCommand)
@click.argument("text")
@as_json_option
def send(text: str, as_json: bool) -> None:
    """Say TEXT in the channel."""
    _call("channel_send", as_json, text=text)


@context.command()
@as_json_option
def read(as_json: bool) -> None:
    """Read what is new to you in the channel."""
    _call("channel_read", as_json)


@context.command()
@as_json_option
def inbox(as_json: bool) -> None:
    """List what was sent to you and is still open."""
    _call("my_inbox", as_json)


@context.command(cls=TextCommand)
@click.argument("name", default="")
@click.option("--append", "text", help="Add this to its end.")
@as_json_option
def doc(name: str, text: str | None, as_json: bool) -> None:
    """Read the document NAME, or add to it."""
    if text is None:
        _call("team_doc_read", as_json, name=name)
    else:
        _call("team_doc_append", as_json, name=name, text=text)


@context.command()
def mcp() -> None:
    """Serve your tools over standard input and output, to a program that takes MCP servers only as commands."""
    from agent_worker.cli.mcp import failure, headers_of, relay, write

    _where()

    def pass_on(message: Any) -> None:
        try:
            if (answer := _request(message, headers_of(message))) is not None:
                write(answer)
        except AgentWorkerError as error:
            if (told := failure(message, error)) is not None:
                write(told)

    relay(pass_on)


def _call(tool: str, as_json: bool, /, **arguments: Any) -> None:
    result = _ask("tools/call", {"name": tool, "arguments": arguments})
    text = "\n".join(part["text"] for part in result["content"])
    if as_json:
        tell_json({"text": text, "ok": not result["isError"]})
    else:
        click.echo(clean(text), err=result["isError"])
    if result["isError"]:
        sys.exit(1)


def _ask(method: str, params: dict[str, Any]) -> Any:
    answer = _request({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, {})
    if "error" in answer:
        raise AgentWorkerError(str(answer["error"].get("message", "refused")))
    return answer["result"]


def _request(message: Any, headers: dict[str, str]) -> Any:
    """Ask as the program's own MCP client would: with what the run was given, and nothing of the person's."""
    from agent_worker.client.connection import request_with

    return request_with(*_where(), message, headers=headers)


def _where() -> tuple[str, str, int, str]:
    """The token of the run, and where its tools are."""
    token, url = os.environ.get(RUN_TOKEN), urlsplit(os.environ.get(URL, ""))
    if not token or not url.hostname or not url.port:
        told = f"{RUN_TOKEN} or {URL} is not set: they are set only where a program works as an agent"
        raise Refused(told, hint="everywhere else there are the other commands: agent-worker --help")
    return token, url.hostname, url.port, url.path
