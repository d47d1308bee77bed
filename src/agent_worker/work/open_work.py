"""Looking at work: what is open, where it went, what came before it. Reads `instruction` and `run`, writes neither."""

from __future__ import annotations

from agent_worker.database.database import Row, Transaction
from agent_worker.work.queue import Instruction

#: Queued for an agent that takes no work, or none of this workspace, until a person lets it.
HELD = """
 i.state = 'queued' and (a.paused <> '' or a.state = 'stopped' or a.state = 'error' and exists (
   select 1 from inbox_item t
    where t.project = :project and t.kind = 'failure' and t.state = 'open' and t.ref = a.id)
  or exists (
   select 1 from member m
    where m.project = :project and m.workspace = i.workspace and m.agent = i.agent and m.away <> ''))"""


def last_incomplete(tx: Transaction, agent: str, workspace: str | None) -> str | None:
    """The newest ended instruction in a context, if it ended incomplete; with anything after it, it would be another
    matter.
    """
    row = tx.one(
        """select i.id, i.state, coalesce(r.held, 0) as held
             from instruction i left join run r on r.project = :project and r.id = i.run
            where i.project = :project and i.agent = :agent and coalesce(i.workspace, '') = :workspace
              and i.ended_at is not null
            order by i.ord desc limit 1""",
        agent=agent,
        workspace=workspace or "",
    )
    return row["id"] if row and row["state"] == "incomplete" and not row["held"] else None


def goes_on(tx: Transaction, row: Row) -> bool:
    """Whether the work of an instruction has been continued already."""
    later = tx.one(
        """select 1 as one from instruction
            where project = :project and work = :work and work <> id and ord > :ord limit 1""",
        work=row["work"],
        ord=row["ord"],
    )
    return later is not None


def is_same_matter(tx: Transaction, work: Instruction, id: str) -> bool:
    """Whether an instruction that has ended was about what this one is: it is continued by it, or asked again."""
    row = tx.one("select work, workspace, text from instruction where project = :project and id = :id", id=id)
    if row is None:
        return False
    return row["work"] == work.work or (row["workspace"], row["text"]) == (work.workspace, work.text)


def ended_with(tx: Transaction, row: Row) -> list[Row]:
    """The others that were part of its last run and ended like it."""
    return tx.all(
        """select * from instruction
            where project = :project and run = :run and state = :state and id <> :id order by ord""",
        run=row["run"],
        state=row["state"],
        id=row["id"],
    )


def queued_for(tx: Transaction, agent: str, message: str) -> list[Row]:
    """What this message has queued for an agent and nobody has taken."""
    return tx.all(
        """select id from instruction
            where project = :project and agent = :agent and state = 'queued' and message = :message""",
        agent=agent,
        message=message,
    )


def open_work(tx: Transaction, limit: int) -> list[Row]:
    """What is not over, with the name of whom it is for, the oldest first."""
    return tx.all(
        """select i.*, a.name from instruction i join agent a on a.project = :project and a.id = i.agent
            where i.project = :project and i.state in ('queued', 'running', 'waiting')
            order by i.queued_at, i.id limit :limit""",
        limit=limit,
    )


def trace(tx: Transaction, id: str) -> list[Row]:
    """Where a direct message went: to whom, its state, and the run it is or was last part of."""
    return tx.all(
        """select a.name, i.state, coalesce(i.run, (
                    select r.id from run r where r.project = :project and r.instruction = i.id
                     order by r.started_at desc, r.id desc limit 1)) as run
             from instruction i join agent a on a.project = :project and a.id = i.agent
            where i.project = :project and i.id = :id""",
        id=id,
    )


def any_queued(tx: Transaction, agent: str) -> bool:
    return bool(
        tx.one(
            "select 1 as one from instruction where project = :project and agent = :agent and state = 'queued' limit 1",
            agent=agent,
        )
    )


def going_on(tx: Transaction, workspace: str) -> bool:
    """Whether work of a workspace is under way, or will be without a person who lets it."""
    row = tx.one(
        f"""select 1 as one
              from instruction i join workspace w on w.project = :project and w.id = i.workspace
                   join agent a on a.project = :project and a.id = i.agent
             where i.project = :project and i.workspace = :workspace and i.state in ('queued', 'running', 'waiting')
               and (i.state = 'running' or w.paused = '' and not ({HELD})) limit 1""",
        workspace=workspace,
    )
    return row is not None


def open_in(tx: Transaction, workspace: str) -> list[Row]:
    """The agents that have work in a workspace, and the state of each."""
    return tx.all(
        """select distinct agent, state from instruction
            where project = :project and workspace = :workspace and state in ('queued', 'running', 'waiting')""",
        workspace=workspace,
    )


def held(tx: Transaction, workspace: str) -> list[Row]:
    """The names of the agents that have work here and do not take it, each with the reason."""
    return tx.all(
        f"""select distinct a.name, case when a.paused <> '' then a.paused when a.reason <> '' then a.reason
                   else 'a person lets its work here wait' end as reason
              from instruction i join agent a on a.project = :project and a.id = i.agent
             where i.project = :project and i.workspace = :workspace and i.state in ('queued', 'running', 'waiting')
               and {HELD}
             order by a.name""",
        workspace=workspace,
    )


def called_by(tx: Transaction, message: str, workspace: str) -> list[str]:
    """Open work that a message caused."""
    rows = tx.all(
        """select id from instruction
            where project = :project and workspace = :workspace and state in ('queued', 'running', 'waiting')
              and message = :message""",
        workspace=workspace,
        message=message,
    )
    return [row["id"] for row in rows]
