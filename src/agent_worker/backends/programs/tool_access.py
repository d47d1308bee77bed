"""How a program reaches our tools: an address and a token that is good for one run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from agent_worker.tools.tool import Call


@dataclass(slots=True)
class ToolEndpoint:
    url: str  #: of our MCP endpoint
    token: str = field(repr=False)
    listed: asyncio.Event = field(default_factory=asyncio.Event)  #: the program has asked for the tools
    waiting: asyncio.Event = field(default_factory=asyncio.Event)  #: a call waits for a person: lay the work aside
    unanswered: tuple[int, Call] | None = None  #: that call, with its step


class ToolAccess(Protocol):
    def open(self, run: str) -> ToolEndpoint:
        """For a run that is being worked on. It ends with the run."""
        ...
