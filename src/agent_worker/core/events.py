"""What happened, told after it was committed, and the bus that tells it.

An event is a hint to look, and a line in a live view; the database is the record. Listeners are called in
the event loop, in the order of commits. How a client follows events, from where it was, is told in service/events.py.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Any, ClassVar, TypeVar

from agent_worker.core.later import dataclass, pattern

E = TypeVar("E", bound="Event")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    event: ClassVar[str] = "event"
    kept: ClassVar[bool] = True  #: stored, so that a stream can go on after a break
    project: str = ""  #: the id of the project it happened in: a transaction knows it
    workspace: str | None = None  #: the workspace it happened in; None is personal context
    number: int = 0  #: its place among all stored events; 0 for one that is not stored

    def as_record(self) -> dict[str, object]:
        """The event as plain values, for JSON."""
        record: dict[str, object] = {"event": self.event}
        for name in _names(type(self)):
            record[name] = getattr(self, name)
        return record

    def as_stored(self) -> str:
        """The event as one line of ASCII: whatever is in it, the group it is committed with can be stored."""
        return json.dumps(self.as_record())

    def redacted(self, redact: Callable[[str], str]) -> Event:
        """The same event without secrets in what somebody wrote."""
        changed: dict[str, Any] = {}
        for name in _texts(type(self)):
            said = getattr(self, name)
            if (hidden := redact(said)) is not said:
                changed[name] = hidden
        return replace(self, **changed) if changed else self


BEGINNING = "beginning"  #: the position before the first event
_POSITION = pattern(r"e_([0-9a-f]{1,15})")


def position_of(number: int) -> str:
    """The place of an event, as an opaque text that clients give back."""
    return f"e_{number:x}"


def number_at(position: str) -> int | None:
    """The place of an event by what a client was told of it; None for a text that is not ours."""
    if position == BEGINNING:
        return 0
    known = _POSITION.fullmatch(position)
    return int(known[1], 16) if known else None


#: What is no free text: ids, names, one of a few words. Any other string of an event is looked through for secrets.
PLAIN = frozenset(
    {
        "project",
        "workspace",
        "agent",
        "name",
        "run",
        "instruction",
        "id",
        "sender",
        "creator",
        "voter",
        "author",
        "revision",
    }
    | {"kind", "state", "host", "node"}
)

_known: dict[type[Event], tuple[str, ...]] = {}  # asked for every event, and `fields` is slow
_free: dict[type[Event], tuple[str, ...]] = {}


def _texts(kind: type[Event]) -> tuple[str, ...]:
    if kind not in _free:
        _free[kind] = tuple(each.name for each in fields(kind) if each.type == "str" and each.name not in PLAIN)
    return _free[kind]


def _names(kind: type[Event]) -> tuple[str, ...]:
    if kind not in _known:
        _known[kind] = tuple(field.name for field in fields(kind) if field.name != "number")
    return _known[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted(Event):
    """A message was posted. Stored without its text, which is in the channel, at `seq`."""

    event = "message"
    seq: int
    id: str
    sender: str
    text: str
    kind: str = "message"
    mentions: tuple[str, ...] = ()
    proposal: int | None = None  #: the number of the one it announces, or whose end it tells
    resource: str | None = None  #: where the whole text is, when it was long

    def as_stored(self) -> str:
        return '{"event": "message"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued(Event):
    event = "queued"
    agent: str
    instruction: str
    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """Something about one run. `name` is the agent's name, for people; `agent` its id."""

    agent: str
    name: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(RunEvent):
    event = "started"
    instruction: str
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(RunEvent):
    """Text as it is written. Never stored: the answer comes whole with its message."""

    event = "chunk"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Called(RunEvent):
    event = "tool_call"
    tool: str
    call: str = ""  #: the id of the call: its result comes under the same
    arguments: Mapping[str, Any] = field(default_factory=dict)  #: without secrets; long ones are cut
    own: bool = False  #: a coding program uses a tool of its own: we are told of it, and had no part in it


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(RunEvent):
    event = "tool_result"
    tool: str
    call: str = ""  #: the id of the call
    text: str
    ok: bool = True
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(RunEvent):
    event = "step"
    step: int
    tokens: int = 0
    usd: float = 0.0
    estimated: bool = False  #: the money rests on a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying(RunEvent):
    event = "retry"
    reason: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(RunEvent):
    event = "ended"
    instruction: str
    state: str
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChanged(Event):
    event = "agent"
    agent: str
    name: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitChanged(Event):
    """An agent that has work begins to wait, waits for something else, or waits no longer. Never stored."""

    event = "waiting"
    kept = False
    agent: str
    name: str
    what: str = ""  #: model | key | slot | person | disk | retry | program; '' when it waits no longer
    reason: str = ""
    since: int | None = None
    until: int | None = None  #: None when nobody knows


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceChanged(Event):
    event = "workspace"
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookAccepted(Event):
    """A webhook was accepted: something may be to start. For ourselves only."""

    event = "hook"
    kept = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Talked(Event):
    """A line was added to an agent's thread."""

    event = "talk"
    kept = False
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonalFileChanged(Event):
    """A file of an agent changed. Told only where several hosts share the files of agents."""

    event = "personal_file"
    agent: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChanged(Event):
    event = "document"
    name: str
    revision: str
    author: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKept(Event):
    event = "resource"
    id: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed(Event):
    """A question is put to the vote."""

    event = "proposal"
    id: str
    proposal: int  #: its number in the workspace
    text: str
    creator: str
    voters: tuple[str, ...]
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voted(Event):
    event = "vote"
    id: str
    proposal: int
    voter: str
    text: str  #: the option
    cast: int  #: how many have voted
    voters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Event):
    """A proposal came to its end."""

    event = "decision"
    id: str
    proposal: int
    state: str  #: resolved | expired | cancelled | vetoed
    text: str  #: the option that takes effect; '' for none
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItemAdded(Event):
    event = "inbox"
    id: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItemSettled(Event):
    """The person has answered an item of the inbox, or dismissed it."""

    event = "settled"
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostChanged(Event):
    """A daemon that shares the database began, ended, or was found dead: what it had is free."""

    event = "host"
    host: str
    node: str
    state: str  #: joined | left | dead


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensChanged(Event):
    """A door token was made or revoked, or a host has one checkout more, where tokens hold from now on."""

    event = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsChanged(Event):
    """What is approved of a project is something else now, on all hosts that share the database."""

    event = "approvals"
    host: str  #: that changed it
    answered: bool  #: a person said yes, or took it back; else only what is known of it has changed


