"""What a sentence says, as far as it can be told without understanding it: what it is about, and what it fixes.

Two sentences with the same words but another weekday, number or name are an update; with the same of both they are
the same; with other words they have nothing to do with each other. Words are compared by their stems, in English; of
other languages whole words are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection
from functools import lru_cache

from agent_worker.core.later import dataclass, pattern
from agent_worker.memory.words import MONTHS, STOP_WORDS, WEEKDAYS, stem

SAME = 0.75  # share of words in common, from which on two sentences say the same
LIKE = 0.6  # from which on they are about the same
BACKED = 0.5  # share of the words of a claim that somebody must have used who is said to have made it

MOST_SENTENCES = 100
_SENTENCE = pattern(r"(?<=[.!?;])\s+|\n+")
_WORD = pattern(r"@?[^\W_]+(?:[.:/'’@+-][^\W_]+)*%?")
_PAST = pattern(r"\b(used to|formerly|previously|in the past|back then|until (?!further)|before that|at that time)\b")
_STATUS = pattern(
    r"^(i|we|it|the (task|work|job|review|run))?\s*+('m|am|is|are|was|were|have|has|had|will|'ll)?\s*+(been |be )?"
    r"(now |just |about to )*(done|finished|completed?|working|starting|started|looking|checking|going|waiting|ready|"
    r"busy|ok|okay|reading|thinking|trying|answered|replied|asked|posted|thanked|greeted|said hello|acknowledged)\b"
)


#: How one begins who tells of the work itself, or of how somebody took it.
_TELLS_OF_WORK = pattern(
    r"^(?:(?:i|we)\b|"
    r"(?:so far|right now|just|all|everything|almost|nearly|currently|now|next|then|soon|will|about to|still|once)\b|"
    r"(?:[a-z]+ing|looked|read|called|gave|helped|answered|replied|posted|checked|started|began|tried|sent|wrote|asked|"
    r"told|finished|completed|done|made)\b|"
    r"the (?:task|work|job|review|run|conversation|build|result|answer|message|question|request|chat|session)\b|"
    r"(?:the )?(?:user|person) (?:has |had |just )?(?:thank|said|say|greet|agree|ask|repl|answer|wrote|seem|was|"
    r"(?:is|looks|sounds) (?:happy|satisfied|fine|glad|pleased|ok)))"
)


def _listed(words: str) -> list[str]:
    return words.split()


_UP_TO_TWENTY = _listed(
    """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty"""
)
_TENS = _listed("thirty forty fifty sixty seventy eighty ninety hundred")
_NUMBERS = {word: str(n) for n, word in enumerate(_UP_TO_TWENTY)} | {
    word: str(10 * n) for n, word in enumerate(_TENS, start=3)
}
_NOT = frozenset(_listed("not no never none nobody nothing neither nor without stop stopped dropped cannot"))
_DAYS = {day: day for day in WEEKDAYS} | {day[:3]: day for day in WEEKDAYS} | {"tues": "tuesday", "thurs": "thursday"}
_MONTHS = {month: month for month in MONTHS} | {month[:3]: month for month in MONTHS}
_ALSO_WORDS = frozenset(_listed("may march mar sat sun"))  # a day or month only with a capital letter
_TIMES = frozenset(_listed("daily weekly monthly yearly hourly morning afternoon evening night noon midnight weekend"))


_EMPTY = frozenset(
    map(
        stem,
        _listed(
            """done ok okay task work job thing stuff today now hello hi thanks thank reply
            answer asked said told finished completed successfully nothing status progress update note"""
        ),
    )
)

#: What one speaks of who tells of the work itself.
_OF_WORK = _EMPTY | frozenset(
    map(
        stem,
        _listed(
            """file message user person question request help helped test build tool conversation chat session part
            result channel problem issue error morning evening tomorrow yesterday minute moment look read call give
            gave post check try tried start begin began begun go went wait happy pleased satisfied glad thanked greeted
            agreed well good fine great nice right away second first last once twice again currently almost nearly next
            soon later short long quick quickly small step rest far everything anything without run ran found wrote
            write send sent code change review summary point way time day"""
        ),
    )
)

#: Words of keys that say what sort of thing an entry is, and not what it is about.
GENERIC = frozenset(
    map(
        stem,
        _listed(
            """rule note decision fact memory entry pattern outcome about info detail setting style preference habit
            wish topic subject item remark reminder plan general misc"""
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What one sentence says."""

    words: frozenset[str]  #: stems of what it is about
    numbers: frozenset[str]
    dates: frozenset[str]  #: weekdays, months, times of day
    names: frozenset[str]  #: of people and things, as far as they are written with a capital or an @
    negated: bool
    past: bool  #: it speaks of what was

    @property
    def fixed(self) -> frozenset[str]:
        return self.numbers | self.dates | self.names


