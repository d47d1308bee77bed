"""The tables of a recall index: entries, the words in them, and the SQL that puts and ranks them.

Entries of one kind and scope stand together on a shelf, a range of rows, so that a search for memories
is not slowed or crowded out by a hundred thousand turns of conversation. Without a thought for threads,
damage or files: that is index.py. What to look for and what is worth finding: recall.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, TypeVar

import apsw

from agent_worker.core.clock import micros
from agent_worker.core.later import dataclass
from agent_worker.memory.words import Term, date_in_words, indexable, is_question, tells_time

Kind = Literal["memory", "note", "history", "todo", "document"]
T = TypeVar("T")

LONGEST_TEXT = 20_000  # characters indexed of one entry: a pasted log is found by its beginning
LONGEST_NEIGHBOUR = 1_000
HALF_LIFE = 30 * 86_400 * 1e6  # microseconds
ASKS, ANSWERS, TELLS_TIME = 1, 2, 4  # traits of an entry: a question, the turn right after one, has a time word
WEIGHED = 600  # hits whose age and author are looked at
SHELF_BITS = 40  # of a row's number; the bits above them are the shelf
TOKENIZER = ("porter", "unicode61", "remove_diacritics", "2")

# Words gathered in memory before they are written: eight megabytes index a fifth faster than the usual one.
SCHEMA = f"""
create table source (name text primary key, stamp text not null) without rowid;
create table shelf (id integer primary key, kind text not null, scope text not null,
                    next_row integer not null, unique (kind, scope));
create table entry (row integer primary key, source text not null, position integer, mark blob not null,
                    at integer, zone integer, traits integer not null, author text not null, id text not null,
                    label text not null, text text not null);
create index entry_source on entry (source, position);
create index entry_author on entry (author, at);
create virtual table words using fts5 (body, around, date, content = '', contentless_delete = 1,
                                       tokenize = '{" ".join(TOKENIZER)}');
insert into words (words, rank) values ('hashsize', 8000000);
"""

PROBE = "select 1 from source, shelf, entry, words limit 0"

ADD_ENTRY = "insert into entry values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
ADD_WORDS = "insert into words (rowid, body, around, date) values (?, ?, ?, ?)"

# Age only settles ties: with a half-life that counts in full, only half as much is found. Entries are looked at only
# of the hits that their words put first: to look up each costs as much again as to rank it.
RANK = f"""
select row, score * (0.8 + 0.2 * pow(0.5, max(:now - coalesce(at, :now), 0) / {HALF_LIFE}))
                  * (case when author = :author then 1.35 else 1.0 end) as weighed
  from (select rowid as hit, -bm25(words, 1.0, 0.3, 0.5) as score
          from words where words match :terms and rowid between :low and :high
         order by score desc, rowid desc limit {WEIGHED})
  join entry on row = hit
 order by weighed desc, at desc, mark, source limit :limit"""

HITS = "select count(*) from words where words match :terms and rowid between :low and :high"

OLDEST_OF_NEWEST = """
select min(rowid) from (select rowid from words where words match :terms and rowid between :low and :high
                         order by rowid desc limit :limit)"""

NEWEST_BY = """
select row from entry where author = :author and row between :low and :high
 order by at desc, mark, source limit :limit"""

# One step in the index per author; `select distinct` would read all of it.
AUTHORS = """
with recursive author (name) as (
  select min(author) from entry
  union all
  select (select min(entry.author) from entry where entry.author > author.name) from author
   where author.name is not null)
select name from author where name <> ''"""

TEXTS = f"""
select row, trim(label || ' ' || substr(text, 1, {LONGEST_TEXT})),
       coalesce((select substr(b.text, 1, {LONGEST_NEIGHBOUR}) from entry b
                  where b.source = e.source and b.position < e.position order by b.position desc limit 1), ''),
       coalesce((select substr(a.text, 1, {LONGEST_NEIGHBOUR}) from entry a
                  where a.source = e.source and a.position > e.position order by a.position limit 1), '')
  from entry e where row between :low and :high order by row limit :limit"""

OUTLINES = "select row, traits, at, author, source, id from entry where row in ({})"

ENTRIES = f"""
select row, source, position, at, zone, author, entry.id, label, text, kind, scope
  from entry join shelf on shelf.id = row >> {SHELF_BITS} where """


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One thing worth finding again: a memory, a paragraph of a note, one turn of a conversation."""

    id: str  #: within its source: a key, a line, a sequence number
    kind: Kind
    source: str  #: name of the file or log it stands in
    text: str
    author: str = ""
    at: datetime | None = None  #: its date is searched as it reads here, in its own time zone
    position: int | None = None  #: order within the source; None has no neighbours
    label: str = ""  #: memory key or title, searched like the text
    scope: str = ""  #: who may see it (memory), or where it was said (history)


