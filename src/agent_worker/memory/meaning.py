"""Entries by what they mean rather than by their words: the optional extra `semantic`.

A small static embedding (wordllama, 256 dimensions, no download, no GPU) and a numpy matrix beside the
index. Off when not installed. Used alone it finds half of what words find; recall.py mixes the two.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from agent_worker.core.late_imports import taking_turns
from agent_worker.memory.index import private
from agent_worker.memory.index_tables import SHELF_BITS, Tables, shelf_of
from agent_worker.memory.words import has_no_spaces, plain_words

CHUNK = 5_000
BEFORE, AFTER = 0.35, 0.21  # how much of its meaning a turn has from the one before and the one after it
LIKE = 0.45  # how near a word must be to stand for another
MOST_LIKE = 24  # words that are looked for beside those of a question
MOST_WORDS = 20_000
UNSAVED = 1_000  # new vectors that are worth writing the whole matrix again

Array = Any  # numpy's, which is not there for the type checker


class Embedding:
    """The model. One per process serves every agent; loading takes a second."""

    def __init__(self, numpy: Any, model: Any) -> None:
        self.numpy = numpy
        self._model = model

    def vectors(self, texts: Sequence[str]) -> Array:
        """One row of length one per text, all zeros for a text without words."""
        np = self.numpy
        raw = self._model.embed([text or " " for text in texts], norm=False)
        raw[[not text.strip() for text in texts]] = 0  # of a blank the model has an opinion
        lengths = np.linalg.norm(np.nan_to_num(raw), axis=1, keepdims=True)
        # Rounded as they are kept in the file, so that a search gives the same before and after.
        return (np.nan_to_num(raw) / np.maximum(lengths, 1e-9)).astype(np.float16).astype(np.float32)


def load_embedding() -> Embedding | None:
    """The model, or None where the extra is not installed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with taking_turns:
            numpy, wordllama = import_module("numpy"), import_module("wordllama")
        # Its own folder as the cache: it looks for the tokenizer it brings along in the wrong place.
        files = Path(str(wordllama.__file__)).parent
        return Embedding(numpy, wordllama.WordLlama.load(cache_dir=files, disable_download=True))
    except (ImportError, OSError):
        return None
    finally:
        root.handlers[:] = handlers  # importing it sets up logging for everybody
        root.setLevel(level)