@lru_cache(20_000)
def facts(text: str) -> Facts:
    plain = unicodedata.normalize("NFKC", text)
    words, numbers, dates, names = set(), set(), set(), set()
    negated = False
    for place, found in enumerate(_WORD.finditer(plain)):
        said = found.group().strip("'’")
        word = said.casefold()
        base = word.removesuffix("'s").removesuffix("’s")
        single = base.removesuffix("s") if base.removesuffix("s") in _DAYS else base
        if word in _ALSO_WORDS and not said[:1].isupper():
            words |= {word} - STOP_WORDS
        elif word in _NOT or word.endswith(("n't", "n’t")):
            negated = not negated
        elif single in _DAYS or base in _MONTHS or base in _TIMES:
            dates.add(_DAYS.get(single) or _MONTHS.get(base) or base)
        elif base in _NUMBERS or any(map(str.isdigit, base)):
            numbers.add(_NUMBERS.get(base, base))
        elif base in STOP_WORDS:
            continue
        elif base.startswith("@") or (said[:1].isupper() and place and not _begins_sentence(plain, found.start())):
            names.add(base.removeprefix("@"))
        else:
            words.add(stem(base))
    past = bool(_PAST.search(plain.casefold()))
    return Facts(frozenset(words), frozenset(numbers), frozenset(dates), frozenset(names), negated, past)


def slot(key: str) -> tuple[str, ...]:
    """What a key names, however it is spelled: `Deploy day`, `deploy-days` and `deploy_day` are one."""
    told = facts(key.replace("_", " ").replace("-", " ").replace("/", " ").replace(".", " ").lower())
    folded = sorted(told.words | told.fixed)
    return tuple(folded) or (key.casefold(),)


def same(one: str, other: str) -> bool:
    """Whether two texts say the same, in other words perhaps."""
    if one.casefold() == other.casefold():
        return True
    a, b = facts(one), facts(other)
    if (a.numbers, a.dates, a.negated) != (b.numbers, b.dates, b.negated):
        return False
    first, second = a.words | a.names, b.words | b.names
    return bool(first) and overlap(first, second) >= SAME


def contradict(one: str, other: str) -> bool:
    """Whether two texts are about the same and differ in a number, a date or a "not"."""
    a, b = facts(one), facts(other)
    if len(a.words & b.words) < 2 and not (a.words == b.words and a.words):
        return False
    if overlap(a.words, b.words) < LIKE:
        return False
    differs = any(mine and theirs and mine != theirs for mine, theirs in ((a.numbers, b.numbers), (a.dates, b.dates)))
    return (differs and a.names == b.names) or (a.negated != b.negated and a.fixed == b.fixed)


def overlap(one: Collection[str], other: Collection[str]) -> float:
    """The share of what they have in common, of all that they have."""
    first, second = set(one), set(other)
    return len(first & second) / len(first | second) if first | second else 0.0


def says_too_little(text: str, *, least: int) -> bool:
    """Whether there is nothing in it to keep."""
    return len(content_of(text)) < least


def is_status(text: str) -> bool:
    """Whether it only says how the work is going."""
    told, plain = facts(text), text.strip().casefold()
    if _STATUS.match(plain) and len((told.words | told.fixed) - _EMPTY) < 4:
        return True
    lasting = (told.words | told.dates) - _OF_WORK
    return bool(_TELLS_OF_WORK.match(plain)) and not (told.numbers | told.names) and len(lasting) < 2


def backs(said: str, claim: str) -> bool:
    """Whether somebody who said the one text has said the other too: no number, date or name in it comes from
    elsewhere.
    """
    told, claimed = facts(said), facts(claim)
    wanted = claimed.words | claimed.names
    fixed = claimed.numbers | claimed.dates
    given = told.words | told.names
    if not wanted or told.negated != claimed.negated or not fixed <= told.numbers | told.dates:
        return False
    return len(wanted & given) / len(wanted) >= BACKED


def content_of(text: str) -> frozenset[str]:
    """What a text speaks of."""
    told = facts(text)
    return (told.words | told.fixed) - _EMPTY


def passes_on(heard: str, text: str) -> bool:
    """Whether somebody who heard the one may have the other from there: it has most of its words in common with it."""
    told, said = facts(heard), facts(text)
    wanted = said.words | said.fixed
    return len(wanted) >= 3 and len(wanted & (told.words | told.fixed)) / len(wanted) >= LIKE


def sentences(text: str) -> list[str]:
    """The sentences of a text; of a long one only the first ones."""
    return [each for each in _SENTENCE.split(text, MOST_SENTENCES) if each.strip()][:MOST_SENTENCES]


def _begins_sentence(text: str, at: int) -> bool:
    return text[:at].rstrip().endswith((".", "!", "?", ":", "\n"))
