"""Everything that happens, as a stream that goes on after a break: stored events first, then live ones.

The switch has neither gap nor repeat: we listen before we read the last of what is stored, and what was read is known
by its number. While much is to be read nothing is queued. A reader that falls behind is let go, and comes back with
the last number it saw. Text as it is written and tool calls are live only, and carry no number.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import Address
from agent_worker.core.errors import BadInput
from agent_worker.core.events import (
    BEGINNING,
    Bus,
    Called,
    Delta,
    Event,
    HookAccepted,
    Posted,
    Returned,
    Talked,
    number_at,
    position_of,
)
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database, Row, Transaction, WholeTransaction
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import Stream, StreamItem, operation
from agent_worker.service.service import Service
from agent_worker.work.threads import PERSONAL
from agent_worker.workspaces import channel, member_rows, workspace_rows

EVENTS_BEHIND = 1000
BYTES_BEHIND = 1024 * 1024
_LIVE = frozenset({Delta.event, Called.event, Returned.event})
_BATCH = 200  # events that one reader is given at once
_BATCH_BYTES = 32 * 1024  # and their size: so much of each reader may hang in memory


class Lagging(Exception):
    """A reader did not read fast enough and hears nothing more; it begins again from what is stored."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What of all that happens is wanted; None is everything."""

    kinds: frozenset[str] | None = None
    workspace: str | None = None  #: id; '' is personal context
    agent: str | None = None  #: id
    project: str | None = None  #: id
    anybodys: frozenset[str] = frozenset()  #: kinds that name no agent, and are wanted though one is

    def wants(self, kind: str, project: str, workspace: str | None, agent: str | None) -> bool:
        return (
            (self.kinds is None or kind in self.kinds)
            and (self.project is None or project == self.project)
            and (self.workspace is None or (workspace or "") == self.workspace)
            and (self.agent is None or agent == self.agent or kind in self.anybodys)
        )

    @property
    def is_live(self) -> bool:
        """Whether what is told live only is wanted."""
        return self.kinds is None or not _LIVE.isdisjoint(self.kinds)

    def wants_event(self, event: Event) -> bool:
        return self.wants(event.event, event.project, event.workspace, getattr(event, "agent", None))


EVERYTHING = Filter()


@operation("GET", "/events")
async def events(
    service: Service,
    after: str | None = None,
    at: str | None = None,
    kind: str | None = None,
    project: str | None = None,
) -> Stream:
    """Everything that happens from now on, or `after` an event: its id, or `beginning`.

    Narrowed to an address (`at=@review`, `alice`, `alice@review`), to kinds (`kind=message,step`) or to a `project`.
    """
    since = None if after is None else _number(after)
    if since is not None and since > await newest(service.runtime.database):
        since = None  # an id from the future: from now on, which is before we answer
    kinds = frozenset(kind.split(",")) if kind else None
    if at is not None:
        loaded = await service.project(project)
        place = await service.read(loaded, _place, loaded, await service.address(loaded, at))
        return EventStream(service, Filter(kinds, *place), after=since)
    whose = None if project is None else (await service.project(project)).id
    return EventStream(service, Filter(kinds, project=whose), after=since)


def _number(after: str) -> int:
    number = number_at(after)
    if number is None:
        raise BadInput(
            f"after: {after!r} is not the id of an event", hint=f"give the id of the last one, or {BEGINNING}"
        )
    return number


