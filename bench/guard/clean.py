"""Clean: what is drawn out of a thousand runs is kept once, and nothing of it is chatter or an echo.

A scripted extractor has a few true facts. Run by run it tells one again, rephrases it, chats about the work, or hands
back what it was shown.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_worker.files.root import Root
from agent_worker.memory import claims, memory
from agent_worker.memory.facts import same
from agent_worker.memory.memory import MemoryEntry
from guard import claims as everyday
from guard.promise import Bar, Promise

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
RUNS = 1000
ABOUT = (
    f"{RUNS} runs whose extractor repeats, rephrases, chats and echoes what it was shown. Beside them everyday claims "
    "of bench/data/claims.yaml, written before the rules were looked at. Of the first half it was looked at what "
    "failed, and the rules were mended (chatter was known in 1 of 10 before); of the half that is held out nobody has."
)

FACTS = (
    ("deploys", "We deploy the shop on Mondays after the review", "Deploys of the shop: on Mondays after review"),
    (
        "style",
        "Answers to the person should be short and name the file",
        "Short answers to the person, naming the file",
    ),
    (
        "database",
        "The orders database is PostgreSQL 16 on the small host",
        "Orders database: PostgreSQL 16, small host",
    ),
    ("tests", "Browser tests run on four runners to save time", "To save time browser tests run on four runners"),
    ("flags", "Feature flags carry an expiry date of 90 days", "An expiry date of 90 days is carried by feature flags"),
    (
        "coupons",
        "The partner portal still calls the coupon module",
        "Coupon module is still called by the partner portal",
    ),
    ("secrets", "Secrets are rotated by the platform team in June", "Platform team rotates secrets in June"),
    ("cache", "Node modules are cached between pipeline builds", "Between pipeline builds node modules are cached"),
)
CHATTER = (
    ("status", "I am working on it"),
    ("progress", "The task is completed successfully"),
    ("greeting", "said hello to the user"),
    ("outcome", "done"),
    ("result", "I have finished the work"),
    ("note", "checking now"),
    ("summary", "The review is done"),
    ("reply", "answered the message"),
)


def counted(runs: int = RUNS) -> Counter[str]:
    dice, told = random.Random(5), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        root = Root(Path(folder) / "alice")
        for number in range(runs):
            kind = dice.choice(("fact", "again", "rephrased", "chat", "echo"))
            before = {entry.key: entry.seen for entry in memory.load(root).entries}
            kept = claims.keep(root, _claim(dice, kind, number, root), now=NOW + timedelta(hours=number))
            told[f"told: {kind}"] += 1
            told["echoes"] += kind == "echo" and kept.outcome not in claims.UNWRITTEN and bool(before)
        entries = memory.load(root).entries
    told["entries"] = len(entries)
    told["facts"] = sum(any(same(entry.value, each) for entry in entries for each in fact[1:]) for fact in FACTS)
    told["junk"] = len(entries) - told["facts"]
    return told


def _claim(dice: random.Random, kind: str, number: int, root: Root) -> MemoryEntry:
    key, plain, other = dice.choice(FACTS)
    known = memory.load(root).entries
    if kind == "chat":
        key, plain = dice.choice(CHATTER)
    elif kind == "rephrased":
        key, plain = f"{key} {dice.choice(('rule', 'note', 'decision'))}", other
    elif kind == "echo" and known:
        shown = dice.choice(known)
        key, plain = dice.choice((shown.key, f"about {shown.key}")), shown.value
    return MemoryEntry(key, plain, "patterns", source=(f"r_{number}",), learned=NOW.isoformat(), by="self")


def measure() -> Promise:
    found = counted()
    share = 100 * found["junk"] / found["entries"]
    told = f"{found['facts']} of {len(FACTS)}, in {found['entries']} entries"
    bars = [
        Bar("facts that were kept", told, "all", found["facts"] == len(FACTS)),
        Bar("duplicates or junk, of the entries", f"{share:.1f} %", "≤ 2 %", share <= 2),
        Bar("echoes that were kept", f"{found['echoes']}", "0", found["echoes"] == 0),
    ]
    for kind, what in (
        ("again", "everyday facts told again that stayed one"),
        ("chatter", "everyday chatter not kept"),
    ):
        bars += [
            Bar(f"{what}, {half}", f"{good} of {all_of}") for half, (good, all_of) in everyday.passed(kind).items()
        ]
    return Promise("clean", ABOUT, bars)


if __name__ == "__main__":
    print(measure().markdown())
