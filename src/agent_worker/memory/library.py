"""Everything one agent can look up: its memory, notes and conversations, searched by one function.

The files are the truth; the index beside them is brought up to date before each search. What was said in a workspace is
searched only by work there: it has an index of its own (workspace_library.py), and nothing of it gets into the agent's
folder.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.files.jsonl import FARTHEST, iterate
from agent_worker.files.root import Root
from agent_worker.memory import memory, notes
from agent_worker.memory.edits import text_of
from agent_worker.memory.encoded_meaning import EncodedMeaning
from agent_worker.memory.encoder import Encoder, load_encoder
from agent_worker.memory.index import Index, IndexClosed, IndexedSource, file_stamp
from agent_worker.memory.index_tables import IndexEntry, Kind
from agent_worker.memory.meaning import Embedding, Meaning, load_embedding
from agent_worker.memory.recall import AnyMeaning, Recalled, SearchScope, recall

log = logging.getLogger(__name__)

INDEX = ".index/recall.db"
VECTORS = "meaning.npz"
ENCODED = "encoded.npz"
CONVERSATIONS = "conversations"
OWN = "own/"  # names of what stands in the agent's own folder
LOOK_AT_ALL = timedelta(seconds=5)  # after which all files of conversations are looked at again
_FileLook: TypeAlias = tuple[int, int, int] | None  # what changes with the content of a file; None: it is not there
_Looks: TypeAlias = dict[str, _FileLook]  # by name, of one folder
PERSONAL = "personal"  # scope of what was said in direct messages


@dataclass(slots=True)
class _TalkLook:
    """How the files of conversations were when all of them were last looked at, and the newest at the last search."""

    at: datetime
    folder: _FileLook
    files: _Looks
    newest: str


class Library:
    def __init__(self, home: Root | None, name: str, *, model: Path | None = None, index: Root | None = None) -> None:
        """`index`: the folder that holds the index, where that is not the agent's own."""
        self._home = home
        self._beside = index or home
        self._model = model
        self._name = name
        self._own: Index | None = None
        self._opening = threading.Lock()
        self._meaning: AnyMeaning | None = None
        self._seen: list[_Looks] | None = None  # how the files were when they were last taken in
        self._talk: _TalkLook | None = None

    def search(
        self,
        query: str,
        *,
        now: datetime,
        kinds: Collection[Kind],
        limit: int = 10,
        beside: Sequence[SearchScope] = (),
    ) -> list[Recalled]:
        """The best answers, each with why it was found; `beside` what is the agent's own, from these places too."""
        while True:
            own = self._open_own()
            try:
                return self._search(own, query, now=now, kinds=kinds, limit=limit, beside=beside)
            except IndexClosed as closed:  # something was taken out of the files meanwhile
                if closed.index is not own:
                    raise

    def _search(
        self,
        own: Index,
        query: str,
        *,
        now: datetime,
        kinds: Collection[Kind],
        limit: int,
        beside: Sequence[SearchScope],
    ) -> list[Recalled]:
        if (files := self._look(now)) != self._seen:
            own.sync(self._sources())
            self._seen = files
        places = [SearchScope(own, None, self._meaning), *beside]
        found = recall(places, query, now=now, kinds=kinds, limit=limit)
        return sorted(found, key=lambda each: each.entry.id.endswith(memory.DISPUTED))  # after what it disputes

    def begin_anew(self) -> None:
        """Remove the index, because something was taken out of the files: it may not even be left in freed pages."""
        with self._opening:
            self._close()
            if self._beside is not None:
                with suppress(NotFound):
                    self._beside.remove_tree(".index")

    def close(self) -> None:
        with self._opening:
            self._close()

    def _close(self) -> None:
        if self._own:
            self._own.close(self._meaning.save if self._meaning else lambda: None)
        self._own = self._meaning = self._seen = self._talk = None

    def _open_own(self) -> Index:
        with self._opening:
            if self._own is None:
                self._own = Index(self._place(), self._sources)
                self._meaning = meaning_of(self._own, self._model)
            return self._own

    def _look(self, now: datetime) -> list[_Looks]:
        """How the files are now: most searches find nothing changed, and read none of them.

        Of conversations there may be a thousand, and we only append to the newest, or put another file in the place of
        one, which its folder tells. What somebody does to an older one in place is seen a few seconds later.
        """
        home, talk = self._home, self._talk
        if home is None:
            return []
        folder = _look_at(home.location(CONVERSATIONS))
        if talk and talk.folder == folder and abs(now - talk.at) < LOOK_AT_ALL:
            if talk.newest:
                talk.files[talk.newest] = _look_at(home.location(f"{CONVERSATIONS}/{talk.newest}"))
        else:
            files = _looks(home, CONVERSATIONS)
            self._talk = talk = _TalkLook(now, folder, files, max(files, default=""))
        return [_looks(home, memory.FOLDER), _looks(home, notes.FOLDER), dict(talk.files)]

    def _place(self) -> Path | None:
        """Where the index is kept; None for in memory, also when the disk does not take it."""
        if self._home is None or self._beside is None or not self._home.is_there:
            return None
        try:
            self._beside.make_dirs(".index")
            self._make_way(self._beside)
        except (AgentWorkerError, OSError):
            return None
        return self._beside.location(INDEX)

    def _make_way(self, folder: Root) -> None:
        """Remove a link that SQLite would follow; what it led to stays."""
        try:
            folder.exists(INDEX)
        except Refused:
            folder.remove(INDEX)

    def _sources(self) -> Iterator[IndexedSource]:
        if self._home is None:
            return
        for path, read in _files(self._home):
            with suppress(FileNotFoundError):  # somebody took it away since it was listed
                yield IndexedSource(f"{OWN}{path}", read, file_stamp(self._home.location(path)))


