"""The table of events: what streams are told again when they come back. Written with each commit, kept for a while.

The writer of the database stores them and drops the oldest; the others only take out what shall be forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from agent_worker.core.events import Event, Posted, as_event
from agent_worker.database.database import Row, Transaction

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
CHANNEL = "agent_worker"  #: on which hosts are told the number of the last event: only a hint to look
NOTIFY = f"select pg_notify('{CHANNEL}', :last)"
LAST_NUMBER = "select numbered from event_count"
#: What other hosts have told, with the messages that the records leave out.
TOLD_BY_OTHERS = """
select e.id as number, e.project, e.workspace, e.record, m.seq, m.id, m.sender, m.text, m.kind, m.mentions,
       m.proposal, m.resource
  from event e left join message m on m.project = e.project and m.workspace = e.workspace and m.seq = e.seq
 where e.id > :after and e.id < :before order by e.id limit :most"""


def of_another_host(row: Row) -> Event | None:
    """The event that this row of `TOLD_BY_OTHERS` is about; None when there is nothing left to tell."""
    record = json.loads(row["record"])
    if record["event"] == Posted.event:
        if row["seq"] is None:
            return None  # its workspace was erased meanwhile
        record |= row | {"mentions": json.loads(row["mentions"])}
    return as_event(record, number=row["number"])


def as_row(event: Event, *, at: int) -> tuple[object, ...]:
    """The values of an event for `STORE`."""
    seq = event.seq if isinstance(event, Posted) else None
    return event.number, event.project, event.workspace, seq, event.as_stored(), at


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from event where project = :project and workspace = :workspace", workspace=workspace)


def forget_agent(tx: Transaction, agent: str, asked: Iterable[str]) -> None:
    """Forget what streams were told of an agent and of what it asked a person; some of that is what it said."""
    tx.run("delete from event where project = :project and record like :about", about=f'%"agent": "{agent}"%')
    for id in asked:
        tx.run("delete from event where project = :project and record like :about", about=f'%"id": "{id}"%')
