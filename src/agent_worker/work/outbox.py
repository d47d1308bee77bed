"""What the person is still to be told of elsewhere. The one writer of table `outbox`.

An entry is written in the transaction that puts an item into the inbox, so neither is ever there without the other. It
belongs to no sink at first; whoever sends decides by what the person's file says then. It goes with its item.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_worker.database.database import Row, Transaction, WholeTransaction

NEVER = 2**62  #: when what was given up is due
_AT_ONCE = 200


def put(tx: Transaction, item: str, *, now: int) -> None:
    tx.run(
        "insert into outbox(project, item, sink, due_at) values (:project, :item, '', :now)",
        item=item,
        now=now,
    )


def drop(tx: Transaction, item: str) -> None:
    """Remove an item's entries, because the item is settled and nobody needs to hear of it any more."""
    tx.run("delete from outbox where project = :project and item = :item", item=item)


def assign(tx: Transaction, item: str, due: Mapping[str, int]) -> None:
    """Say to which sinks an item goes, and when; to none, and it is told nowhere."""
    gone = tx.changed("delete from outbox where project = :project and item = :item and sink = ''", item=item)
    for sink, at in due.items() if gone else ():
        tx.run(
            """insert into outbox(project, item, sink, due_at) values (:project, :item, :sink, :at)
               on conflict (project, item, sink) do nothing""",
            item=item,
            sink=sink,
            at=at,
        )


def sent(tx: Transaction, item: str, sink: str, *, again: int | None) -> None:
    """Note that a notification was sent. It is sent again at a time, if the item is still open then."""
    if again is None:
        tx.run("delete from outbox where project = :project and item = :item and sink = :sink", item=item, sink=sink)
    else:
        _set(tx, item, sink, tries=0, due_at=again, reason="")


def failed(tx: Transaction, item: str, sink: str, *, tries: int, due_at: int, reason: str) -> None:
    _set(tx, item, sink, tries=tries, due_at=due_at, reason=reason)


def _set(tx: Transaction, item: str, sink: str, *, tries: int, due_at: int, reason: str) -> None:
    tx.run(
        """update outbox set tries = :tries, due_at = :due_at, reason = :reason
            where project = :project and item = :item and sink = :sink""",
        item=item,
        sink=sink,
        tries=tries,
        due_at=due_at,
        reason=reason,
    )


def due(tx: WholeTransaction, *, now: int) -> list[Row]:
    """What is due, of all projects, each with its item and the name of its project."""
    return tx.all(
        """select o.project, o.item, o.sink, o.tries, i.kind, i.text, i.n, i.ref, i.at, i.state, i.details, i.digest,
                  p.name as project_name, a.name as agent, w.workflow, w.tag
             from outbox o
             join project p on p.id = o.project
             left join inbox_item i on i.project = o.project and i.id = o.item
             left join agent a on a.project = o.project and a.id = i.agent
             left join workspace w on w.project = o.project and w.id = i.workspace
            where o.due_at <= :now order by o.due_at, o.item limit :limit""",
        now=now,
        limit=_AT_ONCE,
    )


def next_due(tx: WholeTransaction) -> int | None:
    row = tx.one("select min(due_at) as at from outbox")
    return None if row is None or row["at"] is None or row["at"] >= NEVER else int(row["at"])


def of_project(tx: Transaction) -> list[Row]:
    """What waits to be told, or could not be."""
    return tx.all("select * from outbox where project = :project order by due_at, item, sink")
