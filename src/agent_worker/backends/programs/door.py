"""How a program reaches our tools: an address and a token that is good for one run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Entry:
    url: str  #: of our MCP endpoint
    token: str
    listed: asyncio.Event = field(default_factory=asyncio.Event)  #: the program has asked for the tools


class ToolDoor(Protocol):
    def open(self, run: str) -> Entry:
        """For a run that is being worked on. It ends with the run."""
        ...
