"""Rounds: what an agent remembers is tidied, once a night or when asked, by rules; of near pairs a model may say more.

What has ended goes into the archive, what says the same twice becomes one, a dispute with something that is gone is
none, what nobody used for long makes room, and comes back when it is asked for. `plan` is pure and changes nothing: its
changes can be shown first, are kept whole in the audit, and each can be undone. Core memory, and what a person wrote
into the files, is left as it is; but if the person wrote until when something holds, it ends then.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import date, datetime, timedelta
from itertools import count
from typing import Literal

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.database.database import Row
from agent_worker.files.root import Root
from agent_worker.memory import memory
from agent_worker.memory.claims import COLLEAGUE, NEAR, mean_one, trust
from agent_worker.memory.facts import facts, overlap, same, slot
from agent_worker.memory.judging import Pair, Verdict
from agent_worker.memory.memory import ARCHIVE, CORE, DISPUTED, QUARANTINE, USER, MemoryEntry

What = Literal["settled", "expired", "merged", "replaced", "demoted", "promoted", "unlinked"]

UNUSED = timedelta(days=60)  #: in which nothing needed it: then it makes room
YOUNG = timedelta(days=90)  #: in which nothing learned is called unused
ENOUGH_RUNS = 20  #: in that time; whoever did not work did not need anything
ASKED_FOR = 2  #: runs in which something from the archive was asked for: then it comes back
MOST_PAIRS = 200  #: that a model may be asked about, some each night
MOST = 100  #: changes of one round; the others are made in the next one
HOLDS_FOR = timedelta(days=90)  #: what a person says still holds


@dataclass(frozen=True, slots=True)
class RoundChange:
    """One entry, as it stands and as it will stand, perhaps elsewhere."""

    what: What
    before: MemoryEntry
    after: MemoryEntry
    why: str

    @property
    def matter(self) -> tuple[str, str, str]:
        """The name by which a change is known again: one that a person took back is not made again."""
        return self.what, self.before.key, self.before.value


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What is known of the agent beside its files."""

    now: datetime
    shown: frozenset[str] = frozenset()  #: keys of what stood in prompts lately
    runs: int = 0  #: it had lately
    asked: Sequence[tuple[str, str]] = ()  #: a run, and what it looked up lately
    demoted: frozenset[str] = frozenset()  #: keys that rounds have put into the archive
    declined: frozenset[tuple[str, str, str]] = frozenset()  #: changes that a person took back
    agents: frozenset[str] = frozenset()  #: names there are in the project
    judged: Mapping[Pair, Verdict] = field(default_factory=dict)  #: what a model says of pairs that are near each other

    @property
    def today(self) -> date:
        return self.now.date()


@dataclass(frozen=True, slots=True)
class RoundPlan:
    changes: tuple[RoundChange, ...] = ()
    check: tuple[MemoryEntry, ...] = ()  #: the person is asked whether these still hold


def plan(entries: Sequence[MemoryEntry], known: MemoryUse) -> RoundPlan:
    """What a round would change, in this order. Each rule sees what those before it have made."""
    there, changes = list(entries), list[RoundChange]()
    for rule in _RULES:
        for change in rule(there, known):
            if len(changes) < MOST and change.matter not in known.declined and change.before in there:
                there[there.index(change.before)] = change.after
                changes.append(change)
    check = [entry for entry in there if _is_for_the_person(entry, known)]
    return RoundPlan(tuple(changes), tuple(check))


def apply(root: Root, changes: Iterable[RoundChange]) -> list[RoundChange]:
    """Make the changes whose entry still stands as it was; those that were made. Reads and writes files."""
    return [each for each in changes if _exchange(root, each.before, each.after)]


def undo(root: Root, changes: Sequence[RoundChange]) -> tuple[list[RoundChange], list[RoundChange]]:
    """Put back what a round changed, the last first; what was put back, and what somebody has changed since."""
    done, stands = list[RoundChange](), list[RoundChange]()
    for each in reversed(changes):
        (done if _exchange(root, each.after, each.before) else stands).append(each)
    return done, stands


