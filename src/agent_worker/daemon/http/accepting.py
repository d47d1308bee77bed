"""How many connections there may be at once, and how they are taken: never more than there are descriptors for.

Connections for which there is no room yet wait in the kernel's queue, where they cost us nothing: none is cut. When
even those of our own clients are too many, further ones are answered with 503 and when to come again. Above: process.py
serves; connection.py is one connection.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

BACKLOG = 4096  #: connections that the kernel holds for us; it may allow fewer
CROWD = 2048  #: strangers that there may be for a moment
GLANCE = 2.0  #: seconds after which one that says nothing makes room for another, if there is no more
_BATCH = 64  # accepted at once: then others have their turn
_REFUSED = 64  # connections beyond the most that are told so
_REST = 1.0  # seconds without accepting when the system has nothing left
_LOOK = 0.25  # seconds until it is looked again who makes room
_QUIET = 60.0  # seconds between two lines of the log that say the same
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Allow this process as many open files as its user may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems promise more than they give
            return soft
    return hard if hard != resource.RLIM_INFINITY else 2**20


@dataclass(frozen=True, slots=True)
class Capacity:
    """What there is room for: the database, files and programs need descriptors too."""

    strangers: int
    connections: int

    @classmethod
    def within(cls, descriptors: int) -> Self:
        return cls(min(CROWD, descriptors // 4), min(2 * CROWD, descriptors // 2))


class AcceptedConnection(Protocol):
    def silent_for(self) -> float:
        """How many seconds this connection has kept us waiting; 0 when we keep it waiting."""
        ...

    def drop(self) -> None: ...


class Doorstep:
    """Keeps count of the open connections, which tell it themselves."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.strangers: dict[AcceptedConnection, None] = {}  # who came first stands first
        self.trusted: set[AcceptedConnection] = set()
        self.left: Callable[[], None] = lambda: None  #: somebody went, or is no stranger any more

    @property
    def is_crowded(self) -> bool:
        """Whether nobody else is let in for now."""
        everybody = len(self.strangers) + len(self.trusted)
        return len(self.strangers) >= self.capacity.strangers or everybody >= self.capacity.connections + _REFUSED

    @property
    def is_full(self) -> bool:
        """Whether whoever is let in is told to come again."""
        return len(self.strangers) + len(self.trusted) >= self.capacity.connections

    def came(self, who: AcceptedConnection) -> None:
        self.strangers[who] = None

    def trust(self, who: AcceptedConnection) -> None:
        if who in self.strangers:
            del self.strangers[who]
            self.trusted.add(who)
            self.left()

    def went(self, who: AcceptedConnection) -> None:
        self.strangers.pop(who, None)
        self.trusted.discard(who)
        self.left()

    def make_room(self) -> bool:
        """Let the first one go that came and says nothing. False: all of them may be about to."""
        found = next((each for each in self.strangers if each.silent_for() >= GLANCE), None)
        if found is None:
            return False
        del self.strangers[found]  # it is counted no longer, though it takes a moment to go
        found.drop()
        return True


class Accepting:
    def __init__(self, listener: socket.socket, make: Callable[[], asyncio.Protocol], doorstep: Doorstep) -> None:
        self._listener = listener
        self._make = make
        self._doorstep = doorstep
        self._loop = asyncio.get_running_loop()
        self._open = False
        self._resting: asyncio.TimerHandle | None = None
        self._told = -_QUIET
        self._greeting: set[asyncio.Task[object]] = set()
        doorstep.left = self._go_on
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._go_on()

    def close(self) -> None:
        self._doorstep.left = lambda: None
        self._pause()
        if self._resting is not None:
            self._resting.cancel()

    def _go_on(self) -> None:
        if not self._open and self._resting is None:
            self._open = True
            self._loop.add_reader(self._listener, self._accept)

    def _pause(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._listener)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            if self._doorstep.is_crowded and not self._doorstep.make_room():
                return self._rest(_LOOK)
            if len(self._greeting) >= self._doorstep.capacity.strangers:
                return self._pause()
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._tell(error)
                return self._rest(_REST)
            connection.setblocking(False)
            greeting = self._loop.create_task(self._greet(connection))
            self._greeting.add(greeting)
            greeting.add_done_callback(self._greeted)

    async def _greet(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # it has gone already
            connection.close()

    def _greeted(self, greeting: asyncio.Task[object]) -> None:
        self._greeting.discard(greeting)
        self._go_on()

    def _rest(self, seconds: float) -> None:
        """Accept nobody for a moment: open connections go on, the others wait in the kernel's queue."""
        self._pause()
        if self._resting is None:
            self._resting = self._loop.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._resting = None
        self._go_on()

    def _tell(self, error: OSError) -> None:
        if self._loop.time() - self._told >= _QUIET:
            self._told = self._loop.time()
            log.warning("no connection can be accepted now: %s. Those that come wait", error.strerror)
