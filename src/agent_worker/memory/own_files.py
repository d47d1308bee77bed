"""The soul and the memory of an agent while a program works for it that may write files: they are not its to write.

A coding program follows its own rules about files, and those of its agent may lie within its reach. What they said when
the run began, and what our own tools make of them since, is remembered; whatever else stands in them is taken for the
program's, put back, and kept apart for the person. Who edits by hand meanwhile finds their text there too, and takes
it over with `take_over`. All of it is also written down outside the program's reach, so that it holds after a kill.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import ClassVar

from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.core.later import dataclass
from agent_worker.files import root as files
from agent_worker.files.jsonl import Record, append_records, read_all
from agent_worker.files.root import Root

log = logging.getLogger(__name__)

FILE = "soul.yaml"
FOLDERS = ("memory", "soul.history", "soul.proposals")
HELD = ".held"  #: in the agent's folder: what was put back, by run
EARLIER = "earlier"  #: in there: what stood in a file before it was changed once more
REMOVED = ".removed.txt"  #: end of the name of what stands for a file that was gone
BEFORE = "before-"  #: before a run, for what stood there until a person took its files over
MOST_EARLIER = 50
_PART = 1_000_000  # characters of a record


@dataclass(frozen=True, slots=True)
class RunJournal:
    """What the files of agents should say while programs work for them: written before a run, removed after it."""

    folder: Root | None = None  #: out of the programs' reach; None where nothing outlives the process

    def begin(self, agent: str, run: str, expected: Iterable[tuple[str, bytes | None]]) -> None:
        self.end(agent)
        if self.folder is not None:
            records = (each for path, content in expected for each in _records(path, content))
            append_records(self.folder, _journal(agent), ({"run": run}, *records))

    def note(self, agent: str, path: str, content: bytes | None) -> None:
        """Note that one of us has written a file. After a kill before this, it is found in `.held`: nothing is lost."""
        if self.folder is None:
            return
        try:
            append_records(self.folder, _journal(agent), _records(path, content))
        except (AgentWorkerError, OSError) as error:
            log.warning("what a file of an agent should say could not be written down: %s", error)

    def end(self, agent: str) -> None:
        if self.folder is not None:
            with suppress(NotFound):
                self.folder.remove(_journal(agent))

    def left(self) -> frozenset[str]:
        """The agents whose run ended with the process it was in."""
        with suppress(AgentWorkerError):
            names = (each.name for each in self.folder.list()) if self.folder else ()
            return frozenset(name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl"))
        return frozenset()

    def read(self, agent: str) -> tuple[str, dict[str, bytes | None]] | None:
        """The run, and what each file should say; None when none was left."""
        records = read_all(self.folder, _journal(agent)).records if self.folder else ()
        if not records or "run" not in records[0]:
            return None
        expected, parts = dict[str, bytes | None](), list[str]()
        for each in records[1:]:
            if each.get("text") is None:
                expected[each["path"]] = None
                continue
            parts.append(each["text"])
            if not each.get("more"):
                expected[each["path"]], parts = "".join(parts).encode(errors="surrogateescape"), []
        return str(records[0]["run"]), expected


def _journal(agent: str) -> str:
    return f"{agent}.jsonl"


def _records(path: str, content: bytes | None) -> Iterator[Record]:
    if content is None:
        yield {"path": path, "text": None}
        return
    text = content.decode(errors="surrogateescape")
    for start in range(0, len(text) or 1, _PART):
        more = {"more": True} if start + _PART < len(text) else {}
        yield {"path": path, "text": text[start : start + _PART], **more}


class OwnFiles:
    """The files of one agent, from `begin` to `end` of a run."""

    _guarded: ClassVar[dict[Path, OwnFiles]] = {}

    def __init__(
        self, home: Root, run: str, expected: dict[str, bytes | None], journal: RunJournal, agent: str = ""
    ) -> None:
        self._home = home
        self._place = home.location()
        self._run = run
        self._lock = RLock()
        self._expected = expected
        self._journal = journal
        self._agent = agent
        self.put_back: list[str] = []  #: paths

    @classmethod
    def begin(cls, home: Root, run: str, journal: RunJournal | None = None, agent: str = "") -> OwnFiles:
        """Remember what the files of an agent say at the beginning of a run. Reads and writes files: call it in a
        thread.
        """
        expected: dict[str, bytes | None] = {path: _read(home, path) for path in _there(home)}
        made = cls(home, run, expected, journal or RunJournal(), agent)
        made._journal.begin(agent, run, expected.items())
        cls._guarded[made._place] = made
        files.listeners.append(made._written)
        return made

    @classmethod
    def recover(cls, home: Root, journal: RunJournal, agent: str) -> tuple[str, list[str]] | None:
        """Put back the files of a run whose process died; returns the run and all paths that a
        person is to be told of.
        """
        if (left := journal.read(agent)) is None:
            return None
        run, expected = left
        made = cls(home, run, expected, journal, agent)
        made.settle()
        return run, sorted({*made.put_back, *held(home, run)})

    def end(self) -> list[str]:
        """Put the files in order at the end of a run; the paths of all that were put back."""
        self.settle()
        files.listeners.remove(self._written)
        self._guarded.pop(self._place, None)
        return sorted(set(self.put_back))

    @classmethod
    def settle_in(cls, home: Root) -> None:
        """Put the files of this agent in order before one of us reads or writes them."""
        if cls._guarded and (guard := cls._guarded.get(home.location())):
            guard.settle()

    def settle(self) -> None:
        with self._lock:
            for path in sorted({*self._expected, *_there(self._home)}):
                should, stands = self._expected.get(path), _read(self._home, path)
                if should != stands:
                    self._put_back(path, should, stands)

    def _put_back(self, path: str, should: bytes | None, stands: bytes | None) -> None:
        _hold(self._home, self._run, path, stands)
        if should is None:
            with suppress(NotFound):
                self._home.remove(path)
        else:
            self._home.replace(path, should)
        self.put_back.append(path)

    def _written(self, place: Path, content: bytes | None) -> None:
        """Note that one of us has written a file: so it should be."""
        if place.is_relative_to(self._place) and _is_guarded(path := place.relative_to(self._place).as_posix()):
            with self._lock:
                self._expected[path] = content
                self._journal.note(self._agent, path, content)


def _hold(home: Root, run: str, path: str, stands: bytes | None) -> None:
    """Keep for the person what stands in a file, or that it is gone. What was held of it before stays too."""
    folder = f"{HELD}/{run}"
    for name in (path, f"{path}{REMOVED}"):
        if (before := _read(home, f"{folder}/{name}")) is None:
            continue
        places = (f"{folder}/{EARLIER}/{n}/{name}" for n in range(1, MOST_EARLIER + 1))
        free = next((place for place in places if _read(home, place) is None), None)
        if free and before != stands:
            home.replace(free, before)
        home.remove(f"{folder}/{name}")
    if stands is None:
        home.replace(f"{folder}/{path}{REMOVED}", b"")
    else:
        home.replace(f"{folder}/{path}", stands)


def held(home: Root, run: str) -> list[str]:
    """The files of which something is kept that stood in them in this run, or until a person took them over."""
    found = _there(home.beneath(f"{HELD}/{run}")) if is_name(run) else ()
    return sorted({path.removesuffix(REMOVED) for path in found})


def held_runs(home: Root) -> list[str]:
    """The runs of which something is kept."""
    try:
        return sorted(each.name for each in home.list(HELD) if each.is_directory)
    except AgentWorkerError:
        return []


def take_over(home: Root, run: str) -> list[str]:
    """Put what is held of a run into the files, because a person says that it was theirs; returns the paths.

    What stands there now is held in its place, under `before-…`, so that this can be undone in the same way.
    """
    paths, back = held(home, run), counterpart(run)
    for path in paths:
        stands, wanted = _read(home, path), _read(home, f"{HELD}/{run}/{path}")
        if stands == wanted:
            continue
        _hold(home, back, path, stands)
        if wanted is not None:
            home.replace(path, wanted)
        else:
            home.remove(path)
    return paths


def _is_guarded(path: str) -> bool:
    folder, slash, _ = path.partition("/")
    return path == FILE or (folder in FOLDERS and bool(slash))


def counterpart(run: str) -> str:
    """The folder that holds what taking over a run replaced; for such a folder, the run."""
    return run.removeprefix(BEFORE) if run.startswith(BEFORE) else f"{BEFORE}{run}"


def is_name(run: str) -> bool:
    """Whether it can be the name of a folder in `.held`, and nothing else."""
    return bool(run) and "/" not in run and "\\" not in run and not run.startswith(".")


def _there(home: Root) -> Iterator[str]:
    for name in (FILE, f"{FILE}{REMOVED}"):
        if home.may_hold(name):
            yield name
    for folder in FOLDERS:
        with suppress(AgentWorkerError):
            yield from (f"{folder}/{each.name}" for each in home.list(folder) if not each.is_directory)


def _read(home: Root, path: str) -> bytes | None:
    """The content of a file; None when it is missing or cannot be opened: then none of us reads it either."""
    try:
        return home.read_bytes(path)
    except AgentWorkerError:
        return None
