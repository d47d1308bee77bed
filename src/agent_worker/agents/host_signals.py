"""What hosts that share a database tell each other while it happens: closed gates, who waits, text as it is written.

Nothing of it needs to last, and nobody waits for it. Closed gates and waits are rows that all hosts look at when they
are told to. Text and tool calls go only to hosts on which somebody watches, joined to a piece ten times a second: what
is lost on the way comes whole with the answer. What comes from another host is published on the bus here, and never
told on. How the words travel: database/signal_rows.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from agent_worker.agents.limiter import Limiter
from agent_worker.agents.waiting import Waiting, WaitingAgent, Waits, WaitsFor
from agent_worker.core.errors import StorageFault
from agent_worker.core.events import Bus, Called, Delta, Event, Returned, WaitChanged, as_event
from agent_worker.core.later import dataclass
from agent_worker.database import signal_rows
from agent_worker.database.database import WholeTransaction
from agent_worker.database.event_rows import CHANNEL
from agent_worker.database.signal_rows import LONGEST, ClosedGate, SignalDoor, Signals, WaitElsewhere

log = logging.getLogger(__name__)

JOINED = 0.1  #: seconds in which text becomes one piece
SOON = 0.005  # seconds: what is said together is told together
AGAIN = 2.0  # seconds until what could not be told is tried again
_Written = Delta | Called | Returned


@dataclass(slots=True)
class _Unsaid:
    """What is still to be told."""

    gates: dict[str, ClosedGate] = field(default_factory=dict)
    waits: dict[str, WaitChanged] = field(default_factory=dict)  # by agent: the last word counts
    pieces: list[_Written] = field(default_factory=list)


class HostSignals:
    def __init__(self, me: str, door: SignalDoor, bus: Bus, limiter: Limiter, waits: Waits) -> None:
        self._me = me
        self._door = door
        self._bus = bus
        self._limiter = limiter
        self._waits = waits
        self._unsaid = _Unsaid()
        self._watching: Counter[str] = Counter()  # here, by project; '' is all of them
        self._known: set[str] = set()  # of these, what the others were told
        self._watchers: dict[str, frozenset[str]] = {}  # hosts, by project
        self._listening = False  # to another host: what is published meanwhile is not ours to tell
        self._timer: asyncio.TimerHandle | None = None
        self._delay = 0.0  # seconds that it was set to
        self._tasks: set[asyncio.Task[None]] = set()
        self._telling = asyncio.Lock()
        self._closed = False
        limiter.closed = self._gate_closed
        self._unlisten = bus.listen(self._hear, Delta, Called, Returned, WaitChanged)

    async def close(self) -> None:
        self._closed = True
        self._unlisten()
        if self._timer:
            self._timer.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._door.close()

    # --- telling --------------------------------------------------------------------------------------

    def watch(self, project: str) -> Callable[[], None]:
        """Somebody follows what is written in a project ('': in all) until the returned function is called."""
        self._count(project, 1)
        ends = iter((lambda: self._count(project, -1),))
        return lambda: next(ends, _nothing)()

    def _count(self, project: str, by: int) -> None:
        self._watching[project] += by
        if (project in self._known) != (self._watching[project] > 0):
            self._tell_in(SOON if by > 0 else AGAIN)  # who asks again in a moment finds all as it was

    async def tell(self) -> None:
        """Tell all that is unsaid now: so that it is heard before what is committed after this."""
        async with self._telling:
            unsaid, self._unsaid = self._unsaid, _Unsaid()
            begun = {project for project, count in self._watching.items() if count > 0} - self._known
            ended = {project for project in self._known if self._watching[project] <= 0}
            if not (unsaid.gates or unsaid.waits or unsaid.pieces or begun or ended):
                return
            words = _Words(self._me, unsaid, begun, ended, [*self._addressed(unsaid.pieces)])
            try:
                await self._door.tell(words.say)
            except StorageFault as error:
                log.warning("%s", error.message)
                self._put_back(unsaid)
            else:
                self._known = (self._known | begun) - ended

    def _put_back(self, unsaid: _Unsaid) -> None:
        """Text that could not be told is not worth a second try. All else is, unless more was said about it since."""
        self._unsaid.gates = unsaid.gates | self._unsaid.gates
        self._unsaid.waits = unsaid.waits | self._unsaid.waits
        self._tell_in(AGAIN)

    def _addressed(self, pieces: Sequence[_Written]) -> Iterator[tuple[str, str]]:
        # With a number: of two words that are the same PostgreSQL would tell one.
        words = ((piece.project, word) for piece in pieces for word in _short_enough(piece))
        for number, (project, word) in enumerate(words):
            payload = json.dumps(word | {"n": number})
            yield from ((host, payload) for host in self._who_watches(project))

    def _who_watches(self, project: str) -> frozenset[str]:
        return self._watchers.get(project, frozenset()) | self._watchers.get("", frozenset())

    def _gate_closed(self, key: str, seconds: float, refusals: int) -> None:
        self._unsaid.gates[key] = ClosedGate(key, seconds, refusals)
        self._tell_in(SOON)

    def _hear(self, event: Event) -> None:
        if self._listening:
            return
        match event:
            case WaitChanged():
                self._unsaid.waits[event.agent] = event
                self._tell_in(SOON)
            case Delta() | Called() | Returned() if self._watchers and self._who_watches(event.project):
                _join(self._unsaid.pieces, event)
                self._tell_in(JOINED)

    def _tell_in(self, seconds: float) -> None:
        if self._closed or (self._timer and self._delay <= seconds):
            return
        if self._timer:
            self._timer.cancel()
        self._delay = seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._go)

    def _go(self) -> None:
        self._timer = None
        task = asyncio.create_task(self.tell(), name="signals")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- hearing --------------------------------------------------------------------------------------

    def hear(self, signals: Signals) -> None:
        """Take in everything that other hosts signal now."""
        watchers: dict[str, set[str]] = {}
        for project, host in signals.watched:
            watchers.setdefault(project, set()).add(host)
        self._watchers = {project: frozenset(hosts) for project, hosts in watchers.items()}
        for gate in signals.gates:
            self._limiter.closed_elsewhere(gate.key, gate.seconds, gate.refusals)
        with self._from_elsewhere():
            self._waits.hear({wait.agent: _as_known(wait) for wait in signals.waits})

    def overhear(self, payload: str) -> None:
        """Publish here a piece of text that is being written on another host."""
        event = as_event(json.loads(payload), number=0)
        if event is not None:
            with self._from_elsewhere():
                self._bus.publish(event)

    @contextmanager
    def _from_elsewhere(self) -> Iterator[None]:
        self._listening = True
        try:
            yield
        finally:
            self._listening = False


@dataclass(frozen=True, slots=True)
class _Words:
    """What is told in one transaction."""

    me: str
    unsaid: _Unsaid
    begun: set[str]  # projects that are watched here from now on
    ended: set[str]
    addressed: list[tuple[str, str]]  # hosts, and what each hears

    def say(self, tx: WholeTransaction) -> None:
        for project in sorted(self.begun):
            signal_rows.watch(tx.of(project), self.me)
        for project in sorted(self.ended):
            signal_rows.unwatch(tx.of(project), self.me)
        for key in sorted(self.unsaid.gates):
            signal_rows.close_gate(tx, self.unsaid.gates[key], self.me)
        for agent in sorted(self.unsaid.waits):
            self._tell_wait(tx, self.unsaid.waits[agent])
        if self.begun or self.ended or self.unsaid.gates or self.unsaid.waits:
            signal_rows.notify(tx, CHANNEL, signal_rows.LOOK_AGAIN)
        for host, payload in self.addressed:
            signal_rows.notify(tx, signal_rows.ear_of(host), payload)

    def _tell_wait(self, tx: WholeTransaction, told: WaitChanged) -> None:
        rows = tx.of(told.project)
        if not told.what:
            return signal_rows.wait_no_longer(rows, told.agent, self.me)
        about = (told.project, told.agent, told.name, told.workspace)
        signal_rows.wait(rows, WaitElsewhere(*about, told.what, told.reason, told.since or 0, told.until), self.me)


def _join(pieces: list[_Written], event: _Written) -> None:
    last = pieces[-1] if pieces else None
    if isinstance(event, Delta) and isinstance(last, Delta) and last.run == event.run:
        pieces[-1] = replace(last, text=last.text + event.text)
    else:
        pieces.append(event)


def _short_enough(piece: _Written) -> Iterator[dict[str, object]]:
    """The words that tell a piece, none of them too long to be sent."""
    record = piece.as_record()
    if len(json.dumps(record)) <= LONGEST:
        yield record
    elif isinstance(piece, Delta) and len(piece.text) > 1:
        half = len(piece.text) // 2
        yield from _short_enough(replace(piece, text=piece.text[:half]))
        yield from _short_enough(replace(piece, text=piece.text[half:]))
    elif isinstance(piece, Called) and piece.arguments:
        yield from _short_enough(replace(piece, arguments={}))  # a live view can do without
    elif isinstance(piece, Returned) and len(piece.text) > 1:
        yield from _short_enough(replace(piece, text=piece.text[: len(piece.text) // 2]))


def _as_known(wait: WaitElsewhere) -> tuple[WaitingAgent, Waiting]:
    what: WaitsFor = wait.what  # type: ignore[assignment]  # a host of our own wrote it
    who = WaitingAgent(wait.project, wait.agent, wait.name, wait.workspace)
    return who, Waiting(what, wait.reason, wait.since, wait.until)


def _nothing() -> None:
    """Ends a watch that has ended before."""
