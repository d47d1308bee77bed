"""What rounds want to know of an agent beside its files: what stood in its prompts lately, and what it looked up."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime

from agent_worker.core.clock import micros
from agent_worker.database.database import Transaction
from agent_worker.memory import audit
from agent_worker.memory.rounds import UNUSED, MemoryUse, changes_of

MOST_RUNS = 500  #: whose prompts are looked at, the newest


def usage(tx: Transaction, agent: str, *, agents: Collection[str], now: datetime) -> MemoryUse:
    since = micros(now - UNUSED)
    lately = [row for row in tx.all(_MANIFESTS, agent=agent, limit=MOST_RUNS) if row["started_at"] >= since]
    deeds = audit.of_deeds(tx, agent, "read", "tidied", "reverted")
    rounds = {row["run"]: changes_of(row) for row in deeds if row["deed"] == "tidied"}
    taken_back = {row["about"] for row in deeds if row["deed"] == "reverted"} & rounds.keys()
    return MemoryUse(
        now=now,
        shown=frozenset(key for row in lately for key in _shown(row["manifest"])),
        runs=len(lately),
        asked=[(row["run"], row["about"]) for row in deeds if row["deed"] == "read" and row["at"] >= since],
        demoted=frozenset(each.after.key for all_of in rounds.values() for each in all_of if each.what == "demoted"),
        declined=frozenset(each.matter for id in taken_back for each in rounds[id]),
        agents=frozenset(agents),
    )


_MANIFESTS = """
select r.manifest, r.started_at from run r
 where r.project = :project and r.agent = :agent order by r.id desc limit :limit"""


def _shown(manifest: str) -> Iterator[str]:
    for section in json.loads(manifest or "[]"):
        for each in section.get("considered", ()):
            if each["shown"]:
                yield each["key"]
