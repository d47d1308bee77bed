"""The queue: one row per piece of work for one agent. The one writer of table `instruction`.

Verbs: *put* into a lane, *take* the next, *put back* with its progress, *end*. Knows no loop, no channel and no limits;
agents/run_begin.py ties those together in its transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Literal

from agent_worker.core.events import Queued
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.work import run_rows
from agent_worker.work.agent_rows import next_place

Source = Literal["dm", "workspace", "channel", "schedule"]
End = Literal["done", "failed", "incomplete", "cancelled", "dead"]
TOGETHER = 50  # mentions that one run answers at most; the others are left to the next


class Lane(IntEnum):
    IMMEDIATE = 0
    NORMAL = 1
    BACKGROUND = 2


@dataclass(frozen=True, slots=True)
class Ageing:
    """How long waiting, and how many times being pushed aside, lifts an instruction."""

    immediate_after: int = 5 * 60 * 1_000_000  #: microseconds since it was first queued
    up_after_preemptions: int = 3


@dataclass(frozen=True, slots=True)
class Instruction:
    """One piece of work for one agent. Never changes; a later look at the row is another value."""

    id: str
    work: str  #: the first instruction of a chain of continuations; completed steps hang on it
    agent: str
    workspace: str | None  #: None is a direct message: personal context only
    source: Source
    sender: str
    lane: Lane
    text: str
    message: str | None  #: the channel message that caused it
    root: str
    hop: int
    state: str
    attempts: int
    failures: int
    queued_at: int
    waits_since: int | None = None  #: when it began to wait for its model

    @classmethod
    def of(cls, row: Row) -> Instruction:
        return cls(
            id=row["id"],
            work=row["work"],
            agent=row["agent"],
            workspace=row["workspace"],
            source=row["source"],
            sender=row["sender"],
            lane=Lane(row["lane"]),
            text=row["text"],
            message=row["message"],
            root=row["root"],
            hop=row["hop"],
            state=row["state"],
            attempts=row["attempts"],
            failures=row["failures"],
            queued_at=row["queued_at"],
            waits_since=row["waits_since"],
        )


@dataclass(frozen=True, slots=True)
class Order:
    """What to put into a queue."""

    agent: str
    text: str
    source: Source
    sender: str
    lane: Lane
    root: str
    workspace: str | None = None
    message: str | None = None
    hop: int = 0
    continues: str | None = None  #: an instruction whose saved steps this one goes on from


def put(tx: Transaction, order: Order, *, now: int, id: str | None = None) -> str:
    """Queue an order; the instruction's id. A given id makes putting it twice harmless."""
    if id and tx.one("select 1 as known from instruction where project = :project and id = :id", id=id):
        return id
    id = id or new_id("i")
    tx.run(
        """insert into instruction(project, id, work, agent, workspace, source, sender, lane, ord, text, message,
                                   root, hop, state, queued_at)
           values (:project, :id,
                   coalesce((select work from instruction where project = :project and id = :continues), :id),
                   :agent, :workspace, :source, :sender, :lane, :ord, :text, :message, :root, :hop, 'queued', :now)""",
        id=id,
        continues=order.continues,
        agent=order.agent,
        workspace=order.workspace,
        source=order.source,
        sender=order.sender,
        lane=int(order.lane),
        ord=next_place(tx, order.agent),
        text=order.text,
        message=order.message,
        root=order.root,
        hop=order.hop,
        now=now,
    )
    tx.tell(Queued(workspace=order.workspace, agent=order.agent, instruction=id, lane=int(order.lane)))
    return id


AGE = """
update instruction set lane = 0
 where project = :project and agent = :agent and state = 'queued' and lane > 0 and queued_at <= :aged"""

HEAD = """
select * from instruction i
 where i.project = :project and agent = :agent and state = 'queued'
   and not exists (select 1 from workspace w where w.project = :project and w.id = i.workspace
                      and (w.paused <> '' or w.state <> 'running'))
   and not exists (select 1 from member m where m.project = :project and m.workspace = i.workspace
                      and m.agent = i.agent and m.away <> '')
 order by lane, ord limit 1"""


