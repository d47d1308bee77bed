"""Everything one agent can look up: its memory, notes and conversations, searched by one function.

The files are the truth; the index beside them is brought up to date before each search. Talk of a workspace is
searched only by work in that workspace, and is held in memory: nothing of it gets into the agent's folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

from agent_worker.clock import from_micros
from agent_worker.errors import AgentWorkerError, NotFound, Refused
from agent_worker.guard.index import Index, Source, file_stamp
from agent_worker.guard.meaning import Embedding, Meaning, load_embedding
from agent_worker.guard.recall import Found, Place, recall
from agent_worker.guard.tables import Entry, Kind
from agent_worker.personal import memory, notes
from agent_worker.personal.pages import text_of
from agent_worker.storage.files import Root
from agent_worker.storage.jsonl import iterate
from agent_worker.threads import Talk

INDEX = ".index/recall.db"
VECTORS = "meaning.npz"
CONVERSATIONS = "conversations"
OWN = "own/"  # names of what stands in the agent's own folder
PERSONAL = "personal"  # scope of what was said in direct messages


class Library:
    def __init__(self, home: Root | None, name: str) -> None:
        self._home = home
        self._name = name
        self._own: Index | None = None
        self._rooms: Index | None = None
        self._opening = threading.Lock()
        self._meanings: dict[Index, Meaning] = {}

    def search(
        self,
        query: str,
        *,
        now: datetime,
        kinds: Collection[Kind],
        scopes: Collection[str] | None = None,
        limit: int = 10,
    ) -> list[Found]:
        """The best answers, each with why it was found. A workspace is searched only if it is named as a scope."""
        own = self._open_own()
        own.sync(self._sources())
        places = [Place(own, scopes, self._meaning_of(own))]
        if named := [scope for scope in scopes or () if scope != PERSONAL]:
            rooms = self._open_rooms()
            places.append(Place(rooms, named, self._meaning_of(rooms)))
        return recall(places, query, now=now, kinds=kinds, limit=limit)

    def _meaning_of(self, index: Index) -> Meaning | None:
        """Vectors beside the words, where the extra `semantic` is installed."""
        if index not in self._meanings and (model := embedding()) is not None:
            self._meanings[index] = Meaning(model, index.path.with_name(VECTORS) if index.path else None)
        return self._meanings.get(index)

    def heard(self, workspace: str) -> int:
        """How far the talk of a workspace was taken in."""
        return int(self._open_rooms().read(lambda tables: tables.stamps()).get(_room(workspace), "0"))

    def hear(self, workspace: str, talk: Iterable[Talk]) -> None:
        """Take in what was said in a workspace since the last time."""
        entries = [_turn(_room(workspace), workspace, t.seq, t.who, t.text, from_micros(t.at)) for t in talk]
        if entries:
            self._open_rooms().append(_room(workspace), entries, stamp=entries[-1].id)

    def begin_anew(self) -> None:
        """Something was taken out of the files: not even in the pages that an index has freed may it be left."""
        self.close()
        if self._home is not None:
            with suppress(NotFound):
                self._home.remove_tree(".index")

    def close(self) -> None:
        with self._opening:
            for meaning in self._meanings.values():
                meaning.save()
            self._meanings.clear()
            for index in filter(None, (self._own, self._rooms)):
                index.close()
            self._own = self._rooms = None

    def _open_own(self) -> Index:
        with self._opening:
            if self._own is None:
                self._own = Index(self._place(), self._sources)
            return self._own

    def _open_rooms(self) -> Index:
        with self._opening:
            if self._rooms is None:
                self._rooms = Index()
            return self._rooms

    def _place(self) -> Path | None:
        """None: nowhere, so in memory. That is also where it is when the disk does not take it."""
        if self._home is None or not self._home.is_there:
            return None
        try:
            self._home.make_dirs(".index")
            self._make_way()
        except (AgentWorkerError, OSError):
            return None
        return self._home.location(INDEX)

    def _make_way(self) -> None:
        """SQLite would follow a link: it goes, and what it led to stays."""
        assert self._home is not None
        try:
            self._home.exists(INDEX)
        except Refused:
            self._home.remove(INDEX)

    def _sources(self) -> Iterator[Source]:
        if self._home is None:
            return
        for path, read in _files(self._home):
            with suppress(FileNotFoundError):  # somebody took it away since it was listed
                yield Source(f"{OWN}{path}", read, file_stamp(self._home.location(path)))


@cache
def embedding() -> Embedding | None:
    """One for all agents: loading it takes a second."""
    return load_embedding()


def _files(home: Root) -> Iterator[tuple[str, Callable[[], Iterable[Entry]]]]:
    """What an agent has written down: the path of each file, and how to read it."""
    for file in memory.files(home):
        yield memory.path_of(file), partial(_memories, home, file)
    for name in notes.names(home):
        yield f"{notes.FOLDER}/{name}", partial(_note, home, name)
    for path in _conversations(home):
        yield path, partial(_conversation, home, path)


def _memories(home: Root, file: str) -> list[Entry]:
    found = memory.load(home, only=file).entries
    return [
        Entry(
            id=entry.key,
            kind="memory",
            source=f"{OWN}{memory.path_of(file)}",
            text=entry.value,
            at=_date(entry.updated),
            label=entry.key,
            scope=entry.visibility,
        )
        for entry in found
    ]


def _note(home: Root, name: str) -> list[Entry]:
    text = text_of(home, f"{notes.FOLDER}/{name}") or ""
    title = text.partition("\n")[0].lstrip("# ")
    paragraphs = [p.strip() for p in text.split("\n\n") if p.strip()]
    source = f"{OWN}{notes.FOLDER}/{name}"
    return [
        Entry(id=str(n), kind="note", source=source, text=p, at=_date(name[:10]), position=n, label=title)
        for n, p in enumerate(paragraphs)
    ]


def _conversations(home: Root) -> list[str]:
    try:
        return sorted(f"{CONVERSATIONS}/{e.name}" for e in home.list(CONVERSATIONS) if e.name.endswith(".jsonl"))
    except NotFound:
        return []


def _conversation(home: Root, path: str) -> Iterator[Entry]:
    for record in iterate(home, path):
        if record is not None and isinstance(record.get("text"), str) and not record.get("held"):
            seq = record.get("seq")
            yield _turn(
                f"{OWN}{path}",
                PERSONAL,
                seq if isinstance(seq, int) else 0,
                str(record.get("who", "")),
                record["text"],
                _date(str(record.get("at", ""))),
            )


def _turn(source: str, scope: str, seq: int, who: str, text: str, at: datetime | None) -> Entry:
    return Entry(id=str(seq), kind="history", source=source, text=text, author=who, at=at, position=seq, scope=scope)


def _room(workspace: str) -> str:
    return f"workspace/{workspace}"


def _date(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
