"""Whether an agent still is who its soul says: each principle carries a probe, and each answer keeps it or does not.

A probe is words that an answer holds or lacks, a length, a tool that is used, or what a model said. It is made of the
principle's own words where these say it ("at most 50 words", "never use emojis"), or written by a person under
`probes:` in soul.yaml.
A principle without one is not measured. Pure: a soul and past work go in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from typing import Any

from agent_worker.core.clock import from_micros
from agent_worker.core.later import dataclass, pattern
from agent_worker.identity.corrections import as_correction, content
from agent_worker.identity.judging import probe_id
from agent_worker.identity.past_work import PastTurn
from agent_worker.identity.soul import BY_HAND, CurrentSoul, SoulVersion

WINDOW = 15  #: answers that are looked at
LEAST = 0.6  #: of them that keep a principle
LOOK_BACK = 120  #: pieces of work
PERIOD = timedelta(days=30)
FIFTH = 0.2
_SHORT = 120  # words of a short answer
_SPEAKING = 8  # words from which on an answer can be expected to say something about anything
_LONGEST_PATTERN = 200
_MOST_TEXT = 20_000  # characters of an answer that a pattern is looked for in

_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBER = {word: number for number, word in enumerate(_NUMBERS, start=1)}
_LENGTH = pattern(
    r"(?i)\b(?:at most|no more than|under|within|in|max(?:imum)?|up to|than)\s+"
    rf"(\d{{1,6}}|{'|'.join(_NUMBERS)})\s+(word|sentence|line|paragraph|bullet)s?"
)
_UNITS = {
    "word": r"\S+",
    "sentence": r"[^.!?\n]+[.!?\n]*",
    "line": r"[^\n]+",
    "paragraph": r"(?:[^\n]+\n?)+",
    "bullet": r"(?m)^\s*[-*•]",
}
_THINGS: tuple[tuple[str, str], ...] = (
    (r"emojis?|smileys?", r"[\u2600-\u27bf\U0001f300-\U0001faff]"),
    (r"bullets?(?: points?| lists?)?|bulleted lists?", r"(?m)^\s*[-*•]\s"),
    (r"numbered lists?|numbered steps", r"(?m)^\s*\d+[.)]\s"),
    (r"tables?", r"(?m)^\s*\|.*\|"),
    (r"code blocks?|code examples?", r"```"),
    (r"exclamation marks?|exclamation points?", r"!"),
    (r"links?|urls?", r"https?://"),
    (r"headings?|headers?", r"(?m)^#+\s"),
    (r"apologi[sz]e|apologi[sz]ing|apolog(?:y|ies)", r"(?i)\b(?:sorry|apologi[sz]e|apologies)\b"),
    (r"hedg(?:e|ing)", r"(?i)\b(?:perhaps|maybe|might|possibly)\b"),
    (r"questions?", r"\?"),
)  # fmt: skip
_MENTION = pattern(r"(?i)^(?:always\s+)?(?:explain|mention|name|cite|state|list|include|give|add|say|end with|quote)\b")
_QUOTES = pattern(r"[\"“«]([^\"”»]{2,60})[\"”»]")
_TOOL = pattern(r"\b([a-z]+_[a-z_]+)\b")


@dataclass(frozen=True, slots=True)
class Probe:
    """How one sees whether an answer keeps a principle."""

    holds: str = ""  #: a pattern
    lacks: str = ""  #: a pattern
    longest: int = 0  #: so many of `unit`
    unit: str = "word"
    tool: str = ""
    asked: str = ""  #: a question that a model answers with yes or no
    answers: Mapping[str, str] = field(default_factory=dict)  #: what it has answered, by judging.probe_id
    guessed: bool = False  #: from words that may not have to be said: then only a fall from earlier answers tells

    @property
    def told(self) -> str:
        """The probe in a few words, for people."""
        if self.longest:
            return f"at most {self.longest} {self.unit}s"
        if self.tool:
            return f"uses {self.tool}"
        if self.asked:
            return "a model says so"
        return f"has /{self.holds}/" if self.holds else f"lacks /{self.lacks}/"

    def kept(self, turn: PastTurn) -> bool | None:
        """Whether an answer keeps to the principle; None where that cannot be told: it is missing, or too short."""
        if self.tool:
            return self.tool in turn.tools
        if self.asked:
            return {"yes": True, "no": False}.get(self.answers.get(probe_id(self.asked, turn.answer), ""))
        answer = turn.answer[:_MOST_TEXT]
        if not answer.strip():
            return None
        if self.longest:
            return len(re.findall(_UNITS[self.unit], answer)) <= self.longest
        if self.lacks:
            return re.search(self.lacks, answer) is None
        if len(answer.split()) < _SPEAKING:
            return None
        return re.search(self.holds, answer) is not None


@dataclass(frozen=True, slots=True)
class WeekKept:
    week: str  #: the Monday it began
    kept: int
    of: int


@dataclass(frozen=True, slots=True)
class PrincipleKept:
    """How a principle was kept."""

    principle: str
    probe: str  #: in words; '' when nothing measures it
    weeks: tuple[WeekKept, ...] = ()
    kept: int = 0  #: of the last answers
    of: int = 0
    fell: bool = False  #: below what is tolerable

    @property
    def share(self) -> float | None:
        return self.kept / self.of if self.of else None


def adherence(
    soul: CurrentSoul, turns: Sequence[PastTurn], answers: Mapping[str, str] | None = None
) -> list[PrincipleKept]:
    """How each principle was kept since it is in the soul, week by week and lately; `answers` are those of a model."""
    probes = probes_of(soul.record, answers)
    return [_kept(each, probes.get(each), _since(each, soul), turns) for each in soul.principles]


def is_missed(probes: Mapping[str, Probe], turn: PastTurn) -> bool:
    """Whether an answer failed some principle: only then can one have begun to drift."""
    return any(probe.kept(turn) is False for probe in probes.values())


def _kept(principle: str, probe: Probe | None, since: float, turns: Sequence[PastTurn]) -> PrincipleKept:
    if probe is None:
        return PrincipleKept(principle, "")
    seen = [(turn, kept) for turn in turns if turn.at >= since and (kept := probe.kept(turn)) is not None]
    weeks: dict[str, list[bool]] = {}
    for turn, kept in seen:
        weeks.setdefault(_monday(turn.at), []).append(kept)
    outcomes = [kept for _, kept in seen]
    lately, earlier = outcomes[-WINDOW:], outcomes[:-WINDOW]
    fell = len(lately) == WINDOW and sum(lately) < LEAST * WINDOW
    if probe.guessed:  # it may be kept in other words: only what was seen before can be missed
        fell = fell and len(earlier) >= WINDOW and sum(earlier[-2 * WINDOW :]) >= LEAST * len(earlier[-2 * WINDOW :])
    told = tuple(WeekKept(week, sum(found), len(found)) for week, found in weeks.items())
    return PrincipleKept(principle, probe.told, told, sum(lately), len(lately), fell)


def _since(principle: str, soul: CurrentSoul) -> float:
    """When a principle last came into the soul; 0 when it was always there."""
    since = 0.0
    for before, version in zip((None, *soul.versions), soul.versions, strict=False):
        there = _says(version, principle)
        if before is not None and there and not _says(before, principle):
            since = datetime.fromisoformat(version.at).timestamp() * 1e6
    return since


def _says(version: SoulVersion, principle: str) -> bool:
    return principle in (version.record.get("principles") or ())


def _monday(at: int) -> str:
    day = from_micros(at).date()
    return (day - timedelta(days=day.weekday())).isoformat()


# --- how much a soul has changed ----------------------------------------------------------------------


def changed_lately(soul: CurrentSoul, now: datetime) -> float:
    """The share of the soul that is new, or went, within a period; 0 for a single change.

    Counted from changes that came of what was noticed, or of a file that somebody wrote: what a person has just changed
    with a command or on the page is no news to them.
    """
    begin = (now - PERIOD).strftime("%Y-%m-%dT%H:%M:%SZ")
    fresh = [each for each in soul.versions if each.at > begin and (each.evidence or each.reason == BY_HAND)]
    if len(fresh) < 2:
        return 0.0
    before = next((each for each in reversed(soul.versions) if each.number < fresh[0].number), None)
    return changed_share(before.record, soul.record) if before else 0.0


def changed_share(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """The share of a soul's words that are new or that went, whichever is more."""
    old, new = Counter(_words(before)), Counter(_words(after))
    came, went = (new - old).total(), (old - new).total()
    return max(came / max(1, new.total()), went / max(1, old.total()))