def _exchange(root: Root, old: MemoryEntry, new: MemoryEntry) -> bool:
    there = memory.load(root).entries
    taken = any((each.file, each.key) == (new.file, new.key) and each != old for each in there)
    if old not in there or taken:
        return False
    memory.restore(root, new)  # first: if we stop in between it is there twice, never nowhere
    if (old.file, old.key) != (new.file, new.key):
        memory.take_out(root, old)
    return True


def readable(root: Root) -> Sequence[MemoryEntry]:
    """Everything the agent remembers. Nothing moves while a file has a mistake: a person mends that first."""
    found = memory.load(root)
    if found.problems:
        raise Refused(f"its memory cannot be tidied: {found.problems[0]}", hint="fix the file, then try again")
    return found.entries


def told(changes: Sequence[RoundChange]) -> str:
    """The changes of a round in one line."""
    counted = Counter(each.what for each in changes)
    return ", ".join(f"{n} {what}" for what, n in counted.items()) or "nothing to change"


def as_record(changes: Iterable[RoundChange]) -> str:
    """The changes of a round as the audit keeps them, in JSON."""
    return json.dumps([asdict(each) for each in changes])


def changes_of(noted: Row) -> list[RoundChange]:
    """The changes of a round, from its entry in the audit."""
    return [
        RoundChange(each["what"], memory.from_record(each["before"]), memory.from_record(each["after"]), each["why"])
        for each in json.loads(noted["before"] or "[]")
    ]


# --- the rules ----------------------------------------------------------------------------------------