class Outline(NamedTuple):
    """What of an entry is weighed against others, without its text."""

    traits: int  #: ASKS, ANSWERS, TELLS_TIME
    at: int | None  #: microseconds since 1970
    author: str
    source: str
    id: str


@dataclass(frozen=True, slots=True)
class IndexChanges:
    added: int = 0
    removed: int = 0

    def __add__(self, other: IndexChanges) -> IndexChanges:
        return IndexChanges(self.added + other.added, self.removed + other.removed)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry made ready: with what its neighbours say, and a mark that changes with any of it."""

    entry: IndexEntry
    around: str
    traits: int  #: ASKS, ANSWERS, TELLS_TIME
    at: int | None  #: microseconds since 1970
    zone: int | None  #: seconds ahead of UTC
    mark: bytes


class Tables:
    """What one open index holds."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._db = connection
        self._tokenizer = connection.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
        self.birth = int(connection.pragma("application_id"))  #: rows mean nothing in another index

    # What a search asks.

    def shelves(self, kinds: Collection[Kind] | None, scopes: Collection[str] | None) -> list[int]:
        """Shelves of these kinds and scopes; None is any."""
        return [
            shelf
            for shelf, kind, scope in self._db.execute("select id, kind, scope from shelf order by id")
            if (kinds is None or kind in kinds) and (scopes is None or scope in scopes)
        ]

    def hits(self, match: str, shelf: int) -> int:
        return self._number(HITS, _range(shelf) | {"terms": match})

    def oldest_of_newest(self, match: str, shelf: int, limit: int) -> int:
        """The first row of the newest `limit` hits."""
        return self._number(OLDEST_OF_NEWEST, _range(shelf) | {"terms": match, "limit": limit})

    def rank(self, match: str, shelf: int, *, since: int, author: str, now: datetime, limit: int) -> dict[int, float]:
        """The best rows of a shelf that match, from row `since` on, with their scores."""
        rows = _range(shelf)
        bindings = rows | {"low": max(rows["low"], since), "terms": match, "author": author, "limit": limit}
        return dict(self._db.execute(RANK, bindings | {"now": micros(now)}))

    def newest_by(self, author: str, shelf: int, limit: int) -> list[int]:
        bindings = _range(shelf) | {"author": author, "limit": limit}
        return [row for (row,) in self._db.execute(NEWEST_BY, bindings)]

    def authors(self) -> list[str]:
        return [name for (name,) in self._db.execute(AUTHORS)]

    def outlines(self, rows: Collection[int]) -> dict[int, Outline]:
        """What of these rows is weighed, as far as they still exist."""
        found = self._db.execute(OUTLINES.format(_marks(rows)), tuple(rows))
        return {each[0]: Outline._make(each[1:]) for each in found}

    def entries(self, rows: Collection[int]) -> dict[int, IndexEntry]:
        """Entries of these rows, as far as they still exist."""
        return dict(self._entries(f"row in ({_marks(rows)})", *rows))

    def texts_after(self, row: int, shelf: int, *, limit: int) -> dict[int, tuple[str, str, str]]:
        """What came to a shelf since that row did, oldest first: each text, the one before and the one after it.

        They never change: an entry that gets another neighbour gets another row.
        """
        rows = _range(shelf)
        bounds = {"low": max(rows["low"], row + 1), "high": rows["high"], "limit": limit}
        return {row: tuple(texts) for row, *texts in self._db.execute(TEXTS, bounds)}

    def around(self, entry: IndexEntry) -> str:
        """What the neighbours of an entry say: two before, one after."""
        here = (entry.source, entry.position)
        before = self._entries("source = ? and position < ? order by position desc limit 2", *here)
        after = self._entries("source = ? and position > ? order by position limit 1", *here)
        return _said_by([entry for _, entry in (*before, *after)])

    def stems(self, text: str) -> list[str]:
        """The words of a text as the index keeps them."""
        raw = indexable(text[:LONGEST_TEXT]).encode("utf-8", "replace")
        reason = apsw.FTS5_TOKENIZE_DOCUMENT
        found: Any = self._tokenizer(raw, reason, None, include_offsets=False, include_colocated=False)
        return list(found)

    def count(self) -> int:
        return self._number("select count(*) from entry")

    # What keeps it in step.

    def in_transaction(self, change: Callable[[Tables], T]) -> T:
        """Store all of a change or nothing of it."""
        done: list[T] = []
        with self._db:
            done.append(change(self))
        return done[0]

    def stamps(self) -> dict[str, str]:
        return dict(self._db.execute("select name, stamp from source"))

    def put(self, name: str, entries: Sequence[IndexEntry], stamp: str) -> IndexChanges:
        """Let a source hold exactly these entries. Those it held already keep their rows."""
        self._stamp(name, stamp)
        rows = prepared(entries)
        wanted = Counter(row.mark for row in rows)
        gone = []
        for number, mark in self._db.execute("select row, mark from entry where source = ?", (name,)):
            wanted[mark] -= 1
            if wanted[mark] < 0:
                gone.append(number)
        new = []
        for row in rows:
            wanted[row.mark] -= 1
            if wanted[row.mark] >= 0:
                new.append(row)
        self._delete(gone)
        self._insert(name, new)
        return IndexChanges(len(new), len(gone))

    def append(self, name: str, entries: Sequence[IndexEntry], stamp: str) -> IndexChanges:
        """Add what was written to the end of a source, without looking at the rest of it."""
        self._stamp(name, stamp)
        tail = self._entries("source = ? and position is not null order by position desc limit 3", name)
        tail.reverse()
        last = max((entry.position or 0 for _, entry in tail), default=-1)
        # What was appended before is left out, so that appending twice does no harm.
        new = [entry for entry in entries if entry.position is None or entry.position > last]
        before = [entry for _, entry in tail]
        # The last one of before has a neighbour now; the two before it keep theirs.
        self._delete([row for row, _ in tail[-1:]])
        self._insert(name, [row for row in prepared(before + new) if row.entry not in before[:-1]])
        return IndexChanges(len(new), 0)

    def remove(self, names: Iterable[str]) -> IndexChanges:
        gone: list[int] = []
        for name in names:
            gone += [row for (row,) in self._db.execute("select row from entry where source = ?", (name,))]
            self._db.execute("delete from source where name = ?", (name,))
        self._delete(gone)
        return IndexChanges(0, len(gone))

    def _stamp(self, name: str, stamp: str) -> None:
        self._db.execute("insert or replace into source values (?, ?)", (name, stamp))

    def _number(self, sql: str, bindings: Mapping[str, Any] | tuple[Any, ...] = ()) -> int:
        found = self._db.execute(sql, bindings).fetchone()
        return (found[0] or 0) if found else 0

    def _entries(self, which: str, *bindings: Any) -> list[tuple[int, IndexEntry]]:
        return [_entry(found) for found in self._db.execute(ENTRIES + which, bindings)]

    def _delete(self, rows: Sequence[int]) -> None:
        self._db.executemany("delete from words where rowid = ?", [(row,) for row in rows])
        self._db.executemany("delete from entry where row = ?", [(row,) for row in rows])

    def _insert(self, name: str, rows: list[Row]) -> None:
        # In order of time, so that of a too common word the newest hits are those with the highest rows.
        rows = sorted(rows, key=lambda row: row.at or 0)
        free: dict[tuple[str, str], int] = {}
        numbers = []
        for row in rows:
            place = (row.entry.kind, row.entry.scope)
            number = free.get(place) or self._free_row(*place)
            free[place] = number + 1
            numbers.append(number)
        for (kind, scope), number in free.items():
            self._db.execute("update shelf set next_row = ? where kind = ? and scope = ?", (number, kind, scope))
        numbered = list(zip(numbers, rows, strict=True))
        self._db.executemany(ADD_ENTRY, (_stored(number, name, row) for number, row in numbered))
        self._db.executemany(ADD_WORDS, (_words(number, row) for number, row in numbered))

    def _free_row(self, kind: str, scope: str) -> int:
        """Rows are never used twice: who remembers one (meaning.py) finds it unchanged or gone."""
        free = self._number("select next_row from shelf where kind = ? and scope = ?", (kind, scope))
        if not free:
            shelf = 1 + self._number("select max(id) from shelf")
            free = (shelf << SHELF_BITS) + 1
            self._db.execute("insert into shelf values (?, ?, ?, ?)", (shelf, kind, scope, free))
        return free