def _words(record: Mapping[str, Any]) -> list[str]:
    return re.findall(r"\w+", " ".join(f"{key} {value}" for key, value in record.items() if key != "probes").lower())


# --- probes -------------------------------------------------------------------------------------------


def probes_of(record: Mapping[str, Any], answers: Mapping[str, str] | None = None) -> dict[str, Probe]:
    """The probe of each principle that has one: what a person wrote goes before what its words say.

    What neither measures is left to a model, where `answers` of one are given.
    """
    written = record.get("probes")
    given = written if isinstance(written, dict) else {}
    found: dict[str, Probe] = {}
    for each in record.get("principles") or ():
        principle = str(each)
        probe = _written(given.get(principle)) or probe_for(principle) or (Probe(asked=principle) if answers else None)
        if probe is not None and probe.asked:
            probe = replace(probe, answers=answers or {})
        if probe is not None:
            found[principle] = probe
    return found


def _written(given: Any) -> Probe | None:
    match given:
        case {"pattern": str(words)} if words.strip("* "):
            return Probe(holds=_pattern(words))
        case {"absent": str(words)} if words.strip("* "):
            return Probe(lacks=_pattern(words))
        case {"longest": int(longest)} if longest > 0:
            return Probe(longest=longest)
        case {"tool": str(tool)}:
            return Probe(tool=tool)
        case {"ask": str(question)} if question.strip():
            return Probe(asked=question.strip()[:_LONGEST_PATTERN])
    return None


