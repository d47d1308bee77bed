"""`context`: the tools of a run, for a program that speaks no MCP. Who is calling is told by the run's token alone."""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import click

from agent_worker.cli.output import clean
from agent_worker.client.discovery import RUN_TOKEN
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused

URL = "AGENT_WORKER_RUN_URL"
#: A text may begin with a dash, so there are no options of one letter.
TEXT = {"ignore_unknown_options": True, "help_option_names": ["--help"]}


@click.group()
def context() -> None:
    """Use the tools of the run you are in, where there is no MCP.

    AGENT_WORKER_RUN_TOKEN says who you are, and AGENT_WORKER_RUN_URL where the tools are: both are set in your shell.
    """


@context.command()
def tools() -> None:
    """List the tools you have, with their arguments."""
    for tool in _ask("tools/list", {})["tools"]:
        takes = ", ".join(tool["inputSchema"].get("properties", {}))
        click.echo(clean(f"{tool['name']}({takes})\n    {tool['description'].splitlines()[0]}"))


@context.command()
@click.argument("tool")
@click.argument("arguments", default="{}")
def call(tool: str, arguments: str) -> None:
    """Call any TOOL; its ARGUMENTS are a JSON object."""
    try:
        given = json.loads(arguments)
    except ValueError:
        raise BadInput("the arguments are not JSON", hint='such as {"text": "hello"}') from None
    _call(tool, **given)


@context.command(context_settings=TEXT)
@click.argument("text")
def send(text: str) -> None:
    """Say TEXT in the channel."""
    _call("channel_send", text=text)


@context.command()
def read() -> None:
    """Read what is new to you in the channel."""
    _call("channel_read")


@context.command()
def inbox() -> None:
    """List what was sent to you and is not dealt with yet."""
    _call("my_inbox")


@context.command(context_settings=TEXT)
@click.argument("name", default="notes.md")
@click.option("--append", "text", help="Add this to its end.")
def doc(name: str, text: str | None) -> None:
    """Read the document NAME, or add to it."""
    if text is None:
        _call("team_doc_read", name=name)
    else:
        _call("team_doc_append", name=name, text=text)


def _call(tool: str, **arguments: Any) -> None:
    result = _ask("tools/call", {"name": tool, "arguments": arguments})
    click.echo(clean("\n".join(part["text"] for part in result["content"])), err=result["isError"])
    if result["isError"]:
        sys.exit(1)


def _ask(method: str, params: dict[str, Any]) -> Any:
    """Ask as the program's own MCP client would: with what the run was given, and nothing of the person's."""
    from agent_worker.client.connection import request_with

    token, url = os.environ.get(RUN_TOKEN), urlsplit(os.environ.get(URL, ""))
    if not token or not url.hostname or not url.port:
        told = f"{RUN_TOKEN} or {URL} is not set: they are, where a program works as an agent"
        raise Refused(told, hint="agent-worker send …")
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = request_with(token, url.hostname, url.port, url.path, message)
    if "error" in answer:
        raise AgentWorkerError(str(answer["error"].get("message", "refused")))
    return answer["result"]
