"""Claims on their way into an agent's memory: what becomes of each is decided here, by rules and without a model.

What is known already is not written again: it is counted when somebody said it in this run, and not when the agent
repeats what it knows, or a memory would confirm itself. What says otherwise than before replaces it, if it comes from
somebody who is trusted at least as much, and is disputed if not. What says nothing is not kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from agent_worker.core.errors import Refused
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.files.root import Root
from agent_worker.memory import audit, memory
from agent_worker.memory.facts import (
    GENERIC,
    backs,
    contradict,
    facts,
    is_status,
    overlap,
    passes_on,
    same,
    says_too_little,
    slot,
)
from agent_worker.memory.judging import Judge, Pair, Verdict, verdicts
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.words import day_month
from agent_worker.work import inbox

Outcome = Literal["new", "known", "seen", "replaced", "past", "disputed", "empty"]

_TRUST = {memory.USER: 4, memory.SELF: 3, memory.IMPORT: 1, memory.OUTSIDE: 0}
_OF_COLLEAGUES = 2
COLLEAGUE = "agent:"  #: before the name of one who says so
NEAR, MOST_NEAR = 0.2, 3  #: words in common from which on a model is asked about a pair, and how many pairs
UNWRITTEN = frozenset({"known", "empty"})  #: nothing has changed
EMPTY = "Nothing was kept: it says too little. Write what will still matter in a month, as a sentence."


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """What became of a claim."""

    outcome: Outcome
    entry: MemoryEntry  #: as it stands in memory now; as it was offered, where nothing was written
    other: MemoryEntry | None = None  #: what it repeats, replaces or disputes, as that stood before


def trust(by: str) -> int:
    return _TRUST.get(by, _OF_COLLEAGUES)


def author(value: str, said: Iterable[tuple[str, str]], *, outside: bool, heard: Iterable[str] = ()) -> str:
    """The source of a claim: who, of all that spoke to the agent in this run, said it, as their words show. `said` is
    (who, what).

    What was written after reading from elsewhere may be anybody's, and so may what repeats `heard` texts, which earlier
    work has from there. What nobody said is the agent's own conclusion, but in work that a colleague asked for it is
    taken for the colleague's.
    """
    if outside:
        return memory.OUTSIDE
    spoken = tuple(said)
    told = next((who for who, text in spoken if who and backs(text, value)), "")
    if told != memory.USER and any(passes_on(text, value) for text in heard):
        return memory.OUTSIDE
    return told or next((who for who, _ in spoken if who.startswith(COLLEAGUE)), memory.SELF)


def near(entries: Iterable[MemoryEntry], claim: MemoryEntry) -> list[MemoryEntry]:
    """Entries that a claim may be about too, where the rules are not sure: the nearest first.

    None for a claim that the rules are sure about: it is known, or takes the place of something. None for what came
    from outside: whoever wrote that must not be heard here.
    """
    there = [each for each in entries if each.file != memory.ARCHIVE and not each.disputes and not each.is_of_others]
    if claim.is_of_others or _repeated(there, claim) or _against(there, claim, _own(there, claim.key)):
        return []
    said = facts(claim.value).words | facts(_words(claim.key)).words
    alike = {
        id(each): overlap(said, facts(each.value).words | facts(_words(each.key)).words)
        for each in there
        if each.key != claim.key
    }
    some = [each for each in there if alike.get(id(each), 0.0) >= NEAR]
    return sorted(some, key=lambda each: -alike[id(each)])[:MOST_NEAR]


async def judged(judge: Judge | None, root: Root, claims: Sequence[MemoryEntry]) -> Mapping[Pair, Verdict]:
    """What a model says of claims and what they are near to, in one question; nothing where there is none."""
    if judge is None:
        return {}
    there = (await asyncio.to_thread(memory.load, root)).entries
    return await verdicts(judge, [(known, claim) for claim in claims for known in near(there, claim)])


def keep(
    root: Root,
    claim: MemoryEntry,
    *,
    now: datetime,
    typed: bool = False,
    judged: Mapping[Pair, Verdict] = MappingProxyType({}),
) -> ClaimOutcome:
    """Let a claim into memory, or not. Reads and writes files: call it in a thread.

    What a person has `typed` is meant for its key, and always kept. `judged` is what a model said of pairs.
    """
    everything = memory.load(root).entries
    there = [entry for entry in everything if entry.file != memory.ARCHIVE]
    own = _own(there, claim.key)
    if typed:
        return _replace(root, claim, own, now=now) if own else ClaimOutcome("new", _written(root, claim))
    said = {known.key: verdict for (known, new), verdict in judged.items() if new == claim and known in there}
    if same_one := _repeated(there, claim) or _said_of(there, said, "same"):
        return _again(root, claim, same_one)
    if (over := _repeated(_past(everything), claim)) and trust(claim.by) <= trust(memory.SELF):
        return ClaimOutcome("past", claim, over)  # it was read again where it is kept, and does not hold any more
    if is_status(claim.value) or says_too_little(f"{_words(claim.key)} {claim.value}", least=2):
        return ClaimOutcome("empty", claim)
    against = _against(there, claim, own, said)
    if against is None:
        return ClaimOutcome("new", _written(root, claim))
    if against.file == memory.CORE != claim.file:
        raise Refused(f"{against.key!r} is part of core memory", hint="use another key, or tier core")
    if _is_older(claim, against):
        return ClaimOutcome(
            "past", replace(claim, key=memory.file_away(root, replace(claim, until=_until(against)))), against
        )
    if trust(claim.by) < trust(against.by):
        return _dispute(root, claim, against)
    return _replace(root, claim, against, now=now)


def _said_of(there: Iterable[MemoryEntry], said: Mapping[str, Verdict], verdict: Verdict) -> MemoryEntry | None:
    return next((entry for entry in there if said.get(entry.key) == verdict), None)


def _against(
    there: Sequence[MemoryEntry],
    claim: MemoryEntry,
    own: MemoryEntry | None,
    said: Mapping[str, Verdict] = MappingProxyType({}),
) -> MemoryEntry | None:
    """The entry that a new claim contradicts or replaces: by rules, else by what a model `said`."""
    if own and not own.disputes:
        return own
    held = [entry for entry in there if not entry.disputes]
    slots = (entry for entry in held if slot(entry.key) == slot(claim.key))
    updated = (entry for entry in held if _is_update(entry, claim))
    return next((entry for entry in (*slots, *updated)), None) or _said_of(there, said, "update")


def _past(entries: Iterable[MemoryEntry]) -> list[MemoryEntry]:
    """Entries that were replaced by something that holds now, under the keys they had."""
    return [replace(entry, key=entry.key.rpartition("@")[0] or entry.key) for entry in entries if entry.replaced_by]


def record(tx: Transaction, kept: ClaimOutcome, done: audit.AuditEntry, *, now: int) -> None:
    """Note in the audit what became of a claim, and what stood there before; a person is asked
    about a dispute, once.
    """
    before = kept.other if kept.outcome in ("replaced", "seen") else None
    about = kept.other.key if kept.outcome == "disputed" and kept.other else kept.entry.key
    audit.note(tx, replace(done, about=about, before=json.dumps(asdict(before)) if before else ""), now=now)
    if kept.outcome == "disputed" and kept.other:
        text = f"{done.who} was told something else about {about}: {kept.entry.value[:300]} ({_who(kept.entry)}); "
        text += f"it knows: {kept.other.value[:300]} ({_who(kept.other)})"
        inbox.ask(tx, "dispute", ref=f"{done.agent}/{about}", text=text, agent=done.agent, now=now)


def told(kept: ClaimOutcome) -> str:
    """What became of a claim, as a sentence for the agent."""
    other = kept.other
    if kept.outcome == "replaced" and other:
        again = kept.entry.key == other.key and kept.entry.value == other.value
        return (
            "Noted."
            if again
            else f"Remembered; it replaces {other.key}{f' of {at}' if (at := day_month(other.day)) else ''}."
        )
    if kept.outcome == "seen":
        return f"Seen before: {kept.entry.seen} times now, under {kept.entry.key}."
    if kept.outcome == "disputed" and other:
        who = _who(other, person="the person")
        return f"Disputed with {other.key} ({who}: {other.value[:200]}). Both are kept; the person is asked."
    if kept.outcome == "past":
        return "That used to hold and no longer does; it is in the archive."
    return {"new": "Remembered.", "known": "You knew that already.", "empty": EMPTY}[kept.outcome]


def _who(entry: MemoryEntry, *, person: str = "you") -> str:
    who = {memory.USER: f"{person} said so", memory.SELF: "own conclusion", memory.OUTSIDE: "read outside"}
    said = who.get(entry.by, f"said by {entry.by.removeprefix(COLLEAGUE)}")
    return ", ".join(filter(None, (said, day_month(entry.day))))


def settle(root: Root, key: str, *, take: bool, now: datetime) -> None:
    """Carry out what a person decided about a dispute: the disputing entry takes the place of the claim of this key, or
    goes.
    """
    there = [entry for entry in memory.load(root).entries if entry.file != memory.ARCHIVE]
    disputed = next((entry for entry in there if entry.disputes == key), None)
    if disputed is None:
        return
    if take:
        claim, known = replace(disputed, key=key, disputes="", by=memory.USER), _own(there, key)
        keep(root, replace(claim, file=known.file if known else claim.file), now=now, typed=True)
        memory.take_out(root, disputed)
    else:
        memory.forget(root, disputed.key, when=now)


def disputes(root: Root) -> list[tuple[MemoryEntry, MemoryEntry]]:
    """Pairs of what is remembered and what says otherwise."""
    there = {entry.key: entry for entry in memory.load(root).entries if entry.file != memory.ARCHIVE}
    return [(there[entry.disputes], entry) for entry in there.values() if entry.disputes in there]


def _own(there: Iterable[MemoryEntry], key: str) -> MemoryEntry | None:
    """What is under exactly this key; in core memory first."""
    return min(
        (entry for entry in there if entry.key == key), key=lambda entry: entry.file != memory.CORE, default=None
    )


def _repeated(there: Iterable[MemoryEntry], claim: MemoryEntry) -> MemoryEntry | None:
    """What says the same already, under this key or one that may mean the same."""
    alike = [
        entry
        for entry in there
        if same(entry.value, claim.value)
        and not _is_other_word(entry, claim)
        and (entry.disputes == claim.key or mean_one(entry, claim))
    ]
    return min(alike, key=lambda entry: entry.key != claim.key, default=None)


def _is_other_word(known: MemoryEntry, claim: MemoryEntry) -> bool:
    """Whether a claim puts another word under the same key, from somebody who is trusted enough: that is news."""
    mine, theirs = _said(known.value), _said(claim.value)
    replaced = bool(mine - theirs) and bool(theirs - mine)
    return replaced and known.key == claim.key and trust(claim.by) >= trust(known.by)


def mean_one(one: MemoryEntry, other: MemoryEntry) -> bool:
    """Whether the keys of two entries that say the same mean the same."""
    return slot(one.key) == slot(other.key) or _may_mean_one(one, other, related=0.3)


def _may_mean_one(one: MemoryEntry, other: MemoryEntry, *, related: float) -> bool:
    """Whether two keys can name one thing: they share words, or say nothing that both sentences do not say too.

    A sentence under `alice` that does not speak of alice is about her all the same.
    """
    a, b = facts(_words(one.key)), facts(_words(other.key))
    if (a.numbers, a.names) != (b.numbers, b.names) or (a.dates != b.dates and a.dates and b.dates):
        return False
    in_both = _said(one.value) & _said(other.value)
    return overlap(a.words, b.words) >= related or (a.words | b.words) - GENERIC <= in_both


def _said(text: str) -> frozenset[str]:
    return facts(text).words | facts(text).names


def _is_update(known: MemoryEntry, claim: MemoryEntry) -> bool:
    """Whether a claim under another key says otherwise than one that is known."""
    same_subject = bool(known.about) and known.about == claim.about
    return contradict(known.value, claim.value) and (same_subject or _may_mean_one(known, claim, related=0.5))


def _words(key: str) -> str:
    return key.replace("-", " ").replace("_", " ").lower()


def _again(root: Root, claim: MemoryEntry, known: MemoryEntry) -> ClaimOutcome:
    """Keep a claim that is known already: count it if somebody said it, or change who may see it."""
    made_core = claim.file == memory.CORE != known.file
    if claim.key == known.key and (claim.visibility != known.visibility or made_core):
        file = memory.CORE if made_core else known.file
        return ClaimOutcome("replaced", _written(root, replace(known, visibility=claim.visibility, file=file)), known)
    said_by_somebody = claim.by == memory.USER or claim.by.startswith(COLLEAGUE)
    if not said_by_somebody or set(claim.source) <= set(known.source):
        return ClaimOutcome("known", known, known)
    by = claim.by if trust(claim.by) > trust(known.by) else known.by
    return ClaimOutcome("seen", memory.confirm(root, replace(known, by=by), claim.source), known)


def _replace(root: Root, claim: MemoryEntry, known: MemoryEntry, *, now: datetime) -> ClaimOutcome:
    """The old claim goes into the archive, the new one takes its place. In this order: nothing is ever nowhere."""
    if (known.value, known.visibility, known.file) == (claim.value, claim.visibility, claim.file):
        return ClaimOutcome("known", known, known)
    if known.value == claim.value:
        return ClaimOutcome(
            "replaced", _written(root, replace(known, visibility=claim.visibility, file=claim.file)), known
        )
    at = claim.since or now.isoformat(timespec="seconds")
    old = memory.file_away(root, replace(known, until=known.until or at, replaced_by=claim.key))
    stands = replace(claim, replaces=old, since=at, share_with=claim.share_with or known.share_with)
    made = _written(root, stands)
    if known.key != claim.key:
        memory.take_out(root, known)
    return ClaimOutcome("replaced", made, known)


def _dispute(root: Root, claim: MemoryEntry, known: MemoryEntry) -> ClaimOutcome:
    there = {entry.key: entry for entry in memory.load(root).entries}
    name = f"{known.key}{memory.DISPUTED}"
    if name in there and there[name].value != claim.value:
        memory.file_away(root, there[name])
    return ClaimOutcome("disputed", _written(root, replace(claim, key=name, disputes=known.key)), known)


def _written(root: Root, claim: MemoryEntry) -> MemoryEntry:
    memory.write(root, claim)
    return memory.find(root, claim.key) or claim


def _is_older(claim: MemoryEntry, known: MemoryEntry) -> bool:
    """Whether a claim speaks of a time before the one that is known to hold."""
    if claim.since and known.since:
        return claim.since < known.since[: len(claim.since)]
    return facts(claim.value).past and not facts(known.value).past


def _until(known: MemoryEntry) -> str:
    return known.since or known.learned
