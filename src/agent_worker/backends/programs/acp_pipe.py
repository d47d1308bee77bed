"""The pipes of a child as a transport of ACP's library, with our limits on what comes through them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agent_worker.backends.programs.runner import LINE_CAP, OUTPUT_MOST, ClockWatch, event_in
from agent_worker.core.errors import Refused
from agent_worker.processes.child import Child
from agent_worker.processes.streams import lines

_MOMENT = 0.3  # seconds


class PipeTransport:
    """A transport of the library over the pipes of a child, with our limits."""

    def __init__(self, child: Child, watch: ClockWatch) -> None:
        self.refused: Refused | None = None
        self._child = child
        self._watch = watch
        self._count = 0  # of messages that came
        self._lines = lines(child.stdout, cap=LINE_CAP, most=OUTPUT_MOST)

    async def send(self, message: dict[str, Any]) -> None:
        self._child.stdin.write(json.dumps(message).encode() + b"\n")
        await self._child.stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        try:
            async for line in self._lines:
                if (event := event_in(line)) is not None:
                    self._count += 1
                    self._watch.heard()
                    return event
        except Refused as error:
            self.refused = error
        return None

    async def quiet(self) -> None:
        """Wait until nothing has come for a moment."""
        heard = -1
        while heard != self._count:
            heard = self._count
            await asyncio.sleep(_MOMENT)

    async def close(self) -> None:
        self._child.stdin.close()
