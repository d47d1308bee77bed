"""Files that people read: channel, history and conversations, written after the commit, in order.

The database is the record; a file is brought up to date from what it already holds, so a line is neither lost
nor doubled however often we stop in between. What is said in a workspace within a moment is written together, because
each way to the files costs as much as a small step; a conversation is written at once, because its agent looks it up
there. A file that cannot be written is tried again at the next event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from agent_worker.core.clock import from_micros, micros
from agent_worker.core.errors import NotFound
from agent_worker.core.events import Bus, Ended, Event, Posted, ResourceKept, Talked
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.database.database import Database, ProjectDatabase, Transaction, WholeTransaction
from agent_worker.files.jsonl import FARTHEST, append_records, last_record, read_last
from agent_worker.files.root import DirectoryEntry, Root
from agent_worker.work import threads
from agent_worker.workspaces import channel, resources

log = logging.getLogger(__name__)

CONVERSATIONS = "conversations"
HISTORY = "history"  #: of a workspace: one file for each member
RESOURCES = "resources"
LONGEST = 2**31  # bytes of a log out of which something is taken
STRANGERS = 100  # lines of somebody else that may stand at the end of a log
TOGETHER = 32  # logs that are written together
LINES = 500  # of one log that are written at once
SOON = 0.05  # seconds that a line may wait for others to be written with


@dataclass(frozen=True, slots=True)
class Target:
    """One log and where it is written. An agent without a workspace is its personal conversation."""

    project: str
    workspace: str | None
    agent: str | None  #: None is the channel


Place = tuple[Root, str]  # the file, or the folder of dated files
Lines = list[channel.Message] | list[threads.ThreadEntry]


class LogFiles:
    def __init__(self, database: Database, bus: Bus, *, shared: bool = False) -> None:
        self._database = database
        self._shared = shared  # other hosts may write the same files: each time we look how far they are
        self._places: dict[Target, Place] = {}
        self._written: dict[Target, int] = {}
        self._behind: dict[Target, None] = {}  # who fell behind first stands first
        self._failing: set[Target] = set()  # those of which it was said already
        self._lacking: dict[
            str, set[str]
        ] = {}  # workspace that was looked through → resources without their file there
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # that wakes us, while something is behind
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = asyncio.Lock()
        # What was said on another host is heard of when the run ends in which it was: its lines are no events there.
        self._unlisten = bus.listen(self._hear, Posted, ResourceKept, Talked, *([Ended] if shared else []))
        self._task = asyncio.create_task(self._follow(), name="log files")

    def watch(self, target: Target, root: Root, path: str, *, written: int | None = None) -> None:
        """Keep this file up to date from now on, beginning with what it lacks.

        Whoever knows how far it is `written` says by `catch_up` whether it lacks anything.
        """
        if written is not None and target not in self._places:  # else we know better
            self._written[target] = written
        self._places[target] = (root, path)
        if written is None:
            self.catch_up(target)

    def forget(self, target: Target) -> None:
        self._places.pop(target, None)
        self._written.pop(target, None)
        self._failing.discard(target)
        if target.agent is None and target.workspace:
            self._lacking.pop(target.workspace, None)

    async def strike(self, root: Root, path: str, seqs: Collection[int], *, dated: bool = False) -> None:
        """Take what was said there out of a log: a person took it back. That it was said stays."""
        async with self._writing:
            for file in await asyncio.to_thread(_dated_files, root, path) if dated else [path]:
                await asyncio.to_thread(_strike, root, file, seqs)

    async def bring_up(self, targets: Iterable[Target]) -> None:
        """Write what was committed by now to these files, for whoever is about to read them; waits for no others."""
        async with self._writing:
            if places := {target: self._places[target] for target in targets if target in self._places}:
                await self._write(places)

    async def flush(self) -> None:
        """Wait until the files hold all that was committed before, or nobody writes them any more."""
        self._begin()
        idle = asyncio.create_task(self._idle.wait())
        try:
            await asyncio.wait({idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()

    async def close(self) -> None:
        await self.flush()
        self._unlisten()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _hear(self, event: Event) -> None:
        match event:
            case Posted(project=project, workspace=workspace):
                self.catch_up(Target(project, workspace, None))
            case ResourceKept(project=project, workspace=str(workspace), id=id):
                if workspace in self._lacking:
                    self._lacking[workspace].add(id)
                self.catch_up(Target(project, workspace, None))
            case (
                Talked(project=project, workspace=workspace, agent=agent)
                | Ended(project=project, workspace=workspace, agent=agent)
            ):
                self.catch_up(Target(project, workspace, agent))

    def catch_up(self, target: Target) -> None:
        """Write what was committed and is not in this file yet, if it is one of those that are watched."""
        if target in self._places:
            self._behind[target] = None
            self._idle.clear()
            if target.workspace is None or not self._written.get(target):  # by the first line others know the folder
                return self._begin()
            self._timer = self._timer or asyncio.get_running_loop().call_later(SOON, self._begin)

    def _begin(self) -> None:
        """Have files that are behind written now."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._behind:
                targets = list(self._behind)[:TOGETHER]
                for target in targets:
                    del self._behind[target]
                async with self._writing:
                    if places := {target: self._places[target] for target in targets if target in self._places}:
                        await self._write(places)
            self._idle.set()

    async def _write(self, places: Mapping[Target, Place]) -> None:
        """Bring these files up to date. If one of them fails they are tried one by one: it keeps no other from it."""
        try:
            await self._bring_up(places)
        except Exception as error:  # boundary: the record is safe; the file follows at the next event
            for target in places:  # some of it may have arrived: look again
                self._written.pop(target, None)
                self._lacking.pop(target.workspace or "", None)
            if len(places) == 1:
                return self._say_failed(target, error)
            for target, place in places.items():
                await self._write({target: place})
        else:
            self._failing -= places.keys()

    def _say_failed(self, target: Target, error: Exception) -> None:
        if target not in self._failing:  # a full disk would be told at each event
            log.error("could not write the log of %s", target, exc_info=error)
        self._failing.add(target)

    async def _bring_up(self, places: Mapping[Target, Place]) -> None:
        """Write all logs that are behind, with one look at the database. Meanwhile the next ones gather."""
        known = {} if self._shared else self._written
        ends = {target: known[target] for target in places if target in known}
        if unknown := {target: place for target, place in places.items() if target not in ends}:
            ends |= await asyncio.to_thread(_ends_on_disk, unknown)
        lacking = await self._database.read(_lines_after, ends)
        failpoint("outbox.before_append")
        if lacking and self._shared:
            await asyncio.to_thread(_append_in_turn, places, lacking)
        elif lacking:
            await asyncio.to_thread(_append, places, lacking)
        for target in places.keys() & self._places.keys():  # others were forgotten meanwhile
            lines = lacking.get(target)
            self._written[target] = lines[-1].seq if lines else ends[target]
            if lines and len(lines) == LINES:
                self._behind[target] = None
        for target, (root, _) in places.items():
            if target.agent is None and target.workspace and target in self._places:
                await self._keep_resources(self._database.of(target.project), root, target.workspace)

    async def _keep_resources(self, database: ProjectDatabase, root: Root, workspace: str) -> None:
        lacking = self._lacking.get(workspace)
        if lacking is None:
            lacking = self._lacking[workspace] = set()  # what is kept from now on is heard of
            there = await asyncio.to_thread(_resources_on_disk, root)
            lacking |= set(await database.read(resources.ids, workspace)) - there
        for id in tuple(lacking):
            kept = await database.read(resources.load, workspace, id)
            await asyncio.to_thread(root.replace, f"{RESOURCES}/{id}", kept.text)
            lacking.discard(id)


