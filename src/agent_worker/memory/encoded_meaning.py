"""Entries by what an encoder makes of them: a vector of the whole, and the nearest pieces for each piece of a question.

Encoding a turn takes some milliseconds, so it is done by a thread in the background, and a search goes by what it has
encoded so far. Beside an index, as meaning.py is; the model itself is encoder.py.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from agent_worker.memory.encoder import Encoded, Encoder
from agent_worker.memory.index import Index, IndexClosed, private
from agent_worker.memory.index_tables import SHELF_BITS, Tables, shelf_of
from agent_worker.memory.meaning import AFTER, BEFORE
from agent_worker.memory.words import has_no_spaces

CHUNK = 32  # entries between two looks at what else is wanted of the index
SAVED_EVERY = 50  # chunks

Array = Any  # numpy's, which is not there for the type checker
_alone = threading.Lock()  # of all indexes of a process, one is encoded at a time


class EncodedMeaning:
    """The vectors of one index, kept in a file beside it. Searched only from within `Index.read`."""

    def __init__(self, encoder: Encoder, index: Index, path: Path | None) -> None:
        self._encoder = encoder
        self._index = index
        self._path = path
        self._birth: int | None = None
        self._wanted: set[int] = set()  # shelves that were searched
        self._thread: threading.Thread | None = None
        self._unsaved = 0
        self._forget()

    def ready(self, tables: Tables, query: str, shelves: Collection[int]) -> bool:
        """Whether anything is encoded that may help with a query; begins to encode what is new, for the next search."""
        if has_no_spaces(query):
            return False
        self._open(tables)
        self._wanted.update(shelves)
        if self._thread is None and self._next(tables):
            self._thread = threading.Thread(target=self._encode, name="encoder", daemon=True)
            self._thread.start()
        return bool(self._rows)

    def near(self, query: str, shelves: Collection[int], *, also: Collection[int], limit: int) -> dict[int, float]:
        """How near rows are to a query, at most 1: the nearest ones, and those in `also`. Call `ready` first."""
        np, asked = self._encoder.numpy, self._encoder.encode(query)
        rows = np.array(self._rows)
        nearness = self._wholes[: len(rows)] @ asked.whole
        nearness[~np.isin(rows >> SHELF_BITS, list(shelves))] = -1
        best = np.argsort(-nearness)[:limit]
        places = {int(place) for place in best if nearness[place] > 0}
        places |= {self._place[row] for row in also if row in self._place}
        late = self._late(sorted(places), asked)
        return {self._rows[place]: float(nearness[place] + late[place]) / 2 for place in places}

    def like(self, tables: Tables, words: Sequence[str]) -> list[str]:
        """No words: with an encoder the pieces of the question say which entries are near."""
        return []

    def save(self) -> None:
        """Write what is encoded beside the index."""
        if self._path is None or not self._unsaved:
            return
        np = self._encoder.numpy
        fresh = self._path.with_name(self._path.name + ".new")
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
            with open(fresh, "xb", opener=private) as file:  # a link that was put there is not followed
                np.savez(
                    file,
                    birth=self._birth,
                    mark=np.array(self._encoder.mark),
                    rows=np.array(self._rows),
                    wholes=self._wholes[: len(self._rows)].astype(np.float16),
                    lengths=np.array([len(pieces) for pieces in self._pieces]),
                    pieces=np.concatenate(self._pieces),
                )
            fresh.replace(self._path)
            self._unsaved = 0

    def join(self) -> None:
        """Wait until what was wanted is encoded."""
        while (thread := self._thread) is not None:
            thread.join()

    # --- in the background

    def _encode(self) -> None:
        try:
            with _alone, suppress(IndexClosed):
                while new := self._index.read(self._next_or_end):
                    encoded = self._in_context(list(new.values()))
                    self._index.read(partial(self._take, rows=list(new), encoded=encoded))
        finally:
            self._thread = None

    def _next_or_end(self, tables: Tables) -> dict[int, tuple[str, str, str]]:
        self._open(tables)
        new = self._next(tables)
        if not new or self._unsaved >= CHUNK * SAVED_EVERY:
            self.save()
        return new

    def _next(self, tables: Tables) -> dict[int, tuple[str, str, str]]:
        for shelf in self._wanted:
            if new := tables.texts_after(self._last.get(shelf, 0), shelf, limit=CHUNK):
                return new
        return {}

    def _take(self, tables: Tables, *, rows: Sequence[int], encoded: Sequence[Encoded]) -> None:
        if tables.birth == self._birth:
            np = self._encoder.numpy
            pieces = [np.round(127 * each.pieces).astype(np.int8) for each in encoded]
            self._add(rows, np.stack([each.whole for each in encoded]), pieces)
            self._unsaved += len(rows)

    def _in_context(self, texts: Sequence[tuple[str, str, str]]) -> list[Encoded]:
        """What a turn means depends on those next to it, as in meaning.py."""
        np = self._encoder.numpy
        known = {text: self._encoder.encode(text) for text in dict.fromkeys(chain.from_iterable(texts)) if text.strip()}
        none = Encoded(np.zeros_like(self._encoder.encode("once").whole), np.zeros((1, 0), np.float32))
        found = []
        for own, before, after in texts:
            mine = known.get(own, none)
            whole = mine.whole + BEFORE * known.get(before, none).whole + AFTER * known.get(after, none).whole
            pieces = mine.pieces if mine is not none else np.zeros((1, self._encoder.projection.shape[1]), np.float32)
            found.append(Encoded(whole / max(float(np.linalg.norm(whole)), 1e-9), pieces))
        return found

    # --- what is kept

    def _late(self, places: Sequence[int], asked: Encoded) -> dict[int, float]:
        """How near an entry is: for each piece of the question its nearest piece, on average."""
        if not places:
            return {}
        np = self._encoder.numpy
        pieces = [self._pieces[place] for place in places]
        starts = np.cumsum([0, *(len(each) for each in pieces[:-1])])
        alike = np.concatenate(pieces).astype(np.float32) @ asked.pieces.T / 127
        best = np.maximum.reduceat(alike, starts, axis=0).mean(axis=1)
        return {place: float(value) for place, value in zip(places, best, strict=True)}

    def _open(self, tables: Tables) -> None:
        if self._birth != tables.birth:
            self._forget()
            self._birth = tables.birth
            self._load()

    def _forget(self) -> None:
        np = self._encoder.numpy
        self._rows: list[int] = []
        self._wholes = np.zeros((0, 0), np.float32)
        self._pieces: list[Array] = []
        self._place: dict[int, int] = {}
        self._last: dict[int, int] = {}  # the newest row known, by shelf
        self._unsaved = 0

    def _load(self) -> None:
        if self._path is None:
            return
        np = self._encoder.numpy
        refused = (OSError, ValueError, KeyError, EOFError, BadZipFile)
        with suppress(*refused), self._path.open("rb") as file, np.load(file) as kept:
            if int(kept["birth"]) == self._birth and str(kept["mark"]) == self._encoder.mark:
                pieces = np.split(kept["pieces"], np.cumsum(kept["lengths"])[:-1])
                self._add(kept["rows"].tolist(), kept["wholes"].astype(np.float32), pieces)

    def _add(self, rows: Sequence[int], wholes: Array, pieces: Sequence[Array]) -> None:
        np, used = self._encoder.numpy, len(self._rows)
        if used + len(rows) > len(self._wholes):
            larger = np.zeros((2 * (used + len(rows)), wholes.shape[1]), np.float32)
            larger[:used] = self._wholes[:used] if used else 0
            self._wholes = larger
        self._wholes[used : used + len(rows)] = wholes
        self._rows += rows
        self._pieces += pieces
        for place, row in enumerate(rows, used):
            self._place[row] = place
            self._last[shelf_of(row)] = max(row, self._last.get(shelf_of(row), 0))