def head(tx: Transaction, agent: str, *, now: int, ageing: Ageing) -> Row | None:
    """What is next for this agent, after those that waited long enough were lifted."""
    tx.run(AGE, agent=agent, aged=now - ageing.immediate_after)
    return tx.one(HEAD, agent=agent)


def companions(tx: Transaction, first: Row) -> list[Row]:
    """Queued mentions of the same agent in the same workspace are taken together, as many as one prompt can show.

    Not with one whose process died: it is tried by itself, so that it dies of its own fault or not at all.
    """
    if first["source"] != "channel" or (first["attempts"] and run_rows.lost_runs(tx, first["id"])):
        return []
    return tx.all(
        """select * from instruction
            where project = :project and agent = :agent and state = 'queued' and source = 'channel'
              and workspace = :workspace and id <> :id
            order by lane, ord limit :others""",
        agent=first["agent"],
        workspace=first["workspace"],
        id=first["id"],
        others=TOGETHER - 1,
    )


def begin_run(tx: Transaction, taken: Sequence[Row], *, backend: str, model: str, now: int) -> str:
    """Count the attempt and open its run, before anything is tried: one that kills its worker is counted too."""
    run = run_rows.take_up(tx, taken) or run_rows.open_run(tx, taken[0], backend=backend, model=model, now=now)
    for row in taken:
        tx.run(
            """update instruction set state = 'running', run = :run, attempts = attempts + 1
                where project = :project and id = :id and state = 'queued'""",
            run=run,
            id=row["id"],
        )
    return run


def waiting_above(tx: Transaction, agent: str, lane: Lane, *, now: int, ageing: Ageing) -> bool:
    """Whether there is ready work in a strictly higher lane than this."""
    if lane is Lane.IMMEDIATE:
        return False
    first = head(tx, agent, now=now, ageing=ageing)
    return first is not None and first["lane"] < lane and first["not_before"] <= now


def running(tx: Transaction, run: str) -> list[Row]:
    """The instructions this run works on; empty when it is no longer the one."""
    return tx.all(
        "select * from instruction where project = :project and run = :run and state = 'running' order by ord", run=run
    )


def hear(tx: Transaction, run: str) -> list[Row]:
    """The instructions of a run whose words its agent's thread does not hold yet; each is given out once."""
    rows = tx.all(
        """update instruction set heard = 1
            where project = :project and run = :run and state = 'running' and heard = 0 returning *""",
        run=run,
    )
    return sorted(rows, key=lambda row: int(row["ord"]))


def put_back(
    tx: Transaction,
    run: str,
    *,
    preempted: bool = False,
    failed: bool = False,
    not_before: int = 0,
    waits_since: int | None = None,
    ageing: Ageing | None = None,
) -> None:
    """Put the work of a run back into its lane, with its completed steps; pushed aside often enough, it goes one lane
    up.

    With `waits_since` it waits for its model, since then if it did not before, and goes on in the same run.
    """
    tx.run(
        """update instruction
              set state = 'queued', not_before = :not_before,
                  run = case when cast(:waits_since as bigint) is null then null else run end,
                  waits_since = coalesce(waits_since, :waits_since),
                  failures = failures + :failed,
                  lane = case when :preempted = 1 and preempted + 1 >= :up and lane > 0 then lane - 1 else lane end,
                  preempted = case when :preempted = 1 and preempted + 1 >= :up then 0
                                   else preempted + :preempted end
            where project = :project and run = :run and state = 'running'""",
        run=run,
        preempted=int(preempted),
        failed=int(failed),
        not_before=not_before,
        waits_since=waits_since,
        up=(ageing or Ageing()).up_after_preemptions,
    )


