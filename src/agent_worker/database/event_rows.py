"""The table of events: what streams are told again when they come back. Written with each commit, kept for a while.

The writer of the database stores them and drops the oldest; the others only take out what shall be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_worker.core.events import Event, Posted
from agent_worker.database.database import Transaction

STORE = "insert into event(id, project, workspace, seq, record, at) values (?, ?, ?, ?, ?, ?)"
DROP_UP_TO = "delete from event where id <= ?"

#: For PostgreSQL, where several hosts write: the next numbers are taken at the end of a commit, which waits its turn.
STORE_NUMBERED = """
with last as (update event_count set numbered = numbered + $1 returning numbered)
insert into event(id, project, workspace, seq, record, at)
select last.numbered - $1 + e.place, e.project, e.workspace, e.seq, e.record, e.at
  from last, unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])
       with ordinality as e(project, workspace, seq, record, at, place)
returning id"""
DROP_NUMBERED = "delete from event where id <= $1"
OF_TRANSACTION = "select id from event where xmin::text::bigint = mod($1::numeric, 4294967296)"


def as_row(event: Event, *, at: int) -> tuple[object, ...]:
    """The values for `STORE`."""
    seq = event.seq if isinstance(event, Posted) else None
    return event.number, event.project, event.workspace, seq, event.as_stored(), at


def as_columns(rows: Sequence[tuple[object, ...]]) -> list[object]:
    """The values for `STORE_NUMBERED`, of rows that have no number yet."""
    _, *columns = zip(*rows, strict=True)
    return [len(rows), *map(list, columns)]


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from event where project = :project and workspace = :workspace", workspace=workspace)


def forget_agent(tx: Transaction, agent: str, asked: Iterable[str]) -> None:
    """Forget what streams were told of an agent and of what it asked a person; some of that is what it said."""
    tx.run("delete from event where project = :project and record like :about", about=f'%"agent": "{agent}"%')
    for id in asked:
        tx.run("delete from event where project = :project and record like :about", about=f'%"id": "{id}"%')
