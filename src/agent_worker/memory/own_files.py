"""The soul and the memory of an agent while a program works for it that may write files: they are not its to write.

A coding program follows its own rules about files, and those of its agent may lie within its reach. What they said when
the run began, and what our own tools make of them since, is remembered; whatever else stands in them is taken for the
program's, put back, and kept apart for the person. Who edits by hand meanwhile finds their text there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import ClassVar

from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.files import root as files
from agent_worker.files.root import Root

FILE = "soul.yaml"
FOLDERS = ("memory", "soul.history", "soul.proposals")
HELD = ".held"  #: in the agent's folder: what was put back, by run


class OwnFiles:
    """The files of one agent, from `begin` to `end` of a run."""

    _guarded: ClassVar[dict[Path, OwnFiles]] = {}

    def __init__(self, home: Root, run: str) -> None:
        self._home = home
        self._place = home.location()
        self._run = run
        self._lock = RLock()
        self._expected = {path: _read(home, path) for path in _there(home)}
        self.put_back: list[str] = []  #: paths

    @classmethod
    def begin(cls, home: Root, run: str) -> OwnFiles:
        """Reads files: call it in a thread."""
        made = cls(home, run)
        cls._guarded[made._place] = made
        files.listeners.append(made._written)
        return made

    def end(self) -> list[str]:
        """The files that were put back, by their paths."""
        self.settle()
        files.listeners.remove(self._written)
        self._guarded.pop(self._place, None)
        return sorted(set(self.put_back))

    @classmethod
    def settle_in(cls, home: Root) -> None:
        """Before somebody of ours looks at, or writes, the files of this agent."""
        if cls._guarded and (guard := cls._guarded.get(home.location())):
            guard.settle()

    def settle(self) -> None:
        with self._lock:
            for path in sorted({*self._expected, *_there(self._home)}):
                should, stands = self._expected.get(path), _read(self._home, path)
                if should != stands:
                    self._put_back(path, should, stands)

    def _put_back(self, path: str, should: bytes | None, stands: bytes | None) -> None:
        if stands is not None:
            self._home.replace(f"{HELD}/{self._run}/{path}", stands)
        if should is None:
            with suppress(NotFound):
                self._home.remove(path)
        else:
            self._home.replace(path, should)
        self.put_back.append(path)

    def _written(self, place: Path, content: bytes | None) -> None:
        """One of us has written it: so it should be."""
        if place.is_relative_to(self._place) and _is_guarded(path := place.relative_to(self._place).as_posix()):
            with self._lock:
                self._expected[path] = content


def _is_guarded(path: str) -> bool:
    folder, slash, _ = path.partition("/")
    return path == FILE or (folder in FOLDERS and bool(slash))


def _there(home: Root) -> Iterator[str]:
    if home.may_hold(FILE):
        yield FILE
    for folder in FOLDERS:
        with suppress(AgentWorkerError):
            yield from (f"{folder}/{each.name}" for each in home.list(folder) if not each.is_directory)


def _read(home: Root, path: str) -> bytes | None:
    """None when there is no such file, or it cannot be opened: then nobody of ours reads it either."""
    try:
        return home.read_bytes(path)
    except AgentWorkerError:
        return None
