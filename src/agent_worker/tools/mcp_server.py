"""What an MCP server is to us: where it is found, what it offers, and how long we wait for it.

Plain values between the pool (mcp_pool.py) and the library (mcp_client.py). Knows neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentDefinition

ANSWER_CAP = 8 * 1024 * 1024  #: bytes of one message of a server; pictures come as text
OFFERS_CAP = 200  #: tools of one server; models lose their way among more
SHOWN = 32 * 1024  #: characters of a result that the model gets to read


Check = Callable[[], None]  #: blocks


def _nothing() -> None:
    """Checks nothing: whoever embeds the runtime has decided for itself."""


@dataclass(frozen=True, slots=True)
class McpRemote:
    """A server that is there already."""

    url: str

    def __str__(self) -> str:
        return self.url.partition("?")[0]  # what follows may be a key


@dataclass(frozen=True, slots=True)
class McpProgram:
    """A server that we start, and talk to through its pipes."""

    command: tuple[str, ...]
    cwd: Path
    env: tuple[str, ...] = ()  #: variables it may see beyond the safe base set
    check: Check = field(default=_nothing, compare=False, repr=False)  #: right before each start; raises if it may not

    def __str__(self) -> str:
        return " ".join(self.command)


#: Whoever names the same one shares its connection.
Server = McpRemote | McpProgram


@dataclass(frozen=True, slots=True)
class Times:
    """How long each part of talking with a server may take, in seconds."""

    connect: float = 30
    listing: float = 30
    call: float = 9 * 60
    idle: float = 10 * 60  #: kept open unused


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it."""

    name: str
    description: str
    schema: dict[str, Any]
    repeatable: bool  #: by its own account it changes nothing, or nothing more when called again


def servers_of(definition: AgentDefinition, root: Path, check: Check = _nothing) -> dict[str, Server]:
    """The servers a definition names, by the names it gives them."""
    return {
        name: McpRemote(written.url)
        if written.url
        else McpProgram(written.command or (), root / definition.cwd, definition.env, check)
        for name, written in definition.mcp_servers.items()
    }