def _settled(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Settle disputes with an entry that is gone, or that says the same now."""
    held = {entry.key: entry for entry in there if entry.file != ARCHIVE}
    for entry in there:
        if not entry.disputes or not _is_ours(entry):
            continue
        other = held.get(entry.disputes)
        if other is None:
            named = entry.key == f"{entry.disputes}{DISPUTED}"
            after = replace(entry, key=entry.disputes if named else entry.key, disputes="")
            yield RoundChange("settled", entry, after, f"{entry.disputes}, which it disputed, is gone")
        elif same(other.value, entry.value):
            why = f"{other.key} says the same now"
            yield RoundChange("settled", entry, _archived(there, replace(entry, disputes=""), other.key, known), why)


def _expired(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    for entry in there:
        if entry.file in (CORE, ARCHIVE):
            continue
        if _has_come(entry.until, known.today):
            yield RoundChange("expired", entry, _away(there, entry), f"it held until {entry.until[:10]}")
        elif _has_come(entry.check_after, known.today) and _is_ours(entry) and entry.by != USER:
            why = f"since {entry.check_after[:10]} nobody has said that it still holds"
            yield RoundChange("expired", entry, _away(there, entry), why)


def _merged(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Merge entries that say the same: the most trusted stays. What is private is not merged with what is shared."""
    now = {(entry.file, entry.key): entry for entry in there}
    for stays, goes in list(_twins(there)):
        one, other = now.get((stays.file, stays.key)), now.get((goes.file, goes.key))
        if one is None or other is None or ("merged", other.key, other.value) in known.declined:
            continue
        away = _archived(list(now.values()), other, one.key, known)
        yield RoundChange("merged", other, away, f"{one.key} says the same")
        del now[other.file, other.key]
        now[away.file, away.key] = away
        if _is_ours(one) and (more := _counted(one, other)) != one:
            yield RoundChange("merged", one, more, f"{other.key} said the same: {plural(more.seen, 'time')} now")
            now[one.file, one.key] = more


def _judged(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Change what a model says of pairs that the rules leave alone. It moves only what the agent learned, and deletes
    nothing.
    """
    now = {(entry.file, entry.key): entry for entry in there}
    for (old, new), verdict in known.judged.items():
        if now.get((old.file, old.key)) != old or now.get((new.file, new.key)) != new:
            continue
        if verdict == "same":
            goes, stays = (old, new) if trust(new.by) > trust(old.by) else (new, old)
        else:
            goes, stays = old, new
        what: What = "merged" if verdict == "same" else "replaced"
        if verdict not in ("same", "update") or not _is_ours(goes) or trust(stays.by) < trust(goes.by):
            continue
        away = _archived(list(now.values()), goes, stays.key, known)
        why = f"{stays.key} says the same" if verdict == "same" else f"{stays.key} holds now"
        yield RoundChange(what, goes, away, f"{why}, a model says")
        del now[goes.file, goes.key]
        now[away.file, away.key] = away


def near_pairs(entries: Sequence[MemoryEntry]) -> list[Pair]:
    """Pairs that the rules leave alone and that may say the same, or one what held before: older first, nearest first.

    Nothing that came from outside: whoever wrote that must not be heard here.
    """
    held = [each for each in entries if _is_ours(each) and each.file != ARCHIVE]
    held = [each for each in held if not each.disputes and not each.is_of_others]
    by_word: dict[str, list[int]] = {}
    found = list[tuple[float, Pair]]()
    for place, entry in enumerate(held):
        words = _words(entry) | frozenset(slot(entry.key))
        for other in {n for word in words for n in by_word.get(word, ())}:
            one = held[other]
            alike = overlap(words, _words(one) | frozenset(slot(one.key)))
            if alike >= NEAR and _is_as_open(one, entry):
                found.append((alike, (one, entry) if one.learned <= entry.learned else (entry, one)))
        for word in words:
            by_word.setdefault(word, []).append(place)
    found.sort(key=lambda each: (-each[0], each[1][0].key, each[1][1].key))
    return [pair for _, pair in found[:MOST_PAIRS]]


def _demoted(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Archive what the agent concluded or heard long ago and nothing has needed since. What it shares stays: others may
    need it.
    """
    if known.runs < ENOUGH_RUNS:
        return
    old = (known.now - YOUNG).date()
    for entry in there:
        is_own = _is_ours(entry) and entry.file != ARCHIVE and entry.by != USER and not entry.disputes
        is_closed = entry.visibility == "private" and not entry.share_with
        is_used = entry.key in known.shown or bool(_asked_for(entry.key, known))
        if is_own and is_closed and not is_used and _has_come(entry.learned, old):
            why = f"nothing has needed it for {UNUSED.days} days"
            yield RoundChange("demoted", entry, _away(there, entry), why)


def _promoted(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Bring back what a round archived and runs have asked for since. What was forgotten or replaced stays away."""
    held = {entry.key for entry in there if entry.file != ARCHIVE}
    for entry in there:
        was_demoted = entry.file == ARCHIVE and entry.key in known.demoted and not entry.until and not entry.replaced_by
        runs = len(_asked_for(entry.key, known)) if was_demoted and _is_ours(entry) else 0
        if runs >= ASKED_FOR and entry.key not in held:
            why = f"{runs} runs have asked for it lately"
            yield RoundChange("promoted", entry, replace(entry, file=memory.WORKING), why)


def _unlinked(there: Sequence[MemoryEntry], known: MemoryUse) -> Iterator[RoundChange]:
    """Remove references to entries and agents that do not exist any more."""
    keys, archived = {entry.key for entry in there}, {entry.key for entry in there if entry.file == ARCHIVE}
    for entry in there:
        if not _is_ours(entry):
            continue
        stays = tuple(name for name in entry.share_with if not known.agents or name in known.agents)
        after = replace(
            entry,
            replaces=entry.replaces if entry.replaces in archived else "",
            replaced_by=entry.replaced_by if entry.replaced_by in keys else "",
            share_with=stays,
        )
        if after != entry:
            gone = [*({entry.replaces, entry.replaced_by} - {"", after.replaces, after.replaced_by})]
            gone += [name for name in entry.share_with if name not in stays]
            yield RoundChange("unlinked", entry, after, f"there is no {', '.join(sorted(gone))} any more")


_Rule = Callable[[Sequence[MemoryEntry], MemoryUse], Iterator[RoundChange]]
_RULES: tuple[_Rule, ...] = (_settled, _expired, _merged, _judged, _demoted, _promoted, _unlinked)


# --- what they ask ------------------------------------------------------------------------------------


def _is_ours(entry: MemoryEntry) -> bool:
    """Whether the agent learned it: core memory, and what a person wrote into the files, is not ours to change."""
    return bool(entry.source) and entry.file not in (CORE, QUARANTINE)


def _is_for_the_person(entry: MemoryEntry, known: MemoryUse) -> bool:
    return entry.file != ARCHIVE and _has_come(entry.check_after, known.today)


def _has_come(day: str, today: date) -> bool:
    """Whether a day, as it is written in a file, is today or over. What a person wrote in words never comes."""
    try:
        return date.fromisoformat(day[:10]) <= today
    except ValueError:
        return False


def _twins(there: Sequence[MemoryEntry]) -> Iterator[tuple[MemoryEntry, MemoryEntry]]:
    """Pairs that say the same: which stays, which goes. Only those are compared that share most of their words."""
    held = [each for each in there if each.file != ARCHIVE and not each.disputes]
    held.sort(key=lambda e: (_is_ours(e), -trust(e.by), -e.seen, e.learned, e.key))
    by_word: dict[str, list[int]] = {}
    gone = set[int]()
    for place, entry in enumerate(held):
        words = _words(entry)
        near = Counter(other for word in words for other in by_word.get(word, ()))
        alike = (n for n, shared in near.items() if 2 * shared >= len(words) and n not in gone)
        twin = next((held[n] for n in sorted(alike) if _is_twin(held[n], entry)), None)
        if twin is not None and _is_ours(entry):
            gone.add(place)
            yield twin, entry
        else:
            for word in words:
                by_word.setdefault(word, []).append(place)


def _words(entry: MemoryEntry) -> frozenset[str]:
    said = facts(entry.value)
    return said.words | said.names or frozenset({entry.value.casefold()})


def _is_as_open(one: MemoryEntry, other: MemoryEntry) -> bool:
    return (one.visibility, set(one.share_with)) == (other.visibility, set(other.share_with))


def _is_twin(one: MemoryEntry, other: MemoryEntry) -> bool:
    return _is_as_open(one, other) and same(one.value, other.value) and mean_one(one, other)


def _counted(stays: MemoryEntry, goes: MemoryEntry) -> MemoryEntry:
    """An entry that also counts how often the other was said, if somebody said it: a memory does not confirm itself."""
    more = tuple(each for each in goes.source if each not in stays.source)
    if not more or not (goes.by == USER or goes.by.startswith(COLLEAGUE)):
        return stays
    return replace(stays, seen=stays.seen + goes.seen, source=(*stays.source, *more)[-memory.MOST_SOURCES :])


def _asked_for(key: str, known: MemoryUse) -> set[str]:
    """The runs that looked it up, by its key or by the words in it."""
    words = set(slot(key))
    return {run for run, text in known.asked if text == key or words <= set(slot(text))}


def _away(there: Iterable[MemoryEntry], entry: MemoryEntry) -> MemoryEntry:
    """An entry as it goes into the archive, under a name that is free there."""
    taken = {each.key for each in there if each.file == ARCHIVE}
    names = (entry.key, *(f"{entry.key}@{n}" for n in range(1, len(taken) + 2)))
    return replace(entry, file=ARCHIVE, key=next(name for name in names if name not in taken))


def _archived(there: Iterable[MemoryEntry], entry: MemoryEntry, by: str, known: MemoryUse) -> MemoryEntry:
    """An entry as it goes into the archive when another takes its place."""
    taken = {each.key for each in there if each.file == ARCHIVE}
    name = next(version for n in count(1) if (version := f"{entry.key}@{n}") not in taken)
    at = known.now.isoformat(timespec="seconds")
    return replace(entry, file=ARCHIVE, key=name, until=entry.until or at, replaced_by=by)
