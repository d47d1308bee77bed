"""What a person wants from now on, told from what they want this once. Pure: words go in, values come out.

Only the person's own words count: what they quote, paste or fence is left out, and so is all that stands behind a
colon. A standing correction begins its clause with a word such as always, never, from now on, I prefer, stop …ing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent_worker.core.later import dataclass, pattern
from agent_worker.memory.words import STOP_WORDS, stem

LONGEST = 1200  # characters of own words; who writes more has pasted most of it
ALIKE = 0.5  # share of common words from which on two corrections mean the same
_MOST = 30  # words of one correction

_FENCED = pattern(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED = pattern(r"“[^“”]*”|«[^«»]*»|„[^„“”]*[“”]|\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)'[^'\n]{12,}'(?!\w)")
_OPENS = pattern(r"(?i)^(?:please|from now on|in future|in the future|remember|note|one more thing|rule|also)$")
_CLAUSES = pattern(r"[.;!?\n]+(?:\s|$)|\s[-–—]\s|,\s+(?=(?:but|and|so|also)\b)", re.IGNORECASE)
_LEADS = (
    r"and|but|so|ok|okay|also|again|thanks|thank you|well|yes|hey|hi|listen|remember|note|one more thing|as i said|"
    r"like i said|i told you|please|just|you (?:should|must|need to|have to)|you|make sure(?: (?:that )?you)?|"
    r"i want you to|i(?:'d| would) like you to|could you|can you|would you"
)
_LEAD = pattern(rf"(?i)^(?:(?:{_LEADS})\b[\s,:]*|no,\s*)+")
_NOT = r"(?:don['’]?t|do not)"
_WHAT = r"(?P<what>\w.+?)"
_FROM_NOW = r"(?:from now on|in (?:the )?future|going forward|every time|each time|as a rule)"
_NO_MORE = r"\s+(?:any ?more|again|ever|ever again|from now on)"
_PREFER = r"i(?:['’]d| would)? (?:much |really |strongly )?prefer"
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (wants, pattern(f"(?i)^{shape}$"))
    for wants, shape in (
        (
            "drop",
            rf"(?:no longer (?:need|have) to|need not|{_NOT} (?:need|have) to|needn['’]?t)\s+{_WHAT}(?:{_NO_MORE})?",
        ),
        ("do", rf"always\s+{_WHAT}"),
        ("not", rf"(?:never(?: ever)?|{_NOT} ever)\s+{_WHAT}"),
        ("not", rf"{_NOT}\s+{_WHAT}{_NO_MORE}"),
        ("no", rf"no (?:more )?{_WHAT},?\s+{_FROM_NOW}"),
        ("not", rf"{_FROM_NOW},?\s+(?:please\s+)?(?:never|no more|no|{_NOT}|stop)\s+{_WHAT}"),
        ("do", rf"{_FROM_NOW},?\s+(?:please\s+)?(?:always\s+)?{_WHAT}"),
        ("do", rf"{_WHAT},?\s+{_FROM_NOW}"),
        ("do", rf"{_PREFER} (?:that you|you to|it when you|it if you|if you)\s+{_WHAT}"),
        ("like", rf"{_PREFER}\s+{_WHAT}"),
        ("stop", r"(?:stop|quit|avoid|no more)\s+(?P<what>\w+ing\b.*)"),
    )
)
_NOT_MEANT = pattern(
    r"(?i)^(?:never mind|nevermind|always (?:a |the |good|great|nice|welcome|happy|glad|fun|been|was|is\b)|"
    r"i prefer (?:not to say|it|that|this)$)"
)
_NARRATES = pattern(
    r"(?i)^(?:do|does|did|is|are|was|were|why|when|how|what|who|where|which|if|whether|should|would|could|can)\b"
)
_FIRST_PERSON = pattern(r"(?i)^(?:i|we|he|she|they|it|the|a|an|our|my|his|her|their|this|that|there|someone|people)\b")
_WORD = pattern(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Correction:
    """Something that a person wants of an agent from now on."""

    wants: str  #: do | not | drop
    principle: str  #: as a soul would say it
    quote: str  #: as the person said it
    words: frozenset[str]  #: what it is about

    def means(self, other: Correction) -> bool:
        return self.wants == other.wants and alike(self.words, other.words)

    def opposes(self, other: Correction) -> bool:
        return self.wants != other.wants and alike(self.words, other.words)


def own_words(text: str) -> str:
    """What of a message a person said themselves; '' when most of it seems to be somebody else's."""
    lines = []
    for line in _FENCED.sub("\n", text).splitlines():
        if line.lstrip().startswith((">", "|", "#", "$", "    ")):
            continue
        head, colon, rest = line.partition(": ") if ": " in line else (line.removesuffix(":"), line.endswith(":"), "")
        if colon and not _OPENS.match(head.strip().rpartition(". ")[2]):
            lines.append(head)
            if not rest.strip():
                break  # whatever follows is shown to the agent, not said to it
            continue
        lines.append(f"{head} {rest}".strip() if colon else line)
    own = _QUOTED.sub(" … ", "\n".join(lines)).strip()
    return own if len(own) <= LONGEST else ""


