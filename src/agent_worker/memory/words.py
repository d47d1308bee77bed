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
_DIGIT = pattern("[0-9]")
_ASCII_WORD = pattern("[a-z0-9]+")
_PLAIN_WORD = pattern(r"\b[^\W\d_]{3,30}\b")
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
#: Ways to ask for a time, and words that tell one. What is asked with `when` is mostly answered with such a word.
_ASKS_WHEN = pattern(
    r"\b(?:when|(?:what|which) (?:day|date|time|week|month|year)|how (?:long|soon))\b"
    "|什么时候|什麼時候|几点|几号|哪天|何时|何時|いつ|何日|언제"
)
_NUMBERS = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
_NAMED_TIMES = """
    today tomorrow tonight yesterday morning mornings noon afternoon afternoons evening evenings midnight weekend
    weekends easter christmas clock fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth
    fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth
    """
_TIMES = {*_NAMED_TIMES.split(), *WEEKDAYS, *(f"{day}s" for day in WEEKDAYS), *MONTHS} - {"march", "may"}
_SPANS = {f"{span}{end}" for span in ("minute", "hour", "day", "week", "month", "quarter", "year") for end in ("", "s")}
_SOME = {*_NUMBERS, "half", "few", "of", "next", "last", "this", "every", "per"}  # how many of them, or which
_BEFORE_MONTH = {"in", "of", "since", "until", "by", "last", "next", "early", "mid", "late"}
_BEFORE_HOUR = {"at", "before", "until", "till", "by", "from", "after", "past", "to"}
_MAYBE_TIMES = {*_NUMBERS, *_SPANS, "march", "may", "first", "second", "third"}  # their neighbours decide
_DIGITS_OF_TIME = pattern(r"\d(?:[:.][0-5]\d(?!\d)| ?(?:am|pm|st|nd|rd|th)\b)|(?<=20)\d\d\b|\d[月日号號点點时時]")
_CJK_TIME = pattern("[一二三四五六七八九十][月日号號点點时時]|今天|明天|昨天|星期|礼拜|今日|明日|昨日|曜日|来週|来月")
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


def plain_words(text: str) -> list[str]:
    """The words of a text that say what it is about, in small letters: no numbers, nothing of two letters."""
    return [word for word in _PLAIN_WORD.findall(text.lower()) if word not in STOP_WORDS]


def has_no_spaces(text: str) -> bool:
    """Whether it is written, at least in part, in a script that does not part its words."""
    return _CJK_CHARACTER.search(text) is not None


def is_question(text: str) -> bool:
    """Whether somebody asks something: what comes next is often the answer."""
    return text.rstrip().endswith(("?", "？"))


def asks_when(query: str) -> bool:
    return _ASKS_WHEN.search(query.lower()) is not None


def tells_time(text: str) -> bool:
    """Whether a text has a word that may answer a question for the time. Looks at every text that is indexed: fast."""
    text = text.lower()
    words = _ASCII_WORD.findall(text)
    if not _TIMES.isdisjoint(words):
        return True
    if not _MAYBE_TIMES.isdisjoint(words) and any(_is_time(*pair) for pair in pairwise(words)):
        return True
    if _DIGIT.search(text) and _DIGITS_OF_TIME.search(text):
        return True
    return not text.isascii() and _CJK_TIME.search(text) is not None


def _is_time(first: str, second: str) -> bool:
    if second in _SPANS:
        return first in _SOME or first.isdigit()
    if second in ("march", "may"):
        return first in _BEFORE_MONTH or first.isdigit()
    if first in ("march", "may"):
        return second.isdigit()
    if second in _NUMBERS:
        return first in _BEFORE_HOUR
    return second in ("first", "second", "third") and first in ("twenty", "thirty")


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


_ENDINGS = (
    "ations",
    "ation",
    "ments",
    "ment",
    "ingly",
    "ings",
    "ing",
    "edly",
    "ies",
    "ied",
    "ers",
    "er",
    "ed",
    "es",
    "s",
    "ly",
)


def stem(word: str) -> str:
    """A word without what changes from sentence to sentence; short words stay as they are."""
    if not word.isascii():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    word = word.removesuffix("y") if len(word) > 4 else word
    return word.removesuffix("e") if len(word) > 3 else word


def day_month(day: str) -> str:
    """16 Nov, of a day as it is written in files; '' for anything else."""
    try:
        return f"{int(day[8:10])} {MONTHS[int(day[5:7]) - 1].capitalize()[:3]}"
    except (ValueError, IndexError):
        return ""
