"""An agent goes, with everything that was said to it and done by it: nothing is left for the next one of its name.

What stays is others': messages it posted in a team's channel, documents it wrote there, what colleagues remember. The
ledger and the audit stay too, as numbers, times and names; their words go. Older backups are not reached.
"""

from __future__ import annotations

from agent_worker.agents import commands
from agent_worker.database import event_rows
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.memory import audit, personal_rows
from agent_worker.schedules import schedule
from agent_worker.work import agent_rows, inbox, project_rows, queue, sent_texts, steps, threads
from agent_worker.workspaces import deliveries, workspace_state

DELETED = "its agent was deleted"  #: why work was cancelled of which nothing is left


def cancel_all(tx: Transaction, agent: str, *, now: int) -> None:
    """Cancel all work of an agent, and whatever would wake it."""
    for row in tx.all(
        """select id from instruction
            where project = :project and agent = :agent and state in ('queued', 'running', 'waiting')""",
        agent=agent,
    ):
        commands.cancel(tx, row["id"], reason=DELETED, now=now)
    schedule.clear_agent(tx, agent)


def erase(tx: Transaction, me: Row, *, who: str = "user", now: int) -> None:
    """Erase every row that is this agent's own. Its loop must have ended before."""
    agent = me["id"]
    schedule.clear_agent(tx, agent)
    event_rows.forget_agent(tx, agent, inbox.forget(tx, agent))
    threads.forget(tx, agent)
    personal_rows.forget(tx, agent)
    steps.forget(tx, agent)
    sent_texts.forget(tx, agent)
    queue.forget(tx, agent)
    deliveries.forget(tx, agent)
    workspace_state.unseat(tx, agent)
    audit.forget_words(tx, agent=agent, who=who, now=now)
    agent_rows.forget(tx, agent)


def erase_quick(tx: WholeTransaction, host: str, *, now: int) -> list[Row]:
    """Erase the agents without a file, which end with their daemon, however that ended; returns their rows."""
    gone = [me for project in project_rows.ids(tx) for me in agent_rows.quick(tx.of(project), host)]
    for me in gone:
        erase(tx.of(me["project"]), me, who="agent-worker", now=now)
    return gone
