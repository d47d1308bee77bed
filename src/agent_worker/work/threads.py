"""Threads: what an agent was told and what it answered, per context, in order.

A context is a workspace id, or '' for the agent's personal one. The one writer of tables `thread` and `talk`;
the JSONL files that people read are written from here by workspaces/log_files.py, after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agent_worker.core.events import Talked
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Soon, Transaction

PERSONAL = ""


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    seq: int
    who: str
    text: str
    at: int
    kind: Literal["message", "failure"] = "message"
    run: str | None = None
    held: bool = False  #: taken back by a person

    @classmethod
    def of(cls, row: Row) -> ThreadEntry:
        return cls(row["seq"], row["who"], row["text"], row["at"], row["kind"], row["run"], bool(row["held"]))


def say(
    tx: Transaction,
    agent: str,
    context: str,
    *,
    who: str,
    text: str,
    now: int,
    kind: Literal["message", "failure"] = "message",
    run: str | None = None,
) -> int:
    row = tx.one(
        """insert into thread(project, agent, context, seq) values (:project, :agent, :context, 1)
           on conflict (project, agent, context) do update set seq = thread.seq + 1 returning seq""",
        agent=agent,
        context=context,
    )
    assert row is not None
    tx.run(
        """insert into talk(project, agent, context, seq, who, kind, text, run, at)
           values (:project, :agent, :context, :seq, :who, :kind, :text, :run, :now)""",
        agent=agent,
        context=context,
        seq=row["seq"],
        who=who,
        kind=kind,
        text=text,
        run=run,
        now=now,
    )
    tx.tell(Talked(workspace=context or None, agent=agent))
    return int(row["seq"])


def recent(tx: Transaction, agent: str, context: str, count: int, *, with_held: bool = False) -> list[ThreadEntry]:
    """The last lines of a thread, oldest first: none that a person has put aside."""
    rows = tx.all(
        """select * from talk
            where project = :project and agent = :agent and context = :context and held <= :held
              and seq > coalesce((select cleared from thread
                                   where project = :project and agent = :agent and context = :context), 0)
            order by seq desc limit :count""",
        agent=agent,
        context=context,
        held=int(with_held),
        count=count,
    )
    return [ThreadEntry.of(row) for row in reversed(rows)]


def told_soon(tx: Transaction, agent: str, context: str, count: int) -> Soon[list[Row]]:
    """What a prompt repeats of a thread: the last lines, the newest first, and whether the run that said one read from
    outside.
    """
    return tx.all_soon(
        """select t.who, t.kind, t.text, t.run,
                  (select r.outside from run r where r.project = :project and r.id = t.run) as outside
             from talk t
            where t.project = :project and t.agent = :agent and t.context = :context and t.held = 0
              and t.seq > coalesce((select cleared from thread
                                     where project = :project and agent = :agent and context = :context), 0)
            order by t.seq desc limit :count""",
        agent=agent,
        context=context,
        count=count,
    )


def clear(tx: Transaction, agent: str, context: str) -> None:
    """Put aside what was said so far: the conversation begins afresh. It can still be looked up."""
    tx.run(
        "update thread set cleared = seq where project = :project and agent = :agent and context = :context",
        agent=agent,
        context=context,
    )


def before(
    tx: Transaction, agent: str, context: str, seq: int | None, count: int, *, with_held: bool = False
) -> list[ThreadEntry]:
    """The lines before a seq (None: the end), oldest first. What was taken back is only for people."""
    rows = tx.all(
        """select * from talk
            where project = :project and agent = :agent and context = :context and seq < :seq and held <= :held
            order by seq desc limit :count""",
        agent=agent,
        context=context,
        seq=seq if seq is not None else 2**62,
        held=int(with_held),
        count=count,
    )
    return [ThreadEntry.of(row) for row in reversed(rows)]


def between(tx: Transaction, agent: str, context: str, first: int, last: int, count: int) -> list[ThreadEntry]:
    """The first lines of what was said from one time on and before another, oldest first."""
    rows = tx.all(
        """select * from talk
            where project = :project and agent = :agent and context = :context and held = 0
              and at >= :first and at < :last
            order by seq limit :count""",
        agent=agent,
        context=context,
        first=first,
        last=last,
        count=count,
    )
    return [ThreadEntry.of(row) for row in rows]


def since(
    tx: Transaction, agent: str, context: str, seq: int, *, limit: int = 500, with_held: bool = False
) -> list[ThreadEntry]:
    """The lines after a seq, oldest first. What was taken back is only for people."""
    rows = tx.all(
        """select * from talk
            where project = :project and agent = :agent and context = :context and seq > :seq and held <= :held
            order by seq limit :limit""",
        agent=agent,
        context=context,
        seq=seq,
        held=int(with_held),
        limit=limit,
    )
    return [ThreadEntry.of(row) for row in rows]


def hold_back(tx: Transaction, agent: str, *, at: int = 0, run: str | None = None) -> list[Row]:
    """Hide from agents what was said from a time on, or in one run; people still see it. Context and seq of each
    line."""
    return tx.all(
        """update talk set held = 1
            where project = :project and agent = :agent and held = 0 and at >= :at
              and (cast(:run as text) is null or run = :run) returning context, seq""",
        agent=agent,
        at=at,
        run=run,
    )


def take_over(tx: Transaction, before: str, agent: str) -> None:
    """Give the direct conversation of one agent to another, who has none yet."""
    given = {"agent": agent, "before": before, "context": PERSONAL}
    tx.run(
        """update talk set agent = :agent, run = null
            where project = :project and agent = :before and context = :context""",
        **given,
    )
    tx.run(
        "update thread set agent = :agent where project = :project and agent = :before and context = :context", **given
    )
    tx.tell(Talked(workspace=None, agent=agent))


def forget(tx: Transaction, agent: str) -> None:
    """Forget everything that an agent was told and said that is gone."""
    tx.run("delete from talk where project = :project and agent = :agent", agent=agent)
    tx.run("delete from thread where project = :project and agent = :agent", agent=agent)


def last_seq(tx: Transaction, agent: str, context: str) -> int:
    row = tx.one(
        "select seq from thread where project = :project and agent = :agent and context = :context",
        agent=agent,
        context=context,
    )
    return int(row["seq"]) if row else 0


def last_seqs(tx: Transaction, context: str) -> dict[str, int]:
    """How far the threads of all agents go in this context, by agent."""
    rows = tx.all("select agent, seq from thread where project = :project and context = :context", context=context)
    return {row["agent"]: int(row["seq"]) for row in rows}


def restore(tx: Transaction, agent: str, context: str, talk: Sequence[ThreadEntry], *, seq: int) -> None:
    """Take over the history that an agent's folder brought from elsewhere: its last lines, and the count up to this
    seq.
    """
    for line in talk:
        tx.run(
            """insert into talk(project, agent, context, seq, who, kind, text, run, at)
               values (:project, :agent, :context, :seq, :who, :kind, :text, null, :at)
               on conflict (project, agent, context, seq) do nothing""",
            agent=agent,
            context=context,
            seq=line.seq,
            who=line.who,
            kind=line.kind,
            text=line.text,
            at=line.at,
        )
    tx.run(
        """insert into thread(project, agent, context, seq) values (:project, :agent, :context, :seq)
           on conflict (project, agent, context) do update set seq = :seq where thread.seq < :seq""",
        agent=agent,
        context=context,
        seq=seq,
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run(
        """delete from talk where project = :project and context = :workspace
            and agent in (select agent from thread where project = :project and context = :workspace)""",
        workspace=workspace,
    )
    tx.run("delete from thread where project = :project and context = :workspace", workspace=workspace)