def corrections_in(text: str) -> list[Correction]:
    """The standing corrections in a message of the person."""
    return list(_corrections(own_words(text)))


def _corrections(own: str) -> Iterator[Correction]:
    for clause, mark in _clauses(own):
        said = re.sub(r"(?i),?\s+(?:please|thanks|ok|okay)$", "", clause.strip(" \t,.;:!"))
        bare = _LEAD.sub("", said).strip()
        if mark == "?" or "…" in said or _NARRATES.match(said) or _NOT_MEANT.match(bare):
            continue
        found = next(((wants, match["what"].strip()) for wants, shape in _SHAPES if (match := shape.match(bare))), None)
        if found is None or (_FIRST_PERSON.match(found[1]) and found[0] != "like"):
            continue
        wants, what = found
        words = content(what)
        if len(words) >= 1 and len(what.split()) <= _MOST:
            yield Correction(_WANTS[wants], _principle(wants, what), said, words)


_WANTS = {"do": "do", "like": "do", "not": "not", "no": "not", "stop": "not", "drop": "drop"}


def _clauses(own: str) -> Iterator[tuple[str, str]]:
    """Each clause, with the mark that ends it."""
    at = 0
    for match in _CLAUSES.finditer(own):
        yield own[at : match.start()], match.group().strip()[:1]
        at = match.end()
    yield own[at:], ""


def _principle(wants: str, what: str) -> str:
    what = what[0].lower() + what[1:] if not what[:2].isupper() else what
    match wants:
        case "do":
            return f"Always {what}"
        case "like":
            return f"Prefer {what}"
        case "stop":
            return f"Avoid {what}"
        case "not":
            return f"Never {what}"
        case "no":
            return f"Never use {what}"
    return what


def as_correction(principle: str) -> Correction:
    """A principle of a soul, in the same terms: what it is about, and whether it wants or forbids that."""
    lead = re.match(r"(?i)(?:never|do not|don['’]?t|avoid|stop|no)\b", principle)
    wants = "not" if lead else "do"
    rest = re.sub(r"(?i)^(?:never|do not|don['’]?t|avoid|stop|no|always|prefer)\b\s*", "", principle)
    return Correction(wants, principle, principle, content(rest))


def content(text: str) -> frozenset[str]:
    """The stems of the words that say what a text is about."""
    words = (word.lower() for word in _WORD.findall(re.sub(r"(?<=\w)-(?=\w)", "", text)))
    return frozenset(stem(word) for word in words if word not in STOP_WORDS and word not in _EMPTY and len(word) > 1)


_FILLING = """
    always never ever instead rather quite bit little lot when whenever while answer reply me
    """
_EMPTY = frozenset(_FILLING.split())
_VERBS = """
    explain write use keep add list give mention say cite show name state include put send check make start begin end
    ask tell read run quote describe provide offer
    """


_DOING = frozenset(stem(verb) for verb in _VERBS.split())


def alike(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether two sets of words speak of the same."""
    one, two = set(some), set(others)
    if one == two:
        return bool(one)
    common = len(one & two)
    if not (one & two) - _DOING:
        return False  # both want something explained: that does not make it the same thing
    # Short ones are alike when one holds the other; long ones when half of all words are in both.
    return common / len(one | two) >= ALIKE or (common == min(len(one), len(two)) and common >= 2)
