"""An agent's leave to call the provider of its model: the pass of the gate of its key, which one loop holds at a time.

Who may pass, and when, is decided in limiter.py; what a loop does while it waits is in admission.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent_worker.agents.limiter import Limiter, Pass
from agent_worker.core.errors import Overloaded

CLOSED = "the provider of its model asked all who use this key to come back later"
NARROW = "others with the same key go first: its provider had refused them, and they are let in gradually"


class KeyPass:
    def __init__(self, limiter: Limiter, longest_wait: Callable[[], float]) -> None:
        self.answered = False  #: has the model answered anything in the run that is under way?
        self._limiter = limiter
        self._longest_wait = longest_wait  # seconds, as the project's settings say now
        self._given: Pass | None = None

    @asynccontextmanager
    async def held(self, credential: str) -> AsyncIterator[None]:
        self._given = await self._limiter.enter(credential)
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            self._limiter.leave(given)

    @asynccontextmanager
    async def one_request(self, credential: str) -> AsyncIterator[None]:
        """One request to a model, through the gate of its key. That is left before any tool is called."""
        given = self._given = self._pass_for(credential)
        try:
            yield
            self.answered = True
            if given is not None:
                self._limiter.succeeded(given)
        except Overloaded as failure:
            if credential:  # before we leave: nobody is let in because we were refused
                asked = failure.retry_after and min(failure.retry_after, self._longest_wait())
                self._limiter.refused(credential, asked or None)
            raise
        finally:
            self._leave()

    def _pass_for(self, credential: str) -> Pass | None:
        """The pass that we came in with, or another one; None for a model without a key."""
        if self._given is not None and self._given.credential == credential:
            return self._given
        self._leave()
        if not credential:
            return None
        if (given := self._limiter.enter_at_once(credential)) is None:
            opens = self._limiter.opens_in(credential)
            raise Overloaded(CLOSED if opens else NARROW, retry_after=opens or None)
        return given

    def may_call(self) -> bool:
        return self._given is None or self._limiter.still_open(self._given)
