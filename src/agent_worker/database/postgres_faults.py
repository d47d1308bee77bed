"""What an error of PostgreSQL means to us, and how long a server that is away is waited for.

For the writer and the readers of one database alike: postgres.py, postgres_readers.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

import psycopg

from agent_worker.core.errors import DiskFull, NotStored, StorageFault, Unreachable

log = logging.getLogger(__name__)

PATIENCE = 30.0  #: seconds that a change or a question waits for a server that is away
PAUSES = (0.0, 0.05, 0.1, 0.2)  # seconds between tries to reach it; the last again and again

#: Not ours to answer for, and gone when it is tried again: rivals, a pooler, a standby, a server that stops or starts.
_PASSING = (
    *("40001", "40P01", "55P03", "57014", "25006", "25P02", "25P03"),
    *("53300", "57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006"),
)


class Reachability:
    """Whether the server of a database can be reached, as all threads that ask it find."""

    def __init__(self, place: str, patience: float = PATIENCE) -> None:
        self.place = place  #: as people may read it
        self.trouble = ""  #: why it cannot be reached just now
        self.ending = threading.Event()  #: once set, no server is waited for
        self.patience = patience  #: seconds

    def wait_or_refuse(self, error: Exception, pause: float, began: float) -> None:
        """The server is away: wait a little, unless that was for too long already, or we are ending."""
        if not self.trouble:
            log.warning("%s does not answer: %s", self.place, said(error))
        self.trouble = said(error)
        waited = time.monotonic() - began
        if waited > self.patience or self.ending.wait(pause):
            raise self._unreachable() from None

    def _unreachable(self) -> Unreachable:
        told = f"the database at {self.place} cannot be reached: {self.trouble}; nothing was stored"
        return Unreachable(told, hint="agent-worker doctor; the daemon continues when the server is back")


def pauses() -> Iterator[float]:
    yield from PAUSES
    while True:
        yield PAUSES[-1]


def is_passing(error: psycopg.Error) -> bool:
    """Whether it is worth trying again: nothing is wrong with what was asked for."""
    if error.sqlstate is None:  # no word of the server: the connection is gone, or never came to be
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate in _PASSING


def fault_of(error: psycopg.Error, deed: str = "store") -> StorageFault:
    """How people are told of an error that will not pass."""
    if error.sqlstate == "53100":
        return DiskFull("the disk of PostgreSQL is full: nothing was stored", hint="free some space on its machine")
    return not_stored(error, deed)


def not_stored(error: Exception, deed: str = "store") -> NotStored:
    return NotStored(f"PostgreSQL did not {deed} this: {said(error)}", hint="agent-worker doctor")


def said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
