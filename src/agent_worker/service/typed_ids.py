"""Ids as somebody typed them: whole, or how they begin, and without the project they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agent_worker.core.errors import BadInput
from agent_worker.database.database import WholeTransaction
from agent_worker.work import project_rows

_IDS = {  # of each kind, those that begin with what was typed
    "run": "select id from run where project = :project and id >= :id and id < :end",
    "inbox_item": """select id from inbox_item
                      where project = :project and id >= :id and id < :end and state = 'open'""",
    "message": """select distinct message as id from delivery
                   where project = :project and message >= :id and message < :end""",
    "work": "select id from instruction where project = :project and id >= :id and id < :end",
    "unheard": "select id from message where project = :project and id >= :id and id < :end",
    "instance": "select id from workspace where project = :project and id >= :id and id < :end",
}
Kind = Literal["run", "inbox_item", "message", "work", "unheard", "instance"]  #: a message that nobody got is `unheard`


def holding(tx: WholeTransaction, kinds: Sequence[Kind], id: str) -> tuple[str, str]:
    """The project that has a row of one of these kinds with this id, or with an id that begins so; and the whole id.

    Both are empty when there is none.
    """
    end = f"{id}\x7f"  # after every id that begins so
    for kind in kinds:
        found = [
            (project, str(row["id"]))
            for project in project_rows.ids(tx)
            for row in tx.of(project).all(f"{_IDS[kind]} order by 1 limit 9", id=id, end=end)
        ]
        exactly = [each for each in found if each[1] == id] or found
        if len(exactly) > 1:
            ids = ", ".join(each for _, each in exactly[:3])
            hint = "type more of it" + (": agent-worker runs" if kind == "run" else "")
            raise BadInput(f"{id} could be any of {len(exactly)}: {ids} …", hint=hint)
        if exactly:
            return exactly[0]
    return "", ""
