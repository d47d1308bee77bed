"""What people type, as terms to look for; what they wrote, as text that can be indexed.

Every term is a quoted phrase made of letters and digits only, so nothing a person types is ever search
syntax. Scripts without spaces are indexed character by character and looked for by pairs. Dates are put
into words on both sides. Knows no index and no ranking.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from agent_worker.core.later import dataclass, pattern

MOST_TERMS = 40  # a whole instruction may be the query; beyond this, more words only cost time
MOST_CHARACTERS = 4_000

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

#: Words that say that something is asked, or hold a sentence together, but not what it is about.
_STOP_WORDS = """
    a about above after again against ago all also am an and any anybody anyone anything are as at be
    because been before being below between both but by ca can could did do does doing done down during
    each ever every few for from further get gets getting give given go goes going gone got had has have
    having he her here hers herself him himself his how i if in into is it its itself just know known let
    like made make makes many may maybe me mention mentioned might more most much must my myself need no
    nor not of off ok on once one only or other ought our ours ourselves out over own per please really
    said same say saying says shall she should so some somebody someone something still such talk talked
    talking tell than that the their theirs them themselves then there these they thing things think this
    those though through to told too under until up upon us use used very want wanted was we were what
    whatever when whenever where wherever whether which whichever while who whoever whom whose why will
    with wo would yes yet you your yours yourself
    """
STOP_WORDS = frozenset(_STOP_WORDS.split())

#: The same for the pairs that Chinese, Japanese and Korean questions are made of.
_STOP_PAIRS = """
    什么 怎么 怎样 哪里 哪个 哪天 哪些 多少 几点 几个 为什 我们 你们 他们 这个 那个 是不 不是 有没 没有 是谁 谁说
    什麼 怎麼 哪裡 為什 我們 你們 他們 這個 那個
    です ます した まし でし てい いる いま ある あり どこ いつ 何を 何が だれ 誰が 誰の なに なぜ どう どの どれ
    ので から まで って こと もの これ それ ため には では とい いう うか すか たか のか
    무엇 어디 언제 누가 누구 어떻 떻게 습니 니다 니까 했습 입니
    """
STOP_PAIRS = frozenset(_STOP_PAIRS.split())

_CJK = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_CJK_CHARACTER = pattern(f"[{_CJK}]")
_RUN = pattern(f"[{_CJK}]+|[^\\W_{_CJK}]+")  # letters and digits, as the index's tokenizer sees them
_SHORTENED = pattern(r"(?<=\w)(?:n['’]t|['’](?:s|re|ve|ll|d|m))\b")

_MONTH = "(?P<month>" + "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTHS) + ")"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4}))?"
_DATES = tuple(
    pattern(written)
    for written in (
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH}\b{_YEAR}",
        rf"\b{_MONTH}\s+{_DAY}\b(?!\d){_YEAR}",
        r"\b(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})\b",
        r"(?:(?P<year>\d{4})\s?年\s?)?(?P<month>\d{1,2})\s?月\s?(?P<day>\d{1,2})\s?[日号號]",
        rf"\b(?:in|of|since|during|last|this|early|late|mid)\s+{_MONTH}\b{_YEAR}",
        r"(?:(?P<year>\d{4})\s?年\s?)?(?P<month>\d{1,2})\s?月",
    )
)
_RELATIVE = {"today": 0, "yesterday": 1, "今天": 0, "今日": 0, "昨天": 1, "昨日": 1}
_RELATIVE_DAY = pattern("|".join(rf"\b{word}\b" if word.isascii() else word for word in _RELATIVE))


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for, found anywhere in an entry, its surroundings or its date."""

    said: str  #: as the person wrote it, for saying why something was found
    phrase: str  #: letters, digits and single spaces only
    columns: str = ""  #: the only columns to look in; empty for all

    @property
    def is_pair(self) -> bool:
        """Whether these are two characters of a longer word in a script without spaces."""
        return len(self.said) == 2 and len(self.phrase) == 3

    def __str__(self) -> str:
        """The term as the index is asked for it."""
        return f'{self.columns}"{self.phrase}"'


def terms_of(query: str, now: datetime) -> list[Term]:
    """The terms of a query in its own order, without repetition. Empty when it has no letter or digit."""
    text = _plain(query[:MOST_CHARACTERS])
    dates, rest = _without_dates(text.lower(), now)
    chunks = _SHORTENED.sub("", rest).split()
    found = dates + [term for chunk in chunks for term in _terms_in(chunk)]
    telling = [term for term in found if not _is_stop(term.phrase)]
    # A query of nothing but such words must still find the entry that holds them ("who is who").
    return list({term.phrase: term for term in telling or found}.values())[:MOST_TERMS]


def indexable(text: str) -> str:
    """The text with every character of a script without spaces standing alone."""
    if text.isascii():
        return text
    return _CJK_CHARACTER.sub(r" \g<0> ", _plain(text))


def date_in_words(at: datetime | None) -> str:
    """`3 march 2026 tuesday`: a date as people ask for it."""
    if at is None:
        return ""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year} {WEEKDAYS[at.weekday()]}"


def names(query: str, name: str) -> bool:
    """Whether the query speaks of somebody of this name."""
    if not name:
        return False
    edge = "" if _CJK_CHARACTER.search(name) else r"\b"  # no spaces around a name in Chinese
    return re.search(f"{edge}{re.escape(name.lower())}{edge}", query.lower()) is not None


def without_name(query: str, name: str) -> str:
    return re.sub(re.escape(name), " ", query, flags=re.IGNORECASE)


def _plain(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _terms_in(chunk: str) -> Iterator[Term]:
    """`ops-306` is looked for as it stands and by its parts."""
    runs: list[str] = _RUN.findall(chunk)
    words = [run for run in runs if not _CJK_CHARACTER.match(run)]
    if 1 < len(words) <= 8 and len(words) == len(runs):
        yield Term(chunk.strip("\"'`.,:;!?()[]{}*"), " ".join(words))
    for run in runs:
        if not _CJK_CHARACTER.match(run):
            yield _word(run)
        elif len(run) == 1:
            yield Term(run, run)
        else:
            yield from (Term(a + b, f"{a} {b}") for a, b in pairwise(run))


def _word(run: str) -> Term:
    # A bare number means an amount; in the date column it would match the nth of every month.
    return Term(run, run, "{body around} : " if run.isdigit() else "")


def _is_stop(phrase: str) -> bool:
    return phrase in STOP_WORDS or phrase.replace(" ", "") in STOP_PAIRS


def _without_dates(text: str, now: datetime) -> tuple[list[Term], str]:
    dates: list[Term] = []

    def take(match: re.Match[str]) -> str:
        if (term := _date(match.group().strip(), **match.groupdict())) is None:
            return match.group()
        dates.append(term)
        return " "

    def take_relative(match: re.Match[str]) -> str:
        day = now - timedelta(days=_RELATIVE[match.group()])
        dates.append(Term(match.group(), f"{day.day} {MONTHS[day.month - 1]} {day.year}"))
        return " "

    for written in _DATES:
        text = written.sub(take, text)
    return dates, _RELATIVE_DAY.sub(take_relative, text)


def _date(said: str, *, month: str, day: str | None = None, year: str | None = None) -> Term | None:
    number = int(month) if month.isdigit() else [name[:3] for name in MONTHS].index(month[:3]) + 1
    if not 1 <= number <= 12:
        return None
    words = (str(int(day)) if day else None, MONTHS[number - 1], year)
    return Term(said, " ".join(word for word in words if word))