class Meaning:
    """The vectors of one index, kept in a file beside it. Use it only from within `Index.read`."""

    def __init__(self, embedding: Embedding, path: Path | None) -> None:
        self._embedding = embedding
        self._path = path
        self._birth: int | None = None
        self._unsaved = 0
        self._word_vectors: Array = None
        self._forget()

    def ready(self, tables: Tables, query: str, shelves: Collection[int]) -> bool:
        """Take in what is new. Whether it can help with a query: of a script without spaces the model knows little."""
        if has_no_spaces(query):
            return False
        self._catch_up(tables, shelves)
        return True

    def near(self, query: str, shelves: Collection[int], *, also: Collection[int], limit: int) -> dict[int, float]:
        """How near the nearest rows and `also` these are to a query, at most 1. After `ready`."""
        np, used = self._embedding.numpy, len(self._place)
        if not used:
            return {}
        nearness = self._vectors[:used] @ self._embedding.vectors([query])[0]
        elsewhere = ~np.isin(self._rows[:used] >> SHELF_BITS, list(shelves))
        nearness[elsewhere] = -1
        best = np.argsort(-nearness)[:limit] if used <= limit else np.argpartition(-nearness, limit)[:limit]
        found = {int(self._rows[place]): float(nearness[place]) for place in best if nearness[place] > 0}
        known = (row for row in also if row in self._place)
        return found | {row: float(nearness[self._place[row]]) for row in known}

    def like(self, tables: Tables, words: Sequence[str]) -> list[str]:
        """Words of the index that mean nearly the same as one of these, nearest first; not other forms of them."""
        np = self._embedding.numpy
        if not words or not self._spell():
            return []
        same = {stem for word in words for stem in tables.stems(word)}
        nearness = (self._word_vectors @ self._embedding.vectors(list(words)).T).max(axis=1)
        near = np.flatnonzero(nearness >= LIKE)
        nearest = [self._spelled[place] for place in near[np.argsort(-nearness[near])][: 2 * MOST_LIKE]]
        return [word for word in nearest if not same.issuperset(tables.stems(word))][:MOST_LIKE]

    def _spell(self) -> bool:
        """Give the words that came since the last time their vectors. False while there are none."""
        new = list(self._words)[len(self._spelled) :]
        if new:
            vectors = self._embedding.vectors(new)
            self._word_vectors = (
                self._embedding.numpy.concatenate([self._word_vectors, vectors]) if self._spelled else vectors
            )
            self._spelled += new
        return bool(self._spelled)

    def save(self) -> None:
        """Write the matrix beside the index; losing it costs a second per thirty thousand entries."""
        if self._path is None or not self._unsaved:
            return
        np, used = self._embedding.numpy, len(self._place)
        fresh = self._path.with_name(self._path.name + ".new")
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
            with open(fresh, "xb", opener=private) as file:  # a link that was put there is not followed
                vectors = self._vectors[:used].astype(np.float16)
                words = np.array("\n".join(self._words))
                np.savez(file, birth=self._birth, rows=self._rows[:used], vectors=vectors, words=words)
            fresh.replace(self._path)
            self._unsaved = 0

    def _catch_up(self, tables: Tables, shelves: Collection[int]) -> None:
        if self._birth != tables.birth:
            self._forget()
            self._birth = tables.birth
            self._load()
        for shelf in shelves:
            while new := tables.texts_after(self._last.get(shelf, 0), shelf, limit=CHUNK):
                self._add(list(new), self._in_context(list(new.values())))
                self._learn_words(text for text, _, _ in new.values())
                self._unsaved += len(new)
        if self._unsaved >= UNSAVED:
            self.save()

    def _in_context(self, texts: Sequence[tuple[str, str, str]]) -> Array:
        """What a turn means depends on those next to it: `That works` says nothing by itself."""
        np = self._embedding.numpy
        place = {text: number for number, text in enumerate(dict.fromkeys(chain.from_iterable(texts)))}
        alone = self._embedding.vectors(list(place))
        own, before, after = (alone[[place[each[n]] for each in texts]] for n in range(3))
        mixed = own + BEFORE * before + AFTER * after
        lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
        return (mixed / np.maximum(lengths, 1e-9)).astype(np.float16).astype(np.float32)

    def _forget(self) -> None:
        np = self._embedding.numpy
        self._rows, self._vectors = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        self._place: dict[int, int] = {}
        self._last: dict[int, int] = {}  # the newest row known, by shelf
        self._words: dict[str, None] = {}  # in the order in which they came
        self._spelled: list[str] = []  # those of them that have a vector, in the same order
        self._word_vectors = np.zeros((0, 0), np.float32)
        self._unsaved = 0

    def _learn_words(self, texts: Iterable[str]) -> None:
        for text in texts:
            if len(self._words) >= MOST_WORDS:
                return
            self._words.update(dict.fromkeys(plain_words(text)))

    def _load(self) -> None:
        if self._path is None:
            return
        np = self._embedding.numpy
        refused = (OSError, ValueError, KeyError, EOFError, BadZipFile)
        with suppress(*refused), self._path.open("rb") as file, np.load(file) as kept:
            if int(kept["birth"]) == self._birth:
                self._add(kept["rows"].tolist(), kept["vectors"].astype(np.float32))
                self._learn_words([str(kept["words"])])

    def _add(self, rows: Sequence[int], vectors: Array) -> None:
        used = len(self._place)
        self._make_space(used + len(rows), vectors.shape[1])
        self._rows[used : used + len(rows)] = rows
        self._vectors[used : used + len(rows)] = vectors
        for place, row in enumerate(rows, used):
            self._place[row] = place
            self._last[shelf_of(row)] = max(row, self._last.get(shelf_of(row), 0))

    def _make_space(self, size: int, width: int) -> None:
        if size <= len(self._rows):
            return
        np, used = self._embedding.numpy, len(self._place)
        rows, vectors = np.zeros(size * 5 // 4, np.int64), np.zeros((size * 5 // 4, width), np.float32)
        if used:
            rows[:used], vectors[:used] = self._rows[:used], self._vectors[:used]
        self._rows, self._vectors = rows, vectors
