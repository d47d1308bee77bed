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

from agent_worker.core.clock import from_micros
from agent_worker.core.errors import AgentWorkerError, NotFound, Refused
from agent_worker.files.jsonl import iterate
from agent_worker.files.root import Root
from agent_worker.memory import memory, notes
from agent_worker.memory.edits import text_of
from agent_worker.memory.index import Index, IndexedSource, file_stamp
from agent_worker.memory.index_tables import IndexEntry, Kind
from agent_worker.memory.meaning import Embedding, Meaning, load_embedding
from agent_worker.memory.recall import Recalled, SearchScope, recall
from agent_worker.work.threads import ThreadEntry

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
        self._workspaces: Index | None = None
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
    ) -> list[Recalled]:
        """The best answers, each with why it was found. A workspace is searched only if it is named as a scope."""
        own = self._open_own()
        own.sync(self._sources())
        places = [SearchScope(own, scopes, self._meaning_of(own))]
        if named := [scope for scope in scopes or () if scope != PERSONAL]:
            workspaces = self._open_workspaces()
            places.append(SearchScope(workspaces, named, self._meaning_of(workspaces)))
        found = recall(places, query, now=now, kinds=kinds, limit=limit)
        return sorted(found, key=lambda each: each.entry.id.endswith(memory.DISPUTED))  # after what it disputes

    def _meaning_of(self, index: Index) -> Meaning | None:
        """Vectors beside the words, where the extra `semantic` is installed."""
        if index not in self._meanings and (model := embedding()) is not None:
            self._meanings[index] = Meaning(model, index.path.with_name(VECTORS) if index.path else None)
        return self._meanings.get(index)

    def heard(self, workspace: str) -> int:
        """How far the talk of a workspace was taken in."""
        return int(self._open_workspaces().read(lambda tables: tables.stamps()).get(_workspace(workspace), "0"))

    def hear(self, workspace: str, talk: Iterable[ThreadEntry]) -> None:
        """Take in what was said in a workspace since the last time."""
        entries = [_turn(_workspace(workspace), workspace, t.seq, t.who, t.text, from_micros(t.at)) for t in talk]
        if entries:
            self._open_workspaces().append(_workspace(workspace), entries, stamp=entries[-1].id)

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
            for index in filter(None, (self._own, self._workspaces)):
                index.close()
            self._own = self._workspaces = None

    def _open_own(self) -> Index:
        with self._opening:
            if self._own is None:
                self._own = Index(self._place(), self._sources)
            return self._own

    def _open_workspaces(self) -> Index:
        with self._opening:
            if self._workspaces is None:
                self._workspaces = Index()
            return self._workspaces

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
        """Remove a link that SQLite would follow; what it led to stays."""
        assert self._home is not None
        try:
            self._home.exists(INDEX)
        except Refused:
            self._home.remove(INDEX)

    def _sources(self) -> Iterator[IndexedSource]:
        if self._home is None:
            return
        for path, read in _files(self._home):
            with suppress(FileNotFoundError):  # somebody took it away since it was listed
                yield IndexedSource(f"{OWN}{path}", read, file_stamp(self._home.location(path)))


@cache
def embedding() -> Embedding | None:
    """The model that all agents share: loading it takes a second."""
    return load_embedding()


def _files(home: Root) -> Iterator[tuple[str, Callable[[], Iterable[IndexEntry]]]]:
    """What an agent has written down: the path of each file, and how to read it."""
    for file in memory.files(home):
        yield memory.path_of(file), partial(_memories, home, file)
    for name in notes.names(home):
        yield f"{notes.FOLDER}/{name}", partial(_note, home, name)
    for path in _conversations(home):
        yield path, partial(_conversation, home, path)


def _memories(home: Root, file: str) -> list[IndexEntry]:
    found = memory.load(home, only=file).entries
    return [
        IndexEntry(
            id=entry.key,
            kind="memory",
            source=f"{OWN}{memory.path_of(file)}",
            text=entry.value,
            at=_date(entry.learned),
            label=entry.key,
            scope=entry.visibility,
        )
        for entry in found
    ]


def _note(home: Root, name: str) -> list[IndexEntry]:
    text = text_of(home, f"{notes.FOLDER}/{name}") or ""
    title = text.partition("\n")[0].lstrip("# ")
    paragraphs = [p.strip() for p in text.split("\n\n") if p.strip()]
    source = f"{OWN}{notes.FOLDER}/{name}"
    return [
        IndexEntry(id=str(n), kind="note", source=source, text=p, at=_date(name[:10]), position=n, label=title)
        for n, p in enumerate(paragraphs)
    ]


def _conversations(home: Root) -> list[str]:
    try:
        return sorted(f"{CONVERSATIONS}/{e.name}" for e in home.list(CONVERSATIONS) if e.name.endswith(".jsonl"))
    except NotFound:
        return []


def _conversation(home: Root, path: str) -> Iterator[IndexEntry]:
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


def _turn(source: str, scope: str, seq: int, who: str, text: str, at: datetime | None) -> IndexEntry:
    return IndexEntry(
        id=str(seq), kind="history", source=source, text=text, author=who, at=at, position=seq, scope=scope
    )


def _workspace(workspace: str) -> str:
    return f"workspace/{workspace}"


def _date(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