def as_event(record: dict[str, Any], *, number: int) -> Event | None:
    """An event of another host by its record; None for one of a kind that only a newer version knows."""
    known = {kind.event: kind for kind in _kinds(Event)}
    kind = known.get(record["event"])
    if kind is None:
        return None
    values = {name: record[name] for name in _names(kind) if name in record}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return kind(**values, number=number)


def _kinds(base: type[Event]) -> Iterator[type[Event]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


class Bus:
    """Calls listeners with what happened, in this process."""

    def __init__(self) -> None:
        self.last = 0  #: number of the last event that was told, or was stored when the database was opened
        self._listeners: list[tuple[Callable[[Any], None], tuple[type[Event], ...]]] = []
        self._hearing: dict[type[Event], tuple[Callable[[Any], None], ...]] = {}  # who hears which, found once
        self._by_agent: dict[str, list[Callable[[Any], None]]] = {}
        self._waiting: list[Callable[[], None]] = []

    def when_closed(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call `tell` when the bus closes, because whatever is waited for will not happen then. The returned function
        cancels that.
        """
        self._waiting.append(tell)
        return lambda: self._waiting.remove(tell) if tell in self._waiting else None

    def close(self) -> None:
        """Tell those who wait that nothing more will happen."""
        for tell in tuple(self._waiting):
            tell()

    def listen(self, listener: Callable[[E], None], *kinds: type[E]) -> Callable[[], None]:
        """Call `listener` with every event of these kinds (of all, if none is named) from now on. The returned function
        cancels that.
        """
        entry = (listener, kinds or (Event,))
        self._listeners.append(entry)
        self._hearing.clear()

        def end() -> None:
            self._listeners.remove(entry)
            self._hearing.clear()

        return end

    def listen_about(self, agent: str, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call `listener` with every event that names this agent or none: what others do costs it nothing. The returned
        function cancels that.
        """
        self._by_agent.setdefault(agent, []).append(listener)

        def end() -> None:
            heard = self._by_agent[agent]
            heard.remove(listener)
            if not heard:
                del self._by_agent[agent]

        return end

    def _about(self, event: Event) -> Iterable[Callable[[Any], None]]:
        agent: str | None = getattr(event, "agent", None)
        if agent:
            return tuple(self._by_agent.get(agent, ()))
        return [listener for listeners in self._by_agent.values() for listener in listeners]

    def _who_hears(self, kind: type[Event]) -> tuple[Callable[[Any], None], ...]:
        if (known := self._hearing.get(kind)) is None:
            known = tuple(listener for listener, kinds in self._listeners if issubclass(kind, kinds))
            self._hearing[kind] = known
        return known

    def publish(self, event: Event) -> None:
        self.last = max(self.last, event.number)
        for listener in (*self._who_hears(type(event)), *self._about(event)):
            try:
                listener(event)
            except Exception:  # boundary: what is told was committed, and others wait for their answer
                log.exception("a listener failed at %s", event.event)
