"""Whoever started the daemon waits on a pipe for one word: ready, or why not."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import suppress
from typing import Any

from agent_worker.client import discovery
from agent_worker.core.errors import AgentWorkerError
from agent_worker.daemon.process.front import shown


class Starter:
    """Whoever started the daemon and waits for a word; nobody when a person started it."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    @classmethod
    def from_environment(cls) -> Starter:
        given = os.environ.pop(discovery.READY_VARIABLE, "")  # our own children do not need it
        with suppress(ValueError, OSError):
            if stat.S_ISFIFO(os.fstat(int(given)).st_mode):
                os.set_inheritable(int(given), False)
                return cls(int(given))
        return cls(None)

    def ready(self, instance: str) -> None:
        self._tell({"ready": instance})

    def refuse(self, error: AgentWorkerError, code: int) -> int:
        if self._pipe is None:
            hint = f"\n  hint: {error.hint}" if error.hint else ""
            print(f"error: {error.message}{hint}", file=sys.stderr, flush=True)
        self._tell({"error": shown(error)})
        return code

    def _tell(self, word: dict[str, Any]) -> None:
        if self._pipe is None:
            return
        with suppress(OSError):  # it did not wait
            os.write(self._pipe, json.dumps(word).encode() + b"\n")
        os.close(self._pipe)
        self._pipe = None
