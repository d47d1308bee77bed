"""Runs: what happened in them, and what each one saw."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import timedelta
from typing import Any

from agent_worker.agents import commands
from agent_worker.backends.backend import Reply
from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import BadInput, NotFound
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.service.addresses import no_agent
from agent_worker.service.causes import Causes, causes_of
from agent_worker.service.operation import operation
from agent_worker.service.sent import Sent, saw, sent_in
from agent_worker.service.service import Service
from agent_worker.work import run_rows
from agent_worker.workspaces import workspace_rows

_REASON = 2000  # characters
SHOWN = 2000  #: characters of a result that are told where nobody asked for all of it


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
    estimated: bool = False  #: the money rests on a guess: of a price, or of how many tokens it were
    workspace: str = ""  #: its name; '' is personal context
    text: str = ""  #: the beginning of what it said at its end
    held: bool = False  #: a person took back what it was told, said and learned
    remedy: str = ""  #: what mends its failure: approve, start, key NAME, install PROGRAM, edit FILE:LINE
    tries: int = 1  #: how many times it has begun: once more each time after it waited for its model


@dataclass(frozen=True, slots=True)
class Step:
    n: int
    text: str
    calls: list[dict[str, Any]]
    tokens: int
    usd: float
    at: int = 0  #: when the model had answered
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """Everything about one run: the sections of its prompt with their sizes, its steps, its answer.

    A call of a step has `own` when a coding program made it with a tool of its own, which we had no part in; one
    without `done_at` never came to an end that we know of. Of a long result only the beginning is here, and `size`
    says how many characters there are; in `full`, all of it is.
    """

    run: Run
    instruction: str
    sections: list[dict[str, Any]]
    steps: list[Step]
    text: str
    sender: str = ""
    source: str = ""
    queued_at: int | None = None
    attempts: list[Run] = field(default_factory=list)  #: all runs of the same instruction, oldest first
    causes: Causes = field(default_factory=Causes)  #: what led to it, and what came of it
    sent: Sent | None = None  #: what the model was sent, word by word; None when nobody asked for it


@dataclass(frozen=True, slots=True)
class Stats:
    runs: int
    messages: int
    tokens: int
    usd: float
    by_agent: dict[str, float]  #: USD
    by_day: dict[str, float]
    estimated: bool = False
    estimated_of: list[str] = field(default_factory=list)  #: agents and days whose money rests on a guess


@operation("GET", "/runs")
async def runs_list(
    service: Service,
    project: str | None = None,
    agent: str | None = None,
    state: str | None = None,
    at: str | None = None,
    limit: int = 50,
) -> list[Run]:
    """The newest runs of a project, of one agent, in one state, or `at` a workspace."""
    loaded = await service.project(project)
    wanted = {"agent": agent, "state": state, "workspace": None}
    if at is not None:
        name = (await service.address(loaded, at)).workspace or WorkspaceName("")
        wanted["workspace"] = (await service.read(loaded, workspace_rows.find, name))["id"]
    return await service.read(loaded, _runs, wanted, max(1, min(limit, 500)))


@operation("GET", "/runs/{run}", tool="run_explain")
async def explain(service: Service, run: str, full: bool = False) -> Explained:
    """What a run saw and did; in `full`, word by word what its model was sent."""
    database, run = await service.holding(run, "run")
    return await database.read(_explain, run, full=full, kept=service.runtime.prompts_kept, now=service.now())


@operation("POST", "/runs/{run}/refuse")
async def run_refuse(service: Service, run: str, reason: str) -> bool:
    """Refuse a run's answer to a direct question: the run then counts as failed, and is reported like any failure."""
    database, run = await service.holding(run, "run")
    told = reason if len(reason) <= _REASON else f"{reason[:_REASON]} …"
    return await database.write(_refuse, run, told, now=service.now())


def _refuse(tx: Transaction, run: str, reason: str, *, now: int) -> bool:
    if not run_rows.is_there(tx, run):
        raise NotFound(f"there is no run {run}", hint="agent-worker runs")
    commands.refuse_answer(tx, run, reason=reason, now=now)
    return True


@operation("GET", "/stats")
async def stats(service: Service, project: str | None = None) -> Stats:
    """What a project has done and spent."""
    loaded = await service.project(project)
    return await service.read(loaded, _stats)


RUN = """
select r.*, a.name, w.workflow, w.tag,
       (select count(*) from step s
         where s.project = :project and s.run = r.id and s.work = (
               select i.work from instruction i where i.project = :project and i.id = r.instruction)) as steps,
       (select coalesce(sum(l.input + l.output), 0) from ledger l
         where l.project = :project and l.run = r.id) as tokens,
       (select coalesce(sum(l.micros), 0) from ledger l where l.project = :project and l.run = r.id) as micros,
       (select coalesce(max(l.estimated), 0) from ledger l where l.project = :project and l.run = r.id) as estimated
  from run r join agent a on a.project = :project and a.id = r.agent
  left join workspace w on w.project = :project and w.id = r.workspace
 where r.project = :project"""

CALLS = """
select run, step, tool, arguments, ok, result, at, done_at, 0 as own from call
 where project = :project and work = :work
union all
select run, step, tool, arguments, ok, result, at, done_at, 1 as own from program_call
 where project = :project and work = :work and run = :run
 order by at, step"""


