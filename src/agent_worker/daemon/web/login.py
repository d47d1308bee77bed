"""How a page comes to its token: by a code that is shown once, lives for a minute and is taken once.

The code stands after the `#` of an address, so no server and no log ever sees it there. Who asks for one has the
daemon's own token; who shows one gets a token that is as good as that, for as long as the daemon lives.
"""

from __future__ import annotations

import hashlib
import secrets

from agent_worker.core.clock import Clock
from agent_worker.daemon.http.request_guard import Admin, Tokens

SECONDS = 60.0
_MOST = 32  # that wait at once


class LoginCodes:
    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._until: dict[bytes, float] = {}  # digest → when it ends

    def make(self) -> str:
        self._forget_old()
        while len(self._until) >= _MOST:
            del self._until[next(iter(self._until))]
        code = secrets.token_urlsafe(24)
        self._until[_digest(code)] = self._clock.monotonic() + SECONDS
        return code

    def redeem(self, code: str) -> str | None:
        """A token for a page; None for a code that is wrong, old, or was used."""
        self._forget_old()
        return self._tokens.issue(Admin()) if self._until.pop(_digest(code), None) is not None else None

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        self._until = {digest: until for digest, until in self._until.items() if until > now}


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
