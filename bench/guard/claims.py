"""Everyday claims from data/claims.yaml, as memory takes them: what `current` and `clean` measure beside made-up ones.

Written before anybody looked at what the rules make of them. The second of each two is held out: nobody looks at which
of those fail.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from agent_worker.files.root import Root
from agent_worker.memory import claims, memory
from agent_worker.memory.library import Library
from agent_worker.memory.memory import MemoryEntry

DATA = Path(__file__).parents[1] / "data" / "claims.yaml"
NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
HALVES = ("looked at", "held out")

Claims = list[list[str]]


def load() -> dict[str, Claims]:
    return {kind: [list(map(str, each)) for each in found] for kind, found in yaml.safe_load(DATA.read_text()).items()}


def halves(claims: Claims) -> dict[str, Claims]:
    return {half: claims[number::2] for number, half in enumerate(HALVES)}


def kept(root: Root, key: str, value: str, *, later: int = 0, by: str = "user") -> claims.ClaimOutcome:
    at = NOW + timedelta(days=later)
    claim = MemoryEntry(key, value, "working", source=(f"r_{later}",), learned=at.isoformat(), by=by)
    return claims.keep(root, claim, now=at)


def held(root: Root) -> list[str]:
    return [each.value for each in memory.load(root).entries if each.file != memory.ARCHIVE and not each.disputes]


def is_current(root: Root, claim: list[str]) -> bool:
    """The news is found first, and what held before is not held for true."""
    key, old, other, new, question = claim
    kept(root, key, old)
    kept(root, other, new, later=1)
    library = Library(root, "alice")
    try:
        found = library.search(question, now=NOW + timedelta(days=9), kinds={"memory"}, limit=5)
    finally:
        library.close()
    there = [each.entry.text for each in found if not each.entry.source.endswith("archive.yaml")]
    return there[:1] == [new] and old not in held(root)


def stay_apart(root: Root, claim: list[str]) -> bool:
    kept(root, claim[0], claim[1])
    kept(root, claim[2], claim[3], later=1)
    return set(held(root)) == {claim[1], claim[3]}


def is_one(root: Root, claim: list[str]) -> bool:
    kept(root, claim[0], claim[1])
    kept(root, claim[2], claim[3], later=1)
    return len(held(root)) == 1


def is_dropped(root: Root, claim: list[str]) -> bool:
    kept(root, claim[0], claim[1], by="self")
    return held(root) == []


JUDGES: dict[str, Callable[[Root, list[str]], bool]] = {
    "updates": is_current,
    "apart": stay_apart,
    "again": is_one,
    "chatter": is_dropped,
}


def failed(kind: str, half: str) -> Iterator[list[str]]:
    for claim in halves(load()[kind])[half]:
        with tempfile.TemporaryDirectory() as folder:
            if not JUDGES[kind](Root(Path(folder) / "alice"), claim):
                yield claim


def passed(kind: str) -> dict[str, tuple[int, int]]:
    """Of each half, how many went as they should, of how many."""
    found = Counter({half: sum(1 for _ in failed(kind, half)) for half in HALVES})
    return {half: (len(claims) - found[half], len(claims)) for half, claims in halves(load()[kind]).items()}


if __name__ == "__main__":  # what went wrong in the half that may be looked at
    for kind in JUDGES:
        print(kind, passed(kind))
        for claim in failed(kind, HALVES[0]):
            print("   ", claim)
