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
from agent_worker.memory.encoded_meaning import EncodedMeaning
from agent_worker.memory.index import Index
from agent_worker.memory.index_tables import (
    ANSWERS,
    ASKS,
    TELLS_TIME,
    IndexEntry,
    Kind,
    Outline,
    Tables,
    all_of,
    any_of,
)
from agent_worker.memory.meaning import Meaning
from agent_worker.memory.words import MONTHS, Term, asks_when, date_in_words, names, plain_words, terms_of, without_name

AnyMeaning = Meaning | EncodedMeaning

MOST_FOUND = 100
POOL = 150  # hits per shelf that are weighed against each other; each of the factors below may lift one from there
ANSWERING, ASKING, TELLING_TIME = 1.2, 0.9, 1.3  # of the turn after a question, of a question, of a time when asked for
MOST_RANKED = 8_000  # hits per shelf; ranking takes about a microsecond each
LIKE = 0.25  # what a word counts that means nearly the same as one of the question
SAID_BY = 1.15  # how much nearer is what the author said that the question names
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
    meaning: AnyMeaning | None = None


@dataclass(frozen=True, slots=True)
class _Question:
    """A query understood for one index, once: what to look for, and the one author it names."""

    text: str
    terms: Sequence[Term]
    like: Sequence[Term]  #: words of the index that mean nearly the same
    author: str
    asks_when: bool
    now: datetime


@dataclass(frozen=True, slots=True, eq=False)
class _Hit:
    place: SearchScope
    question: _Question
    birth: int  #: of the index; its rows mean nothing in another
    row: int
    outline: Outline
    words: float  #: what the words say of it, 0 if they did not find it
    near: float  #: what its meaning says, 0 if nobody was asked

    @property
    def nearness(self) -> float:
        return self.near * (SAID_BY if self.question.author and self.outline.author == self.question.author else 1.0)

    @property
    def factor(self) -> float:
        """A weight from what talk is like: an answer comes right after its question, and who asks
        "when" wants a time.
        """
        traits = self.outline.traits
        return (
            (ASKING if traits & ASKS else 1.0)
            * (ANSWERING if traits & ANSWERS else 1.0)
            * (TELLING_TIME if traits & TELLS_TIME and self.question.asks_when else 1.0)
        )


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
    hits = [hit for place in places for hit in _hits(place, query, now, kinds)] if limit else []
    best = sorted(zip(_mixed(hits), hits, strict=True), key=lambda one: _order(*one))[:limit]
    told: dict[_Hit, tuple[IndexEntry, str]] = {}
    for place in places:
        told |= _told(place, [hit for _, hit in best if hit.place is place])
    return [Recalled(told[hit][0], score, told[hit][1]) for score, hit in best if hit in told]


def _hits(place: SearchScope, query: str, now: datetime, kinds: Collection[Kind] | None) -> list[_Hit]:
    def ask(tables: Tables) -> list[_Hit]:
        shelves = tables.shelves(kinds, place.scopes)
        meaning = place.meaning if place.meaning and place.meaning.ready(tables, query, shelves) else None
        question = _question(tables, meaning, query, now)
        scores: dict[int, float] = {}
        for shelf in shelves:
            scores |= _scores(tables, question, shelf)
        near = _near(meaning, question, shelves, scores) if meaning else {}
        outlines = tables.outlines(scores.keys() | near.keys())
        return [
            _Hit(place, question, tables.birth, row, outline, scores.get(row, 0.0), near.get(row, 0.0))
            for row, outline in outlines.items()
        ]

    return place.index.read(ask)


def _told(place: SearchScope, hits: Sequence[_Hit]) -> dict[_Hit, tuple[IndexEntry, str]]:
    """The entries of these hits, each with why it was found, as far as they still exist."""

    def ask(tables: Tables) -> dict[_Hit, tuple[IndexEntry, str]]:
        there = [hit for hit in hits if hit.birth == tables.birth]
        entries = tables.entries([hit.row for hit in there])
        stems = {term: tables.stems(term.phrase) for term in (there[0].question.terms if there else ())}
        return {
            hit: (entry, _reasons(tables, hit.question, stems, entry))
            for hit in there
            if (entry := entries.get(hit.row)) is not None
        }

    return place.index.read(ask) if hits else {}


def _question(tables: Tables, meaning: AnyMeaning | None, query: str, now: datetime) -> _Question:
    author, terms = _only_author(query, tables.authors()), terms_of(query, now)
    words = plain_words(" ".join(term.phrase for term in terms if term.phrase != author.lower()))
    like = [Term(word, word) for word in meaning.like(tables, words)] if meaning else []
    return _Question(query, terms, like, author, asks_when(query), now)


def _near(
    meaning: AnyMeaning,
    question: _Question,
    shelves: Collection[int],
    found: Collection[int],
) -> dict[int, float]:
    about = without_name(question.text, question.author) if question.author else question.text
    near = meaning.near(about, shelves, also=found, limit=POOL)
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
        if match and len(scores) < POOL:
            since = tables.oldest_of_newest(match, shelf, MOST_RANKED)
            scores = _rank(tables, question, shelf, match, since) | scores
    return _with_like(tables, question, shelf, scores) if question.like else scores


def _with_like(tables: Tables, question: _Question, shelf: int, scores: dict[int, float]) -> dict[int, float]:
    """What words that mean nearly the same find counts too, but less."""
    hits = {term: tables.hits(str(term), shelf) for term in question.like}
    rarest = sorted((term for term in question.like if hits[term]), key=lambda term: hits[term])
    found = _rank(tables, question, shelf, any_of(_affordable(rarest, hits))) if rarest else {}
    return scores | {row: scores.get(row, 0.0) + LIKE * score for row, score in found.items()}


def _newest(tables: Tables, question: _Question, shelf: int) -> dict[int, float]:
    """What an author said last, where there is nothing to go by but their name."""
    rows = tables.newest_by(question.author, shelf, POOL)
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
    """As many of the terms, rarest first, as may be ranked together without taking too long."""
    totals = accumulate(hits[term] for term in terms)
    return [term for term, total in zip(terms, totals, strict=True) if total <= MOST_RANKED]


def _rank(tables: Tables, question: _Question, shelf: int, match: str, since: int = 0) -> dict[int, float]:
    return tables.rank(match, shelf, since=since, author=question.author, now=question.now, limit=POOL)


def _mixed(hits: Sequence[_Hit]) -> list[float]:
    """A weighted sum of both, each measured against its best; it beats fusing the ranks."""
    most, nearest = max((hit.words for hit in hits), default=0.0), max((hit.nearness for hit in hits), default=0.0)
    if nearest <= 0:
        return [hit.factor * hit.words for hit in hits]
    return [hit.factor * (0.7 * hit.words / (most or 1.0) + 0.3 * hit.nearness / nearest) for hit in hits]


def _order(score: float, hit: _Hit) -> tuple[float, float, str, str]:
    return -score, -(hit.outline.at or 0), hit.outline.source, hit.outline.id


def _only_author(query: str, authors: Collection[str]) -> str:
    """The one author a query names; nobody when it names several."""
    named = [author for author in authors if names(query, author)]
    return named[0] if len(named) == 1 else ""


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
    """The words looked for, in quotes: without parts of longer ones, and with pairs of characters joined again."""
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
