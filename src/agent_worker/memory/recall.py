"""One search for all an agent can look up: memory, notes, todos, history. Says why it found each entry.

Full-text search tuned on conversations with known evidence (docs/figures/recall.md): stemmed words, what was
said around an entry, its date in words, its author; age only settles ties. Where the optional
embedding is installed, meaning.py is asked as well. Ranks a bounded number of hits however large the
index. Decides nothing about who may look: the caller names kinds and scopes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

from agent_worker.core.later import dataclass
from agent_worker.memory.index import Index
from agent_worker.memory.index_tables import IndexEntry, Kind, Tables, all_of, any_of
from agent_worker.memory.meaning import Meaning
from agent_worker.memory.words import MONTHS, Term, date_in_words, names, terms_of, without_name

MOST_FOUND = 100
MOST_RANKED = 8_000  # hits per shelf; ranking takes about a microsecond each
LEAST_NEARNESS = 0.2  # of an entry that shares no word with the query; unrelated texts reach 0.17
AGES = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("week", 7 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)


@dataclass(frozen=True, slots=True)
class Recalled:
    entry: IndexEntry
    score: float  #: comparable within one search only
    why: str  #: "matches 'deploy', 'friday'; said by bob; 3 days ago"


@dataclass(frozen=True, slots=True)
class SearchScope:
    """One index to look in, and how far: None is every scope."""

    index: Index
    scopes: Collection[str] | None = None
    meaning: Meaning | None = None


@dataclass(frozen=True, slots=True)
class _Hit:
    place: SearchScope
    entry: IndexEntry
    words: float  #: what the words say of it, 0 if they did not find it
    near: float  #: what its meaning says, 0 if nobody was asked


@dataclass(frozen=True, slots=True)
class _Question:
    """A query understood: what to look for, and the one author it names."""

    terms: Sequence[Term]
    author: str
    now: datetime
    pool: int  #: how many of the best to weigh against each other


def recall(
    places: Sequence[SearchScope],
    query: str,
    *,
    now: datetime,
    kinds: Collection[Kind] | None = None,
    limit: int = 10,
) -> list[Recalled]:
    """The entries that answer a query best, best first, from all places. Any text is a query; None is every kind."""
    now = now if now.tzinfo else now.replace(tzinfo=UTC)
    limit = max(0, min(limit, MOST_FOUND))
    hits = [hit for place in places for hit in _hits(place, query, now, kinds, limit)] if limit else []
    scores = _mixed(hits)
    best = sorted(zip(scores, hits, strict=True), key=lambda one: _order(*one))[:limit]
    return [Recalled(hit.entry, score, _why(hit, query, now)) for score, hit in best]


def _hits(place: SearchScope, query: str, now: datetime, kinds: Collection[Kind] | None, limit: int) -> list[_Hit]:
    def ask(tables: Tables) -> list[_Hit]:
        question = _question(tables, query, now, MOST_FOUND if place.meaning else limit)
        shelves = tables.shelves(kinds, place.scopes)
        scores: dict[int, float] = {}
        for shelf in shelves:
            scores |= _scores(tables, question, shelf)
        near = _near(tables, place.meaning, query, question, shelves, scores) if place.meaning else {}
        entries = tables.entries(scores.keys() | near.keys())
        return [_Hit(place, entry, scores.get(row, 0.0), near.get(row, 0.0)) for row, entry in entries.items()]

    return place.index.read(ask)


def _question(tables: Tables, query: str, now: datetime, pool: int) -> _Question:
    return _Question(terms_of(query, now), _only_author(query, tables.authors()), now, pool)


def _near(
    tables: Tables,
    meaning: Meaning,
    query: str,
    question: _Question,
    shelves: Collection[int],
    found: Collection[int],
) -> dict[int, float]:
    about = without_name(query, question.author) if question.author else query
    near = meaning.near(tables, about, shelves, also=found, limit=question.pool)
    return {row: value for row, value in near.items() if value >= LEAST_NEARNESS or (row in found and value > 0)}


def _scores(tables: Tables, question: _Question, shelf: int) -> dict[int, float]:
    """The best rows of one shelf. Words that are everywhere find entries only if the others find too few."""
    hits = {term: tables.hits(str(term), shelf) for term in question.terms}
    present = sorted((term for term in question.terms if hits[term]), key=lambda term: hits[term])
    if question.author and all(term.phrase == question.author.lower() for term in present):
        return _newest(tables, question, shelf)
    telling = _affordable(present, hits)
    common = present[len(telling) :]
    scores = _ranked(tables, question, shelf, telling, common) if telling else {}
    for match in (all_of(common[:3]), any_of(common[:1])):
        if match and len(scores) < question.pool:
            since = tables.oldest_of_newest(match, shelf, MOST_RANKED)
            scores = _rank(tables, question, shelf, match, since) | scores
    return scores


def _newest(tables: Tables, question: _Question, shelf: int) -> dict[int, float]:
    """What an author said last, where there is nothing to go by but their name."""
    rows = tables.newest_by(question.author, shelf, question.pool)
    return {row: 1 / (place + 1) for place, row in enumerate(rows)}


def _ranked(
    tables: Tables, question: _Question, shelf: int, telling: Sequence[Term], common: Sequence[Term]
) -> dict[int, float]:
    """What the telling words find, in the order that all words give it."""
    if not common:
        return _rank(tables, question, shelf, any_of(telling))
    # The telling words stand in it twice, so the common ones must too: every score is exactly doubled.
    match = f"({any_of(telling)}) AND ({any_of([*telling, *common, *common])})"
    return {row: score / 2 for row, score in _rank(tables, question, shelf, match).items()}


def _affordable(terms: Sequence[Term], hits: Mapping[Term, int]) -> list[Term]:
    """As many of the terms, rarest first, as may be ranked together."""
    totals = accumulate(hits[term] for term in terms)
    return [term for term, total in zip(terms, totals, strict=True) if total <= MOST_RANKED]


def _rank(tables: Tables, question: _Question, shelf: int, match: str, since: int = 0) -> dict[int, float]:
    return tables.rank(match, shelf, since=since, author=question.author, now=question.now, limit=question.pool)


def _mixed(hits: Sequence[_Hit]) -> list[float]:
    """A weighted sum of both, each measured against its best; it beats fusing the ranks."""
    most, nearest = max((hit.words for hit in hits), default=0.0), max((hit.near for hit in hits), default=0.0)
    if nearest <= 0:
        return [hit.words for hit in hits]
    return [0.6 * hit.words / (most or 1.0) + 0.4 * hit.near / nearest for hit in hits]


def _order(score: float, hit: _Hit) -> tuple[float, float, str, str]:
    age = -hit.entry.at.timestamp() if hit.entry.at else 0.0
    return -score, age, hit.entry.source, hit.entry.id


def _only_author(query: str, authors: Collection[str]) -> str:
    """The one author a query names; nobody when it names several."""
    named = [author for author in authors if names(query, author)]
    return named[0] if len(named) == 1 else ""


def _why(hit: _Hit, query: str, now: datetime) -> str:
    def ask(tables: Tables) -> str:
        question = _question(tables, query, now, 0)
        stems = {term: tables.stems(term.phrase) for term in question.terms}
        return _reasons(tables, question, stems, hit.entry)

    return hit.place.index.read(ask)


def _reasons(tables: Tables, question: _Question, stems: Mapping[Term, Sequence[str]], entry: IndexEntry) -> str:
    own = tables.stems(f"{entry.label} {entry.text}")
    day = tables.stems(date_in_words(entry.at))
    matched = [term for term, words in stems.items() if _holds(own, words)]
    dated = [term for term, words in stems.items() if _holds(day, words)]
    near = [] if matched or dated else tables.stems(tables.around(entry))
    nearby = [term for term, words in stems.items() if _holds(near, words)]
    reasons = [
        f"matches {_quoted(matched)}" if matched else "",
        f"near {_quoted(nearby)}" if nearby else "",
        f"on {_day(entry.at)}" if dated and entry.at else "",
        f"said by {entry.author}" if entry.author and entry.author == question.author else "",
    ]
    found = [reason for reason in reasons if reason] or ["similar in meaning"]
    return "; ".join(found + ([age(entry.at, question.now)] if entry.at else []))


def _holds(text: Sequence[str], phrase: Sequence[str]) -> bool:
    width = len(phrase)
    starts = (place for place, word in enumerate(text) if phrase and word == phrase[0])
    return any(list(text[place : place + width]) == list(phrase) for place in starts)


def _quoted(terms: Sequence[Term]) -> str:
    """Without the parts of what was found as a whole, and pairs of characters put together again."""
    said: list[str] = []
    for term in terms:
        if term.is_pair and said and said[-1][-1] == term.said[0]:
            said[-1] += term.said[1]
        else:
            said.append(term.said)
    whole = [word for word in said if not any(word != other and word in other for other in said)]
    return ", ".join(f"'{word}'" for word in whole)


def _day(at: datetime) -> str:
    return f"{at.day} {MONTHS[at.month - 1].capitalize()} {at.year}"


def age(at: datetime, now: datetime) -> str:
    """How long ago something was, as people say it."""
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    seconds = (now - at).total_seconds()
    for unit, length in AGES:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"
