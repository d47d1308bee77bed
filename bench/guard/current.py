"""Current: of facts that change, the one that holds is found first, and no confirmed one is lost to a weaker source.

300 chains: a fact is told, then told otherwise, explicitly or under another key, with another date or number, as news
of the past, or by somebody who is trusted less, among facts that have nothing to do with it.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_worker.files.root import Root
from agent_worker.memory import claims, memory
from agent_worker.memory.library import Library
from agent_worker.memory.memory import MemoryEntry
from guard import claims as everyday
from guard.promise import Bar, Promise

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
CHAINS = 300
KINDS = ("explicit", "other key", "number", "past", "less trusted")
DISTRACTORS = 12
ABOUT = (
    f"{CHAINS} facts that change, each among {DISTRACTORS} others: told again otherwise, under another key, with "
    "another number, as news of the past, or by somebody who is trusted less. Beside these, which are made by the "
    "script, the everyday claims of bench/data/claims.yaml, written before the rules were looked at; of the half that "
    "is held out nobody has looked at what fails."
)

SUBJECTS = (
    ("deploys of the {thing}", "The {thing} is deployed on {day} after the review"),
    ("backups of the {thing}", "Backups of the {thing} are made on {day} before noon"),
    ("owner of the {thing}", "{name} looks after the {thing} and answers its alarms"),
    ("port of the {thing}", "The {thing} listens on port {number} inside the cluster"),
    ("limit of the {thing}", "The {thing} accepts at most {number} requests per minute"),
    ("certificate of the {thing}", "The certificate of the {thing} expires in {month}"),
)
OTHER_KEYS = {
    "deploys of the {thing}": "{thing} deployment",
    "backups of the {thing}": "when {thing} backup is made",
    "owner of the {thing}": "{thing} owner",
    "port of the {thing}": "{thing}-port",
    "limit of the {thing}": "limits for {thing}",
    "certificate of the {thing}": "{thing}_certificates",
}
THINGS = (
    "basket",
    "invoice",
    "search",
    "mailer",
    "gateway",
    "ledger",
    "scanner",
    "importer",
    "portal",
    "archive",
    "catalogue",
    "scheduler",
)
NAMES = ("Alice", "Bruno", "Carol", "Dmitri", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas")
DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays")
MONTHS = ("January", "February", "April", "June", "August", "October", "December")


@dataclass(frozen=True, slots=True)
class Chain:
    kind: str
    told: tuple[MemoryEntry, ...]  #: in order
    question: str
    holds: str  #: the value that is true in the end
    stale: tuple[str, ...]


def chains(count: int = CHAINS, seed: int = 16) -> Iterator[Chain]:
    dice = random.Random(seed)
    for number in range(count):
        yield _chain(dice, KINDS[number % len(KINDS)], number)


def _chain(dice: random.Random, kind: str, number: int) -> Chain:
    subjects = SUBJECTS[3:5] if kind == "number" else SUBJECTS
    key, sentence = dice.choice(subjects)
    thing = dice.choice(THINGS)
    values = _values(dice, sentence, thing, 3 if kind in ("explicit", "number") else 2)
    keys = [key.format(thing=thing)] * len(values)
    by, since = ["user"] * len(values), [""] * len(values)
    if kind == "other key":
        keys[1] = OTHER_KEYS[key].format(thing=thing)
    if kind == "past":
        since = ["2026-10-01", "2026-02-01"]
    if kind == "less trusted":
        by[1] = dice.choice(("self", "agent:carol", "import", "outside"))
    told = tuple(
        MemoryEntry(k, v, "working", source=(f"r_{number}_{n}",), learned=_at(n), by=b, since=s)
        for n, (k, v, b, s) in enumerate(zip(keys, values, by, since, strict=True))
    )
    holds = values[0] if kind in ("past", "less trusted") else values[-1]
    return Chain(kind, told, keys[0], holds, tuple(v for v in values if v != holds))


def _values(dice: random.Random, sentence: str, thing: str, count: int) -> list[str]:
    rows = zip(
        dice.sample(DAYS, count),
        dice.sample(NAMES, count),
        dice.sample(range(1000, 9999), count),
        dice.sample(MONTHS, count),
        strict=True,
    )
    return [sentence.format(thing=thing, day=d, name=n, number=x, month=m) for d, n, x, m in rows]


def _at(step: int) -> str:
    return (NOW + timedelta(days=step)).isoformat(timespec="seconds")


def _distractors(dice: random.Random, chain: Chain) -> list[MemoryEntry]:
    found = []
    while len(found) < DISTRACTORS:
        key, sentence = dice.choice(SUBJECTS)
        thing = dice.choice([each for each in THINGS if each not in chain.question])
        (value,) = _values(dice, sentence, thing, 1)
        name = key.format(thing=thing)
        if name not in {each.key for each in found}:
            found.append(MemoryEntry(name, value, "working", source=("r_d",), learned=_at(0), by="user"))
    return found


def counted(count: int = CHAINS) -> dict[str, Counter[str]]:
    """By kind: how many chains, how many with the current fact first, with a stale one as true, with one lost."""
    results = {kind: Counter[str]() for kind in KINDS}
    dice = random.Random(7)
    for chain in chains(count):
        with tempfile.TemporaryDirectory() as folder:
            results[chain.kind].update(_play(Root(Path(folder) / "alice"), chain, _distractors(dice, chain)))
    return results


def _play(root: Root, chain: Chain, others: list[MemoryEntry]) -> list[str]:
    for n, claim in enumerate(others):
        claims.keep(root, claim, now=NOW + timedelta(minutes=n))
    for n, claim in enumerate(chain.told):
        claims.keep(root, claim, now=NOW + timedelta(days=n))
    held = {e.value for e in memory.load(root).entries if e.file != memory.ARCHIVE and not e.disputes}
    library = Library(root, "alice")
    try:
        found = library.search(chain.question, now=NOW + timedelta(days=9), kinds={"memory"}, limit=5)
    finally:
        library.close()
    texts = [each.entry.text for each in found if not each.entry.source.endswith("archive.yaml")]
    told = ["chains"]
    told += ["first"] if texts[:1] == [chain.holds] else []
    told += ["stale"] if held & set(chain.stale) else []
    told += ["lost"] if chain.holds not in held else []
    told += ["others"] if not {each.value for each in others} <= held else []
    return told


def measure() -> Promise:
    results = counted()
    whole = sum(results.values(), Counter[str]())
    first, stale = (100 * whole[what] / whole["chains"] for what in ("first", "stale"))
    worst = min(results, key=lambda kind: results[kind]["first"])
    bars = [
        Bar("current one found first", f"{first:.1f} % (worst: {worst})", "≥ 98 %", first >= 98),
        Bar("stale one held for true", f"{stale:.1f} %", "≤ 1 %", stale <= 1),
        Bar("confirmed one lost to a weaker source", f"{whole['lost']}", "0", whole["lost"] == 0),
        Bar("others that were touched", f"{whole['others']} chains", "0", whole["others"] == 0),
    ]
    for kind, what in (("updates", "everyday news that took its place"), ("apart", "everyday facts that stayed apart")):
        bars += [
            Bar(f"{what}, {half}", f"{good} of {all_of}") for half, (good, all_of) in everyday.passed(kind).items()
        ]
    return Promise("current", ABOUT, bars)


if __name__ == "__main__":
    print(measure().markdown())