def _resources_on_disk(root: Root) -> set[str]:
    """Which resources are files already. A file is put in place whole: one that is there needs no second look."""
    try:
        return {entry.name for entry in root.list(RESOURCES)}
    except NotFound:
        return set()


def last_seq(root: Root, path: str, *, dated: bool) -> int:
    """How far a log on disk goes; 0 when there is none. It may end in any of its dated files: clocks are set back."""
    last = 0
    for file in reversed(_dated_files(root, path) if dated else [path]):
        seqs = [record.get("seq") for record in read_last(root, file, STRANGERS).records]
        seq = next((seq for seq in reversed(seqs) if isinstance(seq, int) and 0 <= seq < FARTHEST), 0)
        if seq > last:
            last_record(root, file)  # puts on disk what a killed writer left in memory
            last = seq
    return last


def last_talk(root: Root, path: str, count: int) -> list[threads.ThreadEntry]:
    """The last lines of a conversation on disk, oldest first."""
    talk: list[threads.ThreadEntry] = []
    for file in reversed(_dated_files(root, path)):
        records = read_last(root, file, count - len(talk)).records
        talk[:0] = [line for record in records if (line := _as_talk(record))]
        if len(talk) >= count:
            break
    return talk


def _dated_files(root: Root, path: str) -> list[str]:
    try:
        return sorted(f"{path}/{e.name}" for e in root.list(path) if _is_log(e))
    except NotFound:
        return []


