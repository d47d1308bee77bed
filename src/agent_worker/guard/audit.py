"""What was done to the memory of agents, by whom and in which run: an append-only record.

The one writer of tables `audit` and `sealed`. Each entry is sealed with a hash over itself and the seal before it, and
the last seal is kept apart. Whoever changes, removes or slips in an entry breaks the chain, and `flaw` says where. No
tool of an agent leads here: what it does is noted by the tools it does it with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agent_worker.storage.database import Row, Transaction

Deed = Literal[
    "remembered", "forgot", "learned", "noted", "planned", "asked", "told", "denied", "edited", "reverted", "released"
]
PAGE = 1000
_SEALED = ("n", "project", "agent", "who", "deed", "about", "before", "run", "at")


@dataclass(frozen=True, slots=True)
class Done:
    """One thing that was done."""

    project: str
    agent: str  #: id: whose memory it concerns
    who: str  #: an agent's name, or user
    deed: Deed
    about: str  #: a key, the name of a note, a question
    before: str = ""  #: what stood there, as JSON; '' when nothing did
    run: str = ""


def note(tx: Transaction, done: Done, *, now: int) -> None:
    last = tx.one("select n, seal from sealed")
    row: Row = {
        "n": last["n"] + 1 if last else 1,
        "project": done.project,
        "agent": done.agent,
        "who": done.who,
        "deed": done.deed,
        "about": tx.redact(done.about)[:500],
        "before": tx.redact(done.before),
        "run": done.run,
        "at": now,
    }
    seal = _seal(row, last["seal"] if last else "")
    tx.run(
        """insert into audit(n, project, agent, who, deed, about, before, run, at, seal)
           values (:n, :project, :agent, :who, :deed, :about, :before, :run, :at, :seal)""",
        **row,
        seal=seal,
    )
    if not tx.run("update sealed set n = :n, seal = :seal", n=row["n"], seal=seal):
        tx.run("insert into sealed(n, seal) values (:n, :seal)", n=row["n"], seal=seal)


def entries(tx: Transaction, project: str, *, agent: str | None = None, limit: int = 100) -> list[Row]:
    """The newest, in order."""
    rows = tx.all(
        """select * from audit where project = :project and (:agent is null or agent = :agent)
            order by n desc limit :limit""",
        project=project,
        agent=agent,
        limit=limit,
    )
    return rows[::-1]


def since(tx: Transaction, agent: str, *, at: int = 0, run: str | None = None) -> list[Row]:
    """What was done from a time on, or in one run, oldest first."""
    return tx.all(
        "select * from audit where agent = :agent and at >= :at and (:run is null or run = :run) order by n",
        agent=agent,
        at=at,
        run=run,
    )


def count(tx: Transaction, run: str, deed: Deed) -> int:
    """How often this was done in a run."""
    row = tx.one("select count(*) as n from audit where run = :run and deed = :deed", run=run, deed=deed)
    return int(row["n"]) if row else 0


def flaw(tx: Transaction) -> str:
    """Where the chain is broken; '' when it is whole. Reads all of it."""
    seal, count = "", 0
    for row in _all(tx):
        count += 1
        if row["n"] != count:
            return f"entry {count} of the audit is missing"
        seal = _seal(row, seal)
        if row["seal"] != seal:
            return f"entry {count} of the audit was altered"
    last = tx.one("select n, seal from sealed") or {"n": 0, "seal": ""}
    if (last["n"], last["seal"]) != (count, seal):
        return f"the audit ends with entry {count}, and there were {last['n']}"
    return ""


def _all(tx: Transaction) -> Iterator[Row]:
    after = 0
    while page := tx.all("select * from audit where n > :after order by n limit :page", after=after, page=PAGE):
        yield from page
        after = page[-1]["n"]


def _seal(row: Row, before: str) -> str:
    sealed = json.dumps([before, *(row[name] for name in _SEALED)], ensure_ascii=True)
    return hashlib.sha256(sealed.encode()).hexdigest()
