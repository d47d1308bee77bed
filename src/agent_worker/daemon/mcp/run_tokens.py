"""Our side of the door for programs: who holds which token, and what we know of how they use it.

Above: server.py tells what came in by a token. Below: the request guard's tokens. A program's entry ends with its run.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_worker.backends.programs.program import TOOLS_PATH, ToolEndpoint
from agent_worker.core.errors import Fenced
from agent_worker.core.events import Bus, Ended, Retrying, RunEvent
from agent_worker.daemon.http.request_guard import Tokens
from agent_worker.tools.tool import Call, RunIdentity


class RunTokens:
    def __init__(self, tokens: Tokens, origin: str) -> None:
        self._tokens = tokens
        self._url = origin + TOOLS_PATH
        self._entries: dict[str, ToolEndpoint] = {}  # by run
        #: The identity of a run that is under way here. Set when there is a runtime.
        self.identity_of: Callable[[str], RunIdentity | None] = lambda run: None
        self.expects: Callable[[], None] = lambda: None  #: told that somebody will come in soon

    def open(self, run: str) -> ToolEndpoint:
        identity = self.identity_of(run)
        if identity is None:
            raise Fenced(f"run {run} is over")
        self.expects()
        entry = self._entries[run] = ToolEndpoint(self._url, self._tokens.issue(identity), run)
        return entry

    def of(self, run: str) -> ToolEndpoint | None:
        return self._entries.get(run)

    def listed(self, run: str) -> None:
        if entry := self._entries.get(run):
            entry.listed.set()

    def lay_aside(self, run: str, step: int, call: Call) -> None:
        """Note that a call waits for a person: its program is to be ended until the answer is there."""
        if entry := self._entries.get(run):
            entry.unanswered = (step, call)
            entry.waiting.set()

    def follow(self, bus: Bus) -> Callable[[], None]:
        """From now on forget a run that ends, or is tried again; the returned function ends that."""
        return bus.listen(self._hear, Ended, Retrying)

    def _hear(self, event: RunEvent) -> None:
        self._entries.pop(event.run, None)