def _looks(home: Root, folder: str) -> _Looks:
    with suppress(OSError, AgentWorkerError), os.scandir(home.location(folder)) as found:
        return {entry.name: _stamp(entry.stat(follow_symlinks=False)) for entry in found}
    return {}


def _look_at(path: Path) -> _FileLook:
    with suppress(OSError):
        return _stamp(path.lstat())
    return None


def _stamp(status: os.stat_result) -> _FileLook:
    return status.st_ino, status.st_mtime_ns, status.st_size


@cache
def embedding() -> Embedding | None:
    """The light embedding model, which all agents share: loading it takes a second."""
    return load_embedding()


@cache
def encoder(folder: Path) -> Encoder | None:
    """The encoder that the person chose, or None if it cannot be used; then the light model is."""
    try:
        return load_encoder(folder)
    except (BadInput, ImportError) as error:
        log.warning("search by meaning goes by the light model: %s", error)
        return None


def meaning_of(index: Index, folder: Path | None = None) -> AnyMeaning | None:
    """Vectors beside the words, where the extra `semantic` is installed: of the encoder in a folder, or light ones."""
    if folder and (encoding := encoder(folder)):
        return EncodedMeaning(encoding, index, index.path.with_name(ENCODED) if index.path else None)
    model = embedding()
    return Meaning(model, index.path.with_name(VECTORS) if index.path else None) if model else None


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
            seq = record.get("seq")  # a person may have edited the file
            yield _turn(
                f"{OWN}{path}",
                PERSONAL,
                seq if isinstance(seq, int) and 0 <= seq < FARTHEST else 0,
                str(record.get("sender", "")),
                record["text"],
                _date(str(record.get("at", ""))),
            )


def _turn(source: str, scope: str, seq: int, who: str, text: str, at: datetime | None) -> IndexEntry:
    return IndexEntry(
        id=str(seq), kind="history", source=source, text=text, author=who, at=at, position=seq, scope=scope
    )


def _date(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
