"""What was said and written in workspaces: one index for each, which all its members search, and people too.

Derived from the channel and the documents, and kept in the daemon's home (in memory where there is none, or where a
workspace keeps nothing), so it can be deleted at any time. tools/workspace_search.py, which can read both, brings it up
to date before each search.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from agent_worker.core.clock import from_micros
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.files.root import Root
from agent_worker.memory.index import Index, IndexedSource
from agent_worker.memory.index_tables import IndexEntry
from agent_worker.memory.library import meaning_of
from agent_worker.memory.recall import SearchScope

FOLDER = "indexes"
INDEX = "recall.db"
CHANNEL = "channel"  # the name of what was said; those of documents begin with the next
DOCUMENT = "document/"


class WorkspaceLibrary:
    """The index of one workspace."""

    def __init__(self, path: Path | None, model: Path | None = None) -> None:
        self._index = Index(path)
        self._meaning = meaning_of(self._index, model)

    @property
    def scope(self) -> SearchScope:
        return SearchScope(self._index, None, self._meaning)

    def stamps(self) -> dict[str, str]:
        """What was taken in: how far the channel, and each document as it was then."""
        return self._index.read(lambda tables: tables.stamps())

    def hear(self, messages: Iterable[IndexEntry]) -> None:
        """Take in the messages that came since the last time."""
        if entries := list(messages):
            self._index.append(CHANNEL, entries, stamp=entries[-1].id)

    def read(self, documents: Iterable[IndexedSource]) -> None:
        """Hold exactly these documents; of one that did not change only the name and the stamp are looked at."""
        self._index.sync(documents, under=DOCUMENT)

    def close(self) -> None:
        self._index.close(self._meaning.save if self._meaning else lambda: None)


class WorkspaceLibraries:
    """The libraries of workspaces in one process, opened when they are first searched."""

    def __init__(self, home: Root | None = None, model: Path | None = None) -> None:
        self._home = home
        self._model = model
        self._open: dict[str, WorkspaceLibrary] = {}
        self._opening = threading.Lock()

    def of(self, workspace: str, *, kept: bool) -> WorkspaceLibrary:
        """The library of a workspace; without `kept`, it is in memory only."""
        with self._opening:
            if workspace not in self._open:
                self._open[workspace] = WorkspaceLibrary(self._place(workspace) if kept else None, self._model)
            return self._open[workspace]

    def drop(self, workspace: str) -> None:
        """Remove the index of a workspace that is gone, or that something was taken out of: nothing is left, even in
        freed pages.
        """
        with self._opening:
            if library := self._open.pop(workspace, None):
                library.close()
            if self._home is not None:
                with suppress(NotFound):
                    self._home.remove_tree(f"{FOLDER}/{workspace}")

    def sweep(self, kept: Collection[str]) -> None:
        """Drop the indexes of all workspaces but these: they went while nobody was there to hear of it."""
        if self._home is not None:
            with suppress(NotFound):
                for entry in self._home.list(FOLDER):
                    if entry.name not in kept:
                        self.drop(entry.name)

    def close(self) -> None:
        with self._opening:
            for library in self._open.values():
                library.close()
            self._open.clear()

    def _place(self, workspace: str) -> Path | None:
        if self._home is None:
            return None
        try:
            self._home.make_dirs(f"{FOLDER}/{workspace}")
            self._home.exists(f"{FOLDER}/{workspace}/{INDEX}")  # refuses a link, which SQLite would follow
        except (AgentWorkerError, OSError):
            return None
        return self._home.location(f"{FOLDER}/{workspace}/{INDEX}")


def message_entry(workspace: str, seq: int, who: str, text: str, at: int) -> IndexEntry:
    return IndexEntry(
        id=str(seq),
        kind="history",
        source=CHANNEL,
        text=text,
        author=who,
        at=from_micros(at),
        position=seq,
        scope=workspace,
    )


def document_entries(workspace: str, name: str, text: str) -> list[IndexEntry]:
    """The paragraphs of a document, each found by the name of the document too."""
    paragraphs = [paragraph.strip() for paragraph in text.split("\n\n") if paragraph.strip()]
    return [
        IndexEntry(str(n), "document", f"{DOCUMENT}{name}", each, position=n, label=name, scope=workspace)
        for n, each in enumerate(paragraphs)
    ]
