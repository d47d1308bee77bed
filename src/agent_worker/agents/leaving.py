"""An agent goes, with everything that was said to it and done by it: nothing is left for the next one of its name.

What stays is others': messages it posted in a team's channel, documents it wrote there, what colleagues remember. The
ledger and the audit stay too, as numbers, times and names; their words go. Older backups are not reached.
"""

from __future__ import annotations

from agent_worker import attention, identities, instructions, steps, threads
from agent_worker.agents import rescue, schedule
from agent_worker.guard import audit
from agent_worker.storage.database import Row, Transaction
from agent_worker.workspaces import inbox, workspace


def cancel_all(tx: Transaction, agent: str, *, now: int) -> None:
    """No work of it goes on, and nothing wakes it."""
    for row in tx.all(
        "select id from instruction where agent = :agent and state in ('queued', 'running', 'waiting')", agent=agent
    ):
        rescue.cancel(tx, row["id"], reason="its agent was deleted", now=now)
    schedule.clear_agent(tx, agent)


def erase(tx: Transaction, me: Row, *, who: str = "user", now: int) -> None:
    """Every row that is this agent's own. Its loop has ended before."""
    agent = me["id"]
    schedule.clear_agent(tx, agent)
    _forget_events(tx, agent, attention.forget(tx, agent))
    threads.forget(tx, agent)
    steps.forget(tx, agent)
    instructions.forget(tx, agent)
    inbox.forget(tx, agent)
    workspace.unseat(tx, agent)
    audit.forget_words(tx, project=me["project"], agent=agent, who=who, now=now)
    identities.forget(tx, agent)


def erase_quick(tx: Transaction, *, now: int) -> list[Row]:
    """Agents without a file end with the daemon, however that ended. Who they were."""
    gone = identities.quick(tx)
    for me in gone:
        erase(tx, me, who="agent-worker", now=now)
    return gone


def _forget_events(tx: Transaction, agent: str, asked: list[str]) -> None:
    """What streams were told of it; some of that is what it said."""
    tx.run("delete from event where record like :about", about=f'%"agent": "{agent}"%')
    for id in asked:
        tx.run("delete from event where record like :about", about=f'%"id": "{id}"%')