def _runs(tx: Transaction, wanted: Mapping[str, str | None], limit: int) -> list[Run]:
    rows = tx.all(
        f"""{RUN} and (cast(:agent as text) is null or a.name = :agent)
              and (cast(:state as text) is null or r.state = :state)
              and (cast(:workspace as text) is null or r.workspace = :workspace)
            order by r.id desc limit :limit""",
        limit=limit,
        **wanted,
    )
    if not rows and wanted["agent"] is not None:
        _check_agent(tx, wanted["agent"])
    return [_run(row) for row in rows]


def _check_agent(tx: Transaction, name: str) -> None:
    if tx.one("select 1 from agent where project = :project and name = :name limit 1", name=name) is None:
        known = [str(row["name"]) for row in tx.all("select name from agent where project = :project")]
        raise no_agent(name, known)


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
        estimated=bool(row["estimated"]),
        workspace=_place(row),
        text=row["text"][:200],
        held=bool(row["held"]),
        remedy=row["remedy"],
        tries=row["tries"],
    )


def _place(row: Row) -> str:
    return "" if row["workflow"] is None else str(workspace_rows.name_of(row))


def said_in(step: Row) -> str:
    try:
        return Reply.load(step["reply"]).text
    except BadInput as error:
        return f"({error.message})"


def _calls(
    tx: Transaction, work: str, run: str, steps: Collection[int], *, full: bool
) -> dict[int, list[dict[str, Any]]]:
    """The calls that a run made, or asked for in one of its steps, by step, in the order in which they were made."""
    found: dict[int, list[dict[str, Any]]] = {}
    for call in tx.all(CALLS, work=work, run=run):
        if call["run"] != run and call["step"] not in steps:
            continue
        shown = {
            "tool": call["tool"],
            "arguments": call["arguments"],
            "ok": bool(call["ok"]),
            "result": call["result"] if full else call["result"][:SHOWN],
            "size": len(call["result"]),
            "at": call["at"],
            "done_at": call["done_at"],
            "own": bool(call["own"]),
        }
        found.setdefault(call["step"], []).append(shown)
    return found


def _steps(tx: Transaction, work: str, run: str, *, full: bool) -> list[Step]:
    """What a run did. A step that was never completed is there too, if something was called in it."""
    guessed = tx.all("select step from ledger where project = :project and run = :id and estimated = 1", id=run)
    guesses = {each["step"] for each in guessed}
    sql = "select * from step where project = :project and work = :work and run = :id order by n"
    rows = tx.all(sql, work=work, id=run)
    calls = _calls(tx, work, run, {row["n"] for row in rows}, full=full)
    done = [
        Step(
            row["n"],
            said_in(row),
            calls.pop(row["n"], []),
            row["tokens"],
            row["micros"] / 1e6,
            row["at"],
            row["n"] in guesses,
        )
        for row in rows
    ]
    return sorted([*done, *(Step(n, "", made, 0, 0.0) for n, made in calls.items())], key=lambda step: step.n)


def _explain(tx: Transaction, id: str, *, full: bool, kept: timedelta, now: int) -> Explained:
    row = tx.one(f"{RUN} and r.id = :id", id=id)
    if row is None:
        raise NotFound(f"there is no run {id}", hint="agent-worker runs")
    asked = tx.one("select * from instruction where project = :project and id = :id", id=row["instruction"])
    work = asked["work"] if asked else ""
    attempts = tx.all(
        f"{RUN} and r.instruction = :instruction order by r.started_at, r.id", instruction=row["instruction"]
    )
    return Explained(
        run=_run(row),
        instruction=asked["text"] if asked else "",
        sections=saw(tx, row),
        steps=_steps(tx, work, id, full=full),
        text=row["text"],
        sender=asked["sender"] if asked else "",
        source=asked["source"] if asked else "",
        queued_at=asked["queued_at"] if asked else None,
        attempts=[_run(each) for each in attempts],
        causes=causes_of(tx, row, asked["message"] if asked else None),
        sent=sent_in(tx, row, work, kept=kept, now=now) if full else None,
    )


def _stats(tx: Transaction) -> Stats:
    runs = tx.one(
        """select count(*) as n from run r join agent a on a.project = :project and a.id = r.agent
            where r.project = :project"""
    )
    said = tx.one("select coalesce(sum(seq), 0) as n from workspace where project = :project")
    agents = tx.all(
        """select a.name, sum(t.micros) as micros, sum(t.estimated) as estimated
             from agent a join tally t on t.project = :project and t.scope = 'agent' and t.key = a.id
            where a.project = :project group by a.name order by a.name"""
    )
    days = tx.all(
        """select day, tokens, micros, estimated from tally
            where project = :project and scope = 'project' order by day"""
    )
    assert runs
    assert said
    return Stats(
        runs=runs["n"],
        messages=said["n"],
        tokens=sum(row["tokens"] for row in days),
        usd=sum(row["micros"] for row in days) / 1e6,
        by_agent={row["name"]: row["micros"] / 1e6 for row in agents},
        by_day={row["day"]: row["micros"] / 1e6 for row in days},
        estimated=any(row["estimated"] for row in days),
        estimated_of=[
            *(row["name"] for row in agents if row["estimated"]),
            *(r["day"] for r in days if r["estimated"]),
        ],
    )
