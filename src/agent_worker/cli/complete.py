"""Names for the shell's completion, asked of a running daemon; none is started for it, and failing is silent."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlencode

import click

from agent_worker.core.errors import AgentWorkerError


def addresses(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    names = agents(ctx, param, "") + [f"@{name}" for name in instances(ctx, param, "")]
    return [name for name in names if name.startswith(incomplete)]


def agents(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [a["name"] for a in _ask("/agents") if a["name"].startswith(incomplete)]


def workflows(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [w["name"] for w in _ask("/workflows") if w["name"].startswith(incomplete)]


def instances(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [i["name"] for i in _ask("/instances") if i["name"].startswith(incomplete.removeprefix("@"))]


def _ask(path: str) -> list[dict[str, Any]]:
    from agent_worker.client.connection import find

    try:
        client = find()
        if client is None:
            return []
        found: list[dict[str, Any]] = client.request("GET", f"{path}?{urlencode({'project': os.getcwd()})}", timeout=2)[
            1
        ]
        return found
    except (AgentWorkerError, OSError):
        return []
