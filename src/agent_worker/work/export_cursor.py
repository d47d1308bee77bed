"""How far what happened was handed to programs that watch. The one writer of table `export_cursor`."""

from __future__ import annotations

from agent_worker.database.database import WholeTransaction


def reached(tx: WholeTransaction, name: str) -> int | None:
    """The last event that was handed over; None when nothing ever was."""
    row = tx.one("select event from export_cursor where name = :name", name=name)
    return int(row["event"]) if row else None


def move(tx: WholeTransaction, name: str, event: int) -> None:
    tx.run(
        """insert into export_cursor(name, event) values (:name, :event)
           on conflict (name) do update set event = :event""",
        name=name,
        event=event,
    )


def newest(tx: WholeTransaction) -> int:
    """The last event that there is."""
    row = tx.one("select max(id) as id from event")
    return int(row["id"] or 0) if row else 0
