"""How a page comes to its token: by a code that is shown once, lives for a minute and is taken once.

The code stands after the `#` of an address, so no server and no log ever sees it there. Who asks for one has the
daemon's own token; who shows one gets a token that is as good as that. It outlives the daemon, so that a restart signs
nobody out: for thirty days, or until somebody signs out. Only its digest is kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets

from agent_worker.core.clock import Clock
from agent_worker.daemon.http.request_guard import Admin, Tokens
from agent_worker.files.root import Root

SECONDS = 60.0
SIGNED_IN = 30 * 24 * 3600 * 1_000_000  #: microseconds for which a page stays signed in
FILE = "page-tokens.json"  #: digest → when it ends; nobody else's to read
_MOST = 32  # that wait at once, and pages that are signed in

log = logging.getLogger(__name__)


class PageTokens:
    """The pages that are signed in, over restarts of the daemon."""

    def __init__(self, home: Root, tokens: Tokens, clock: Clock) -> None:
        self._home = home
        self._tokens = tokens
        self._clock = clock
        self._until = self._read()
        for digest in self._until:
            tokens.admit(bytes.fromhex(digest), Admin())

    def issue(self) -> str:
        token = self._tokens.issue(Admin())
        self._until[_digest(token).hex()] = self._clock.micros() + SIGNED_IN
        while len(self._until) > _MOST:
            oldest = next(iter(self._until))
            self._tokens.end(bytes.fromhex(oldest))
            del self._until[oldest]
        self._write()
        return token

    def end_all(self) -> int:
        """Sign out every page; returns how many they were."""
        ended = list(self._until)
        for digest in ended:
            self._tokens.end(bytes.fromhex(digest))
        self._until = {}
        self._write()
        return len(ended)

    def _write(self) -> None:
        self._home.replace(FILE, json.dumps(self._until))

    def _read(self) -> dict[str, int]:
        """The tokens that are still good. A file that cannot be read signs everybody out, and is written anew."""
        if not self._home.exists(FILE):
            return {}
        try:
            kept = {str(digest): int(until) for digest, until in json.loads(self._home.read_text(FILE)).items()}
            return {
                d: until for d, until in kept.items() if until > self._clock.micros() and len(bytes.fromhex(d)) == 32
            }
        except (ValueError, AttributeError, TypeError):
            log.warning("%s cannot be read: pages must sign in again", FILE)
            return {}


class LoginCodes:
    def __init__(self, pages: PageTokens, clock: Clock) -> None:
        self._pages = pages
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
        return self._pages.issue() if self._until.pop(_digest(code), None) is not None else None

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        self._until = {digest: until for digest, until in self._until.items() if until > now}


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()
