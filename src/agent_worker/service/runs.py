"""Runs: what happened in them, and what each one saw."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agent_worker.errors import NotFound
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Row, Transaction


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    agent: str
    state: str
    reason: str
    backend: str
    model: str
    started_at: int
    ended_at: int | None
    steps: int
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Step:
    n: int
    text: str
    calls: list[dict[str, Any]]
    tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Explained:
    """Everything about one run: the sections of its prompt with their sizes, its steps, its answer."""

    run: Run
    instruction: str
    sections: list[dict[str, Any]]
    steps: list[Step]
    text: str


@dataclass(frozen=True, slots=True)
class Stats:
    runs: int
    messages: int
    tokens: int
    usd: float
    by_agent: dict[str, float]  #: USD
    by_day: dict[str, float]


@operation("GET", "/runs")
async def runs_list(office: Office, project: str | None = None, agent: str | None = None, limit: int = 50) -> list[Run]:
    """The newest runs of a project, or of one agent."""
    admitted = await office.project(project)
    return await office.stage.database.read(_runs, admitted.id, agent, max(1, min(limit, 500)))


@operation("GET", "/runs/{run}")
async def explain(office: Office, run: str) -> Explained:
    """What a run saw and did."""
    return await office.stage.database.read(_explain, run)


@operation("GET", "/stats")
async def stats(office: Office, project: str | None = None) -> Stats:
    """What a project has done and spent."""
    admitted = await office.project(project)
    return await office.stage.database.read(_stats, admitted.id)


RUN = """
select r.*, a.name,
       (select count(*) from step s where s.run = r.id) as steps,
       (select coalesce(sum(l.input + l.output), 0) from ledger l where l.run = r.id) as tokens,
       (select coalesce(sum(l.micros), 0) from ledger l where l.run = r.id) as micros
  from run r join agent a on a.id = r.agent"""


def _runs(tx: Transaction, project: str, agent: str | None, limit: int) -> list[Run]:
    rows = tx.all(
        f"{RUN} where a.project = :project and (:agent is null or a.name = :agent) order by r.id desc limit :limit",
        project=project,
        agent=agent,
        limit=limit,
    )
    return [_run(row) for row in rows]


def _run(row: Row) -> Run:
    return Run(
        id=row["id"],
        agent=row["name"],
        state=row["state"],
        reason=row["reason"],
        backend=row["backend"],
        model=row["model"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        steps=row["steps"],
        tokens=row["tokens"],
        usd=row["micros"] / 1e6,
    )


def _explain(tx: Transaction, id: str) -> Explained:
    row = tx.one(f"{RUN} where r.id = :id", id=id)
    if row is None:
        raise NotFound(f"there is no run {id}", hint="agent-worker runs")
    instruction = tx.one("select text from instruction where id = :id", id=row["instruction"])
    steps = []
    for step in tx.all("select * from step where run = :id order by n", id=id):
        reply = json.loads(step["reply"])
        calls = tx.all("select * from call where work = :work and step = :n", work=step["work"], n=step["n"])
        shown = [
            {"tool": c["tool"], "arguments": c["arguments"], "ok": bool(c["ok"]), "result": c["result"][:2000]}
            for c in calls
        ]
        steps.append(Step(step["n"], reply["text"], shown, step["tokens"], step["micros"] / 1e6))
    sections = json.loads(row["manifest"]) if row["manifest"] else []
    return Explained(_run(row), instruction["text"] if instruction else "", sections, steps, row["text"])


def _stats(tx: Transaction, project: str) -> Stats:
    total = tx.one(
        """select coalesce(sum(input + output), 0) as tokens, coalesce(sum(micros), 0) as micros
             from ledger where project = :project""",
        project=project,
    )
    runs = tx.one(
        "select count(*) as n from run r join agent a on a.id = r.agent where a.project = :project", project=project
    )
    said = tx.one("select coalesce(sum(seq), 0) as n from workspace where project = :project", project=project)
    agents = tx.all(
        """select a.name, sum(l.micros) as micros from ledger l join agent a on a.id = l.agent
            where l.project = :project group by a.name order by a.name""",
        project=project,
    )
    days = tx.all(
        "select day, micros from tally where scope = 'project' and key = :project order by day", project=project
    )
    assert total
    assert runs
    assert said
    return Stats(
        runs=runs["n"],
        messages=said["n"],
        tokens=total["tokens"],
        usd=total["micros"] / 1e6,
        by_agent={row["name"]: row["micros"] / 1e6 for row in agents},
        by_day={row["day"]: row["micros"] / 1e6 for row in days},
    )