def begin_wait(tx: Transaction, id: str, *, now: int) -> None:
    """Note that queued work waits for its model from now on, unless it does already."""
    tx.run(
        """update instruction set waits_since = :now
            where project = :project and id = :id and state = 'queued' and waits_since is null""",
        id=id,
        now=now,
    )


def end_wait(tx: Transaction, run: str) -> None:
    """Note that work no longer waits for its model, which has answered."""
    tx.run("update instruction set waits_since = null where project = :project and run = :run", run=run)


def set_waiting(tx: Transaction, run: str) -> None:
    tx.run(
        """update instruction set state = 'waiting', run = null
            where project = :project and run = :run and state = 'running'""",
        run=run,
    )


def announce(tx: Transaction, agent: str) -> None:
    """Tell again that there is work for this agent."""
    row = tx.one(
        "select * from instruction where project = :project and agent = :agent and state = 'queued' limit 1",
        agent=agent,
    )
    if row:
        tx.tell(Queued(workspace=row["workspace"], agent=agent, instruction=row["id"], lane=row["lane"]))


def wake(tx: Transaction, work: str) -> None:
    """Queue work again that waited for a person, at its old place."""
    rows = tx.all(
        """update instruction set state = 'queued'
            where project = :project and work = :work and state = 'waiting' returning *""",
        work=work,
    )
    for row in rows:
        tx.tell(Queued(workspace=row["workspace"], agent=row["agent"], instruction=row["id"], lane=row["lane"]))


def end(tx: Transaction, run: str, state: End, *, reason: str = "", now: int) -> None:
    """End all instructions of the run in the same way."""
    tx.run(
        """update instruction set state = :state, reason = :reason, ended_at = :now
            where project = :project and run = :run and state = 'running'""",
        run=run,
        state=state,
        reason=reason,
        now=now,
    )


def end_one(tx: Transaction, id: str, state: End, *, reason: str, now: int) -> None:
    """End one instruction, whatever becomes of those it shares a run with."""
    tx.run(
        """update instruction set state = :state, reason = :reason, ended_at = :now
            where project = :project and id = :id and state in ('queued', 'running', 'waiting')""",
        id=id,
        state=state,
        reason=reason,
        now=now,
    )
    run_rows.end_waiting(tx, id, state, reason=reason, now=now)


def refuse(tx: Transaction, run: str, *, reason: str) -> None:
    """Let the work of a run count as failed after all, because its answer is not what was asked
    for; so does the run.
    """
    tx.run(
        """update instruction set state = 'failed', reason = :reason
            where project = :project and run = :run and state = 'done'""",
        run=run,
        reason=reason,
    )
    run_rows.refuse(tx, run, reason=reason)


def forget(tx: Transaction, agent: str) -> None:
    """Forget what a deleted agent read and wrote. That it ran, and when, stays for whoever counts costs."""
    tx.run("delete from instruction where project = :project and agent = :agent", agent=agent)
    run_rows.forget_texts(tx, agent)


def hold_back(tx: Transaction, run: str) -> list[str]:
    """Mark a run as taken back; returns the open work that would go on from it."""
    run_rows.take_back(tx, run)
    rows = tx.all(
        """select i.id from run r join instruction lead on lead.project = :project and lead.id = r.instruction
             join instruction i on i.project = :project and i.agent = r.agent
              and i.state in ('queued', 'running', 'waiting') and i.work = lead.work
            where r.project = :project and r.id = :run""",
        run=run,
    )
    return [row["id"] for row in rows]


#: All instructions of a workspace, by two indexes: it may be a small part of what is stored.
OF_WORKSPACE = """
select id from instruction where project = :project and workspace = :workspace and ended_at is not null
union all
select id from instruction
 where project = :project and workspace = :workspace and state in ('queued', 'running', 'waiting')"""


def forget_workspace(tx: Transaction, workspace: str) -> None:
    """Forget what was worked on here. Its steps go before: they are found by it."""
    run_rows.forget_workspace(tx, workspace)
    tx.run(f"delete from instruction where project = :project and id in ({OF_WORKSPACE})", workspace=workspace)