def prepared(entries: Sequence[IndexEntry]) -> list[Row]:
    """Entries of one source, each with its neighbours: two before, one after."""
    ordered = sorted(entries, key=lambda entry: -1 if entry.position is None else entry.position)
    rows = []
    for place, entry in enumerate(ordered):
        near = ordered[max(place - 2, 0) : place] + ordered[place + 1 : place + 2]
        around = "" if entry.position is None else _said_by(near)
        at, zone = _time(entry.at)
        traits = _traits(entry, ordered[place - 1] if place else None)
        rows.append(Row(entry, around, traits, at, zone, _mark(entry, around, at, zone)))
    return rows


def shelf_of(row: int) -> int:
    return row >> SHELF_BITS


def any_of(terms: Iterable[Term]) -> str:
    return " OR ".join(map(str, terms))


def all_of(terms: Iterable[Term]) -> str:
    return " AND ".join(map(str, terms))


def _said_by(near: Sequence[IndexEntry]) -> str:
    return "\n".join(entry.text[:LONGEST_NEIGHBOUR] for entry in near if entry.position is not None)


def _traits(entry: IndexEntry, before: IndexEntry | None) -> int:
    answers = before is not None and before.position is not None and is_question(before.text)
    return (
        (ASKS if is_question(entry.text) else 0)
        | (ANSWERS if answers else 0)
        | (TELLS_TIME if tells_time(entry.text[:LONGEST_NEIGHBOUR]) else 0)
    )


