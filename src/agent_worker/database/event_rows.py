"""The table of events: what streams are told again when they come back. Written with each commit, kept for a while.

The writer of the database stores them and drops the oldest; the others only take out what shall be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_worker.core.events import Event, Posted
from agent_worker.database.database import Transaction

STORE = "insert into event(id, project, workspace, seq, record, at) values (?, ?, ?, ?, ?, ?)"
DROP_UP_TO = "delete from event where id <= ?"

#: For PostgreSQL, where several may write: the next numbers are taken at the end of a commit, which waits its turn.
TAKE_NUMBERS = "update event_count set numbered = numbered + :n returning numbered"
STORE_NUMBERED = """insert into event(id, project, workspace, seq, record, at)
                    values (:id, :project, :workspace, :seq, :record, :at)"""
NUMBER_ON = (
    "update event_count set numbered = (select coalesce(max(id), 0) from event)"  # what came from elsewhere counts
)
DROP_NUMBERED = "delete from event where id <= :last"


def as_row(event: Event, *, at: int) -> tuple[object, ...]:
    """The values for `STORE`."""
    seq = event.seq if isinstance(event, Posted) else None
    return event.number, event.project, event.workspace, seq, event.as_stored(), at


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from event where project = :project and workspace = :workspace", workspace=workspace)


def forget_agent(tx: Transaction, agent: str, asked: Iterable[str]) -> None:
    """Forget what streams were told of an agent and of what it asked a person; some of that is what it said."""
    tx.run("delete from event where project = :project and record like :about", about=f'%"agent": "{agent}"%')
    for id in asked:
        tx.run("delete from event where project = :project and record like :about", about=f'%"id": "{id}"%')
