"""What goes on in a project as numbers, for programs that watch: read from the record when somebody asks, never kept.

Gauges are looked up by the indexes of what is open, money and tokens are sums over the days of the tally; only the
number of runs is counted, in one pass over an index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.service.service import Service
from agent_worker.work.queue import Lane


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    help: str
    kind: Literal["gauge", "counter"]
    values: Mapping[tuple[tuple[str, str], ...], float] = field(default_factory=dict)  #: labels → value


async def project_metrics(service: Service, loaded: LoadedProject) -> list[Metric]:
    found = await service.read(loaded, _of_project, now=service.now())
    help = "Commits to the database by this daemon since it began, of all projects."
    return [*found, _one("commits_total", help, service.runtime.database.commits, "counter")]


def _of_project(tx: Transaction, *, now: int) -> list[Metric]:
    return [*_work(tx, now=now), *_waiting(tx), *_totals(tx)]


def _work(tx: Transaction, *, now: int) -> Iterator[Metric]:
    rows = tx.all(
        """select lane, count(*) as n, min(queued_at) as oldest from instruction
            where project = :project and state = 'queued' group by lane"""
    )
    by_lane = {Lane(row["lane"]): row for row in rows}
    depth: dict[tuple[tuple[str, str], ...], float] = {
        (("lane", lane.name.lower()),): by_lane[lane]["n"] if lane in by_lane else 0 for lane in Lane
    }
    yield Metric("queue_depth", "Work that is queued.", "gauge", depth)
    oldest = min((row["oldest"] for row in rows), default=now)
    yield _one("queue_oldest_seconds", "Age of the oldest work that is queued.", max(0, now - oldest) / 1e6)
    running = "select count(*) as n from run where project = :project and state = 'running'"
    yield _one("runs_running", "Runs at work now.", _count(tx, running))
    open_ones = "select count(*) as n from workspace where project = :project and state = 'running'"
    yield _one("workflows_running", "Instances of workflows that run.", _count(tx, open_ones))


def _waiting(tx: Transaction) -> Iterator[Metric]:
    rows = tx.all(
        "select kind, count(*) as n from inbox_item where project = :project and state = 'open' group by kind"
    )
    kinds = {"approval": 0, "question": 0, "limit": 0, "failure": 0} | {row["kind"]: row["n"] for row in rows}
    help = "What waits for the person: approvals, questions, limits that were reached, failures and others."
    yield Metric("inbox_open", help, "gauge", {(("kind", kind),): n for kind, n in sorted(kinds.items())})
    hooks = "select count(*) as n from hook_delivery where state = 'queued' and project = :project"
    yield _one("hooks_queued", "Webhooks that were accepted and wait to start something.", _count(tx, hooks))


def _totals(tx: Transaction) -> Iterator[Metric]:
    row = tx.one(
        """select coalesce(sum(tokens), 0) as tokens, coalesce(sum(micros), 0) as micros,
                  coalesce(sum(estimated), 0) as estimated
             from tally where project = :project and scope = 'project'"""
    )
    assert row is not None
    runs = _count(tx, "select count(*) as n from run where project = :project")
    yield _one("runs_total", "Runs begun.", runs, "counter")
    yield _one("tokens_total", "Tokens used.", row["tokens"], "counter")
    yield _one("cost_usd_total", "Money spent, in USD.", row["micros"] / 1e6, "counter")
    guess = "Of the money spent, what rests on a guess, in USD."
    yield _one("cost_estimated_usd_total", guess, row["estimated"] / 1e6, "counter")


def _one(name: str, help: str, value: float, kind: Literal["gauge", "counter"] = "gauge") -> Metric:
    return Metric(name, help, kind, {(): value})


def _count(tx: Transaction, sql: str) -> int:
    row = tx.one(sql)
    return int(row["n"]) if row else 0