def _is_log(entry: DirectoryEntry) -> bool:
    return entry.name.endswith(".jsonl") and not entry.is_directory


def _strike(root: Root, path: str, seqs: Collection[int]) -> None:
    try:
        content = root.read_bytes(path, limit=LONGEST)
    except NotFound:
        return
    lines = content.split(b"\n")
    struck = [_struck(line, seqs) for line in lines]
    if struck != lines:
        root.replace(path, b"\n".join(struck))


def _struck(line: bytes, seqs: Collection[int]) -> bytes:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(record, dict) or record.get("seq") not in seqs:
        return line
    return json.dumps(record | {"text": "", "mentions": [], "resource": None, "held": True}).encode()


def _ends_on_disk(places: Mapping[Target, Place]) -> dict[Target, int]:
    return {target: last_seq(root, path, dated=_is_dated(target)) for target, (root, path) in places.items()}


def _append_in_turn(places: Mapping[Target, Place], lacking: Mapping[Target, Lines]) -> None:
    """Append while no other host does, and only what the file does not hold by then."""
    for target, lines in lacking.items():
        root, path = places[target]
        with root.among_hosts():
            end = last_seq(root, path, dated=_is_dated(target))
            if left := [line for line in lines if line.seq > end]:
                _append(places, {target: left})  # type: ignore[dict-item]


def _append(places: Mapping[Target, Place], lacking: Mapping[Target, Lines]) -> None:
    for target, lines in lacking.items():
        root, path = places[target]
        if not _is_dated(target):
            append_records(root, path, map(_as_record, lines))
            continue
        for day in dict.fromkeys(_day(line.at) for line in lines):
            append_records(root, f"{path}/{day}.jsonl", (_as_record(line) for line in lines if _day(line.at) == day))


def _as_record(row: channel.Message | threads.ThreadEntry) -> dict[str, object]:
    at = from_micros(row.at).isoformat(timespec="milliseconds")
    if isinstance(row, threads.ThreadEntry):
        return {"seq": row.seq, "at": at, "sender": row.who, "kind": row.kind, "text": row.text, "run": row.run}
    return {
        "seq": row.seq,
        "id": row.id,
        "at": at,
        "sender": row.sender,
        "kind": row.kind,
        "text": row.text,
        "mentions": row.mentions,
        "resource": row.resource,
        "reply_to": row.reply_to,
        "proposal": row.proposal,
        "root": row.root,
        "hop": row.hop,
    }


def _as_talk(record: Mapping[str, Any]) -> threads.ThreadEntry | None:
    """A line of a thread; None for one that is not of our making, or was taken back."""
    match record:
        case {"held": True}:
            return None
        case {"seq": int(seq), "sender": str(who), "text": str(text), "at": str(at)} if 0 <= seq < FARTHEST:
            kind: Literal["message", "failure"] = "failure" if record.get("kind") == "failure" else "message"
            try:
                when = micros(datetime.fromisoformat(at))
            except ValueError:
                return None
            return threads.ThreadEntry(seq=seq, who=_whole(who), text=_whole(text), at=when, kind=kind)
    return None


def _whole(text: str) -> str:
    """The text without halves of surrogate pairs, which cannot be stored."""
    return text.encode(errors="replace").decode()


def _day(at: int) -> str:
    return from_micros(at).date().isoformat()


def _is_dated(target: Target) -> bool:
    return target.workspace is None


def _lines_after(tx: WholeTransaction, ends: Mapping[Target, int]) -> dict[Target, Lines]:
    """What each log lacks; nothing of those that lack nothing."""
    found = {target: _lines(tx.of(target.project), target, seq) for target, seq in ends.items()}
    return {target: lines for target, lines in found.items() if lines}


def _lines(tx: Transaction, target: Target, seq: int) -> Lines:
    if target.agent is None:
        return channel.read(tx, target.workspace or "", since=seq, limit=LINES)
    return threads.since(tx, target.agent, target.workspace or threads.PERSONAL, seq, limit=LINES)