class EventStream:
    """What one reader of the operation `events` is told, batch by batch."""

    def __init__(self, service: Service, wanted: Filter, *, after: int | None) -> None:
        self._follower = Follower(service, wanted, until=service.closing)
        if after is None:
            self._follower.listen()
        else:
            self._follower.at = after

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        reason = "stopping"
        try:
            async for batch in self._follower:
                yield [StreamItem(e.kind, e.text, position_of(e.number) if e.number else "") for e in batch]
        except Lagging:
            reason = "lagging"
        yield [StreamItem("end", json.dumps({"event": "end", "reason": reason}), position_of(self._follower.at))]

    async def close(self) -> None:
        self._follower.close()


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as it was stored, or is told live."""

    kind: str
    text: str  #: the record, as JSON on one line
    number: int = 0

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self.text)
        return record


class Follower:
    """Batches of what is wanted, until `until` is set: what is stored after `at`, or all from the moment of `listen`.

    Raises Lagging; then `again` is one that goes on from there.
    """

    def __init__(self, service: Service, wanted: Filter, *, until: asyncio.Event, at: int = 0) -> None:
        self._service = service
        self._database = service.runtime.database
        self._bus = service.runtime.bus
        self._wanted = wanted
        self._until = until
        self._ear: _Listener | None = None
        self._unwatch: Callable[[], None] = _nothing
        self.at = at  #: the last number seen

    def listen(self) -> None:
        """Begin to listen now, not when the first batch is read. For what is caused after this and followed later."""
        self._ear = _Listener(self._bus, self._wanted, self._until)
        self._watch()

    def _watch(self) -> None:
        """Ask hosts that share the work to tell us what is written there."""
        if (signals := self._service.runtime.signals) and self._wanted.is_live:
            unwatch, self._unwatch = self._unwatch, signals.watch(self._wanted.project or "")
            unwatch()

    def narrow(self, wanted: Filter) -> None:
        """Want less from now on, also of what was heard already."""
        self._wanted = wanted
        if self._ear is not None:
            self._ear.narrow(wanted)
            self._watch()

    def again(self) -> Follower:
        self._unwatch()
        return Follower(self._service, self._wanted, until=self._until, at=self.at)

    def close(self) -> None:
        self._unwatch()
        if self._ear is not None:
            self._ear.close()

    async def __aiter__(self) -> AsyncGenerator[Sequence[EventRecord]]:
        if self._ear is None:
            kept = await self._database.read(_kept)
            if self.at < kept.oldest - 1:
                yield [_gap(self.at + 1, kept.oldest - 1)]
            async for batch in self._stored():
                yield batch
            self.listen()
            async for batch in self._stored():  # what came between our last look and our listening
                yield batch
        assert self._ear is not None
        while heard := await self._ear.heard():
            if fresh := self._fresh(heard):
                yield fresh

    async def rest(self) -> AsyncIterator[Sequence[EventRecord]]:
        """What has happened by now and was not handed out yet: what was heard, then what is stored and not yet told."""
        while self._ear is not None and (heard := self._ear.taken()):
            if fresh := self._fresh(heard):
                yield fresh
        async for batch in self._stored():
            yield batch

    async def _stored(self) -> AsyncIterator[Sequence[EventRecord]]:
        while not self._until.is_set():
            page = await self._database.read(_page, self.at, self._wanted)
            if page.last is None:
                return
            self.at = page.last
            if page.told:
                yield page.told

    def _fresh(self, heard: Sequence[Event]) -> list[EventRecord]:
        found = []
        for event in heard:
            if event.number:
                if event.number <= self.at:
                    continue
                self.at = event.number
            found.append(EventRecord(event.event, json.dumps(event.as_record()), event.number))
        return found


class _Listener:
    """Hears what is wanted from the moment it is made; holds so much and no more."""

    def __init__(self, bus: Bus, wanted: Filter, until: asyncio.Event) -> None:
        self._wanted = wanted
        self._until = until
        self._heard: deque[Event] = deque()
        self._bytes = 0
        self._behind = False
        self._stirred = asyncio.Event()
        self._bus = bus
        self._unlisten = self._listen()
        self._ending = asyncio.create_task(self._end())

    def _listen(self) -> Callable[[], None]:
        return (
            self._bus.listen_about(agent, self._hear) if (agent := self._wanted.agent) else self._bus.listen(self._hear)
        )

    def close(self) -> None:
        self._unlisten()
        self._unlisten = lambda: None
        self._ending.cancel()

    def narrow(self, wanted: Filter) -> None:
        self._wanted = wanted
        if not self._behind:
            self._unlisten()
            self._unlisten = self._listen()
        self._heard = deque(event for event in self._heard if wanted.wants_event(event))
        self._bytes = sum(map(_size, self._heard))

    async def heard(self) -> Sequence[Event]:
        """What was heard and not taken, once there is something; nothing when there will be no more."""
        while True:
            ended = self._until.is_set()  # looked at before the last of it is taken
            self._stirred.clear()
            if self._behind:
                raise Lagging
            if self._heard or ended:
                return self.taken()
            await self._stirred.wait()

    def taken(self) -> Sequence[Event]:
        """The next of what was heard; nothing when all of it was taken."""
        batch, size = list[Event](), 0
        while self._heard and len(batch) < _BATCH and size < _BATCH_BYTES:
            batch.append(self._heard.popleft())
            size += _size(batch[-1])
        self._bytes -= size
        return batch

    def _hear(self, event: Event) -> None:
        # These are for ourselves: what was said, and what was started, is told by other events.
        if isinstance(event, Talked | HookAccepted) or not self._wanted.wants_event(event):
            return
        self._heard.append(event)
        self._bytes += _size(event)
        if len(self._heard) > EVENTS_BEHIND or self._bytes > BYTES_BEHIND:
            self._behind = True
            self._heard.clear()
            self.close()
        self._stirred.set()

    async def _end(self) -> None:
        await self._until.wait()
        self._stirred.set()


def _nothing() -> None:
    """Ends a watch that nobody was told of."""


def _size(event: Event) -> int:
    """The size of an event, nearly: what is long in it is its text."""
    size, kind = 200, type(event)
    if (names := _LONG.get(kind)) is None:
        names = _LONG[kind] = [each.name for each in fields(kind) if each.name in ("text", "arguments", "reason")]
    for name in names:
        size += len(getattr(event, name))
    return size


_LONG: dict[type[Event], list[str]] = {}  # fields of each kind of event that may be long


def _gap(first: int, last: int) -> EventRecord:
    record = {"event": "gap", "first": first, "last": last}
    return EventRecord("gap", json.dumps(record), last)


async def newest(database: Database) -> int:
    return (await database.read(_kept)).newest


# --- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    oldest: int
    newest: int


def _kept(tx: WholeTransaction) -> _Kept:
    # Two questions, each answered by one end of the index; asked as one, all events would be looked at.
    row = tx.one(
        """select coalesce((select min(id) from event), 0) as oldest,
                  coalesce((select max(id) from event), 0) as newest"""
    )
    assert row is not None
    return _Kept(row["oldest"], row["newest"])


@dataclass(frozen=True, slots=True)
class _Page:
    told: Sequence[EventRecord]
    last: int | None  #: the number of the last that was looked at; None when there is no more


def _page(tx: WholeTransaction, after: int, wanted: Filter) -> _Page:
    """The next events, about as many as one may hold in memory for one reader."""
    rows = tx.all(
        """select id, project, workspace, seq, record from (
             select id, project, workspace, seq, record, sum(size) over (order by id) - size as before from (
               select e.id, e.project, e.workspace, e.seq, e.record,
                      octet_length(e.record) + coalesce(octet_length(m.text), 0) as size
                 from event e
                 left join message m on m.project = e.project and m.workspace = e.workspace and m.seq = e.seq
                where e.id > :after and (cast(:wanted as text) is null or e.project = :wanted)
                  and (cast(:workspace as text) is null or coalesce(e.workspace, '') = :workspace)
                order by e.id limit :rows) as nearest) as counted
            where before < :bytes order by id""",
        after=after,
        wanted=wanted.project,
        workspace=wanted.workspace,
        rows=_BATCH,
        bytes=_BATCH_BYTES,
    )
    told = [told for row in rows if (told := _told(tx, row, wanted))]
    return _Page(told, rows[-1]["id"] if rows else None)


def _told(tx: WholeTransaction, row: Row, wanted: Filter) -> EventRecord | None:
    """A stored event as it is told; None when it is not wanted, or its message is gone with its workspace."""
    told = EventRecord(_kind(row["record"]), row["record"], row["id"])
    if not wanted.wants(told.kind, row["project"], row["workspace"], _agent(told, wanted)):
        return None
    if told.kind != Posted.event:
        return told
    message = channel.at(tx.of(row["project"]), row["workspace"], row["seq"])
    if message is None:
        return None
    posted = replace(message.posted(number=told.number), project=row["project"])
    return replace(told, text=json.dumps(posted.as_record()))


def _kind(record: str) -> str:
    """The kind of a stored event, which stands first: reading whole records would hold up everybody when many readers
    come back."""
    return record[:80].split('"', 4)[3]


def _agent(told: EventRecord, wanted: Filter) -> str | None:
    return None if wanted.agent is None else told.record().get("agent")


def _place(tx: Transaction, loaded: LoadedProject, at: Address) -> tuple[str, str | None]:
    """A workspace and an agent, by id."""
    if at.workspace is None:
        return PERSONAL, agent_id(loaded, at.agent or "")
    workspace = workspace_rows.find(tx, at.workspace)["id"]
    return workspace, member_rows.members_in(tx, workspace).get(at.agent, "") if at.agent else None