def _mark(entry: IndexEntry, around: str, at: int | None, zone: int | None) -> bytes:
    known = (entry.id, entry.kind, entry.scope, entry.author, entry.label, entry.position, at, zone)
    whole = f"{known}{len(entry.text)} {entry.text}{around}"
    return blake2b(whole.encode("utf-8", "replace"), digest_size=8).digest()


def _stored(number: int, name: str, row: Row) -> tuple[Any, ...]:
    entry = row.entry
    texts = map(_storable, (entry.author, entry.id, entry.label, entry.text))
    return (number, name, entry.position, row.mark, row.at, row.zone, row.traits, *texts)


def _words(number: int, row: Row) -> tuple[Any, ...]:
    entry = row.entry
    body = f"{entry.label} {entry.text}" if entry.label else entry.text
    texts = (_storable(indexable(text[:LONGEST_TEXT])) for text in (body, row.around))
    return (number, *texts, date_in_words(entry.at))


def _entry(found: Sequence[Any]) -> tuple[int, IndexEntry]:
    """A row of ENTRIES: its number, and the entry."""
    row, source, position, at, zone, author, id, label, text, kind, scope = found
    when = None
    if at is not None:
        when = datetime.fromtimestamp(0, timezone(timedelta(seconds=zone or 0))) + timedelta(microseconds=at)
    return row, IndexEntry(id, kind, source, text, author, when, position, label, scope)


def _time(at: datetime | None) -> tuple[int | None, int | None]:
    if at is None:
        return None, None
    ahead = at.utcoffset()
    if ahead is None:
        return micros(at.replace(tzinfo=UTC)), 0
    return micros(at), int(ahead.total_seconds())


def _storable(text: str) -> str:
    """The text without halves of characters: JSON may hold them, a database may not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _marks(rows: Collection[int]) -> str:
    return ",".join("?" * len(rows))


def _range(shelf: int) -> dict[str, Any]:
    return {"low": shelf << SHELF_BITS, "high": ((shelf + 1) << SHELF_BITS) - 1}
