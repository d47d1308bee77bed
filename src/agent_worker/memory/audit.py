"""What was done to the memory and the soul of agents, and what a person approved: an append-only record.

The one writer of tables `audit` and `sealed`. Each project has a chain of its own: an entry is sealed with a hash over
itself and the seal before it, and the last seal is kept apart. Whoever changes, removes or slips in an entry breaks the
chain, and `flaw` says where. No tool of an agent leads here: what it does is noted by the tools it does it with. What
an entry says in words is sealed as a salted hash of them, so that the words of an agent that was deleted can go and the
chain stays whole.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction

Deed = Literal[
    "remembered",
    "forgot",
    "learned",
    "judged",
    "read",
    "shared",
    "noted",
    "planned",
    "asked",
    "told",
    "denied",
    "edited",
    "reverted",
    "released",
    "deleted",
    "proposed",
    "approved",
    "rejected",
    "expired",
    "withdrawn",
    "evolved",
    "rolled_back",
    "tidied",
    "published",
]
PAGE = 1000
_SEALED = ("n", "project", "agent", "who", "deed", "words", "run", "at")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that was done to the memory of an agent."""

    agent: str  #: id: whose memory it concerns; '' for what was approved of the project
    who: str  #: an agent's name, or user
    deed: Deed
    about: str  #: a key, the name of a note, a question
    before: str = ""  #: what stood there, as JSON; '' when nothing did
    run: str = ""  #: in which it was done; of what rounds have done, the id of the round


def note(tx: Transaction, done: AuditEntry, *, now: int) -> None:
    last = tx.one("select n, seal from sealed where project = :project")
    row: Row = {
        "n": last["n"] + 1 if last else 1,
        "project": tx.project,
        "agent": done.agent,
        "who": done.who,
        "deed": done.deed,
        "about": tx.redact(done.about)[:500],
        "before": tx.redact_json(done.before),
        "salt": secrets.token_hex(16),
        "run": done.run,
        "at": now,
    }
    row["words"] = _hashed(row)
    seal = _seal(row, last["seal"] if last else "")
    tx.run(
        """insert into audit(project, n, agent, who, deed, about, before, salt, words, run, at, seal)
           values (:project, :n, :agent, :who, :deed, :about, :before, :salt, :words, :run, :at, :seal)""",
        **row,
        seal=seal,
    )
    tx.run(
        """insert into sealed(project, n, seal) values (:project, :n, :seal)
           on conflict (project) do update set n = excluded.n, seal = excluded.seal""",
        n=row["n"],
        seal=seal,
    )


def forget_words(tx: Transaction, *, agent: str, who: str, now: int) -> None:
    """Take the words out of a deleted agent's entries: that things were done, by whom and when, stays; what it knew
    does not.
    """
    if tx.changed(
        "update audit set about = '', before = '', salt = '' where project = :project and agent = :agent",
        agent=agent,
    ):
        note(tx, AuditEntry(agent=agent, who=who, deed="deleted", about=""), now=now)


def entries(tx: Transaction, *, agent: str | None = None, limit: int = 100) -> list[Row]:
    """The newest entries, in order."""
    rows = tx.all(
        """select * from audit where project = :project and (cast(:agent as text) is null or agent = :agent)
            order by n desc limit :limit""",
        agent=agent,
        limit=limit,
    )
    return rows[::-1]


def of_runs(tx: Transaction, agent: str, runs: Collection[str], at: int | None) -> list[Row]:
    """What was done to the memory of an agent in these runs, or from a time on, and by all rounds, oldest first."""
    rows = tx.all("select * from audit where project = :project and agent = :agent order by n", agent=agent)
    late = at is not None
    return [row for row in rows if row["run"] in runs or (late and row["at"] >= at) or row["deed"] == "tidied"]


def of_deeds(tx: Transaction, agent: str, *deeds: Deed) -> list[Row]:
    """Everything of these kinds that was ever done to the memory of an agent, oldest first."""
    rows = tx.all("select * from audit where project = :project and agent = :agent order by n", agent=agent)
    return [row for row in rows if row["deed"] in deeds]


def count(tx: Transaction, run: str, deed: Deed) -> int:
    """How often this was done in a run."""
    row = tx.one(
        "select count(*) as n from audit where project = :project and run = :run and deed = :deed",
        run=run,
        deed=deed,
    )
    return int(row["n"]) if row else 0


def flaw(tx: Transaction) -> str:
    """Where the chain of a project is broken; '' when it is whole. Reads all of it."""
    seal, count, deleted = "", 0, _deleted(tx)
    for row in _all(tx):
        count += 1
        if row["n"] != count:
            return f"entry {count} of the audit is missing"
        seal = _seal(row, seal)
        if row["seal"] != seal or not (_is_as_written(row) or _went_with_its_agent(row, deleted)):
            return f"entry {count} of the audit was altered"
    last = tx.one("select n, seal from sealed where project = :project") or {"n": 0, "seal": ""}
    if (last["n"], last["seal"]) != (count, seal):
        return f"the audit ends with entry {count}, and there were {last['n']}"
    return ""


def _all(tx: Transaction) -> Iterator[Row]:
    after = 0
    while page := tx.all(
        "select * from audit where project = :project and n > :after order by n limit :page",
        after=after,
        page=PAGE,
    ):
        yield from page
        after = page[-1]["n"]


def _deleted(tx: Transaction) -> dict[str, int]:
    """Agents that were deleted, each with the entry that says so."""
    rows = tx.all(
        "select agent, max(n) as n from audit where project = :project and deed = 'deleted' group by agent",
    )
    return {row["agent"]: row["n"] for row in rows}


def _is_as_written(row: Row) -> bool:
    return bool(row["words"] == _hashed(row))


def _went_with_its_agent(row: Row, deleted: Mapping[str, int]) -> bool:
    return not row["salt"] and not row["about"] and not row["before"] and row["n"] < deleted.get(row["agent"], 0)


def _hashed(row: Row) -> str:
    """The hash of words, salted: once the salt is gone, nobody can try out which words they were."""
    return hashlib.sha256(json.dumps([row["salt"], row["about"], row["before"]]).encode()).hexdigest()


def _seal(row: Row, before: str) -> str:
    sealed = json.dumps([before, *(row[name] for name in _SEALED)], ensure_ascii=True)
    return hashlib.sha256(sealed.encode()).hexdigest()
