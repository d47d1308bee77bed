"""Calls of the daemon: found or started, asked, and its answer as plain data; and names for the shell's completion.

For a completion no daemon is started, and failing is silent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import click

from agent_worker.cli.output import echo
from agent_worker.client.connection import Client, connect
from agent_worker.client.discovery import KEYS_HEADER
from agent_worker.client.plain_http import DaemonEnded, ServerEvent
from agent_worker.core.errors import AgentWorkerError, Untrusted
from agent_worker.core.provider_variables import brought_by

_answered = [False]  # has a daemon been found?


class AllowOption(click.Option):
    """The option of a command that may allow an agent what the daemon has just refused it."""

    def allows(self, agent: str) -> bool:
        raise NotImplementedError


def call(method: str, path: str, /, *, timeout: float = 600.0, **arguments: Any) -> Any:
    """Ask the daemon, and return its answer. Arguments that are None are left out. The project is found from our
    directory."""
    client = _connected()
    target, body = _request(method, path, arguments)
    try:
        return client.request(method, target, body, timeout=timeout, headers=_keys())[1]
    except Untrusted:
        if not _is_allowed(arguments):
            raise
    return client.request(method, target, body, timeout=timeout, headers=_keys())[1]


def stream(method: str, path: str, /, *, last_event_id: str = "", **arguments: Any) -> Iterator[ServerEvent]:
    """The events of a request as they come, from the moment this has returned."""
    target, body = _request(method, path, arguments)
    try:
        return _connected().stream(method, target, body, last_event_id=last_event_id, headers=_keys())
    except Untrusted:
        if not _is_allowed(arguments):
            raise
    return _connected().stream(method, target, body, last_event_id=last_event_id, headers=_keys())


@contextmanager
def kept_if_it_ends(where: str) -> Iterator[None]:
    """A daemon that ends while it is waited for has kept what it accepted; `where` is the command that shows it."""
    try:
        yield
    except DaemonEnded as error:
        told = f"it is kept, and continues once the daemon runs again; this starts it: {where}"
        raise DaemonEnded(error.message, hint=told) from None


def is_answered() -> bool:
    """Whether a daemon has answered this command."""
    return _answered[0]


def _connected() -> Client:
    client = connect()
    _answered[0] = True
    if client.note:  # of a daemon that has just been started for us
        echo(f"note: {client.note}", err=True)
    return client


def _is_allowed(arguments: Mapping[str, Any]) -> bool:
    """Whether the person allows, here and now, what the daemon refused. Commands that ask declare `trust_option`."""
    context, name = click.get_current_context(silent=True), arguments.get("agent") or arguments.get("to")
    options = context.command.params if context and name else ()
    return any(isinstance(each, AllowOption) and each.allows(str(name)) for each in options)


def _keys() -> dict[str, str]:
    """The keys that the user has exported here: the daemon takes what it lacks. They travel only to a proven daemon."""
    brought = brought_by(os.environ)
    return {KEYS_HEADER: json.dumps(brought)} if brought else {}


def here() -> str:
    return os.getcwd()


def part(text: str) -> str:
    """A name as one segment of a URL's path."""
    return quote(text, safe="")


def _request(method: str, path: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    given = {name: value for name, value in arguments.items() if value is not None}
    if method in ("GET", "DELETE"):
        plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
        return (f"{path}?{urlencode(plain)}" if plain else path), None
    return path, given


__all__ = ["Client", "ServerEvent", "call", "here", "part", "stream"]


def addresses(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    names = agents(ctx, param, "") + [f"@{name}" for name in instances(ctx, param, "")]
    return [name for name in names if name.startswith(incomplete)]


def agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [a["name"] for a in _ask("/agents") if a["name"].startswith(incomplete)]


def workflows(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [w["name"] for w in _ask("/workflows") if w["name"].startswith(incomplete)]


def instances(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [i["name"] for i in _ask("/instances") if i["name"].startswith(incomplete.removeprefix("@"))]


def run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _begun(incomplete, [run["id"] for run in _ask("/runs", limit=100)])


def work_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The ids of work that can be cancelled."""
    return _begun(incomplete, [work["id"] for work in _ask("/instructions")])


def message_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The ids of the last messages in each channel, and of work that was given directly."""
    said = [_ask("/messages", at=f"@{name}", last="true", limit=30) for name in instances(ctx, param, "")]
    return _begun(incomplete, [line["id"] for lines in said for line in lines] + work_ids(ctx, param, incomplete))


def item_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Numbers and ids of what waits for the person."""
    items = _ask("/inbox")
    return _begun(incomplete, [str(item["number"]) for item in items] + [item["id"] for item in items])


def resource_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    at = ctx.params.get("workflow")
    return _begun(incomplete, [each["id"] for each in _ask("/resources", at=at)]) if at else []


def _begun(incomplete: str, words: list[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _ask(path: str, **more: Any) -> list[dict[str, Any]]:
    from agent_worker.client.connection import find

    try:
        client = find()
        if client is None:
            return []
        target = f"{path}?{urlencode({'project': os.getcwd(), **more})}"
        found: list[dict[str, Any]] = client.request("GET", target, timeout=2)[1]
        return found
    except (AgentWorkerError, OSError):
        return []