def questions_in(record: Mapping[str, Any], turn: PastTurn, answers: Mapping[str, str]) -> list[str]:
    """What a model would have to say about an answer: of principles that nothing else measures."""
    if len(turn.answer.split()) < _SPEAKING:
        return []
    probes = probes_of(record, {"": "", **answers})
    asked = [probe.asked for probe in probes.values() if probe.asked]
    return [each for each in asked if probe_id(each, turn.answer) not in answers]


def _pattern(written: str) -> str:
    """Words as they stand, with * for the rest of one. No regular expression: in a repository, one could hang us."""
    parts = [re.escape(part) for part in written[:_LONGEST_PATTERN].split("*")]
    return r"(?i)(?<!\w)" + r"\w{0,30}".join(parts) + r"(?!\w)"


def probe_for(principle: str) -> Probe | None:
    """What its own words say about how to see that it is kept."""
    wants = as_correction(principle).wants
    if length := _LENGTH.search(principle):
        number = _NUMBER.get(length[1].lower()) or int(length[1])
        return Probe(longest=number, unit=length[2].lower())
    if tool := _TOOL.search(principle):
        return Probe(tool=tool[1]) if wants == "do" else None
    if quoted := _QUOTES.findall(principle):
        if wants == "do" and (
            instead := re.search(r"(?i)\b(?:not|never|instead of)\s+[\"“«]([^\"”»]{2,60})", principle)
        ):
            return Probe(lacks=_word(instead[1]))
        return Probe(holds=_word(quoted[0])) if wants == "do" else Probe(lacks=_word(quoted[0]))
    for name, looks in _THINGS:
        if re.search(rf"(?i)\b(?:{name})\b", principle):
            return Probe(lacks=looks) if wants == "not" else Probe(holds=looks)
    if re.search(r"(?i)\b(?:short|brief|concise|terse)\b", principle) and wants == "do":
        return Probe(longest=_SHORT)
    if wants == "do" and _MENTION.match(principle):
        return _mentions(principle)
    return None


def _mentions(principle: str) -> Probe | None:
    stems = sorted(content(_MENTION.sub("", principle)), key=len, reverse=True)[:4]
    return Probe(holds="(?i)" + "|".join(_loosely(each) for each in stems), guessed=True) if stems else None


def _loosely(stem: str) -> str:
    """A stem with a dash allowed anywhere: `tradeoff` is found in trade-offs too."""
    return r"\b" + "-?".join(map(re.escape, stem))


def _word(text: str) -> str:
    return rf"(?i)(?<!\w){re.escape(text)}(?!\w)"
