"""Webhooks that were accepted: each once, and what becomes of it. The one writer of table `hook_delivery`.

A delivery is known by the id its sender gave it and, where that is not signed, by its body too: whoever caught one
cannot have it done again. An old one is forgotten when the next comes. What is to be started is written here in one
transaction with its acceptance, and started by service/hook_starter.py. A newer one of the same tag takes the place of
one that still waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from agent_worker.core.errors import AgentWorkerError
from agent_worker.core.events import HookAccepted
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction

_HOUR = 3600 * 1_000_000
_DAY = 24 * _HOUR
_KNOWN = 365  # days for which one is known again, at most
_SWEPT = 20  # of the oldest of a project that are looked at when the next comes


class TooManyDeliveries(AgentWorkerError):
    code = "too_many"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    workflow: str
    trigger: str
    delivery: str  #: SHA-256 of the sender's id for it
    body: str  #: SHA-256 of what makes it the same delivery under another id
    params: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""  #: of its group; '' for one of its own
    per_hour: int = 60
    known_days: int = _KNOWN  #: for so long it is known again; what brings its own time is soon too old to be taken


def known(tx: Transaction, new: NewDelivery) -> Row | None:
    """The first delivery with this id or this body, if one has arrived before."""
    return tx.one(
        """select * from hook_delivery
            where project = :project and workflow = :workflow and name = :name
              and (delivery = :delivery or body = :body) order by at limit 1""",
        workflow=new.workflow,
        name=new.trigger,
        delivery=new.delivery,
        body=new.body,
    )


def add(tx: Transaction, new: NewDelivery, state: Literal["queued", "said"], *, now: int) -> str:
    """Keep a delivery that was not known; returns its tag. Raises TooManyDeliveries."""
    count = tx.one(
        """select count(*) as n from hook_delivery
            where project = :project and workflow = :workflow and name = :name and at > :since""",
        workflow=new.workflow,
        name=new.trigger,
        since=now - _HOUR,
    )
    if count and count["n"] >= new.per_hour:
        told = f"{new.workflow} takes {new.per_hour} webhooks an hour through {new.trigger}, and has had that many"
        raise TooManyDeliveries(told, hint="send it again later, or raise per_hour of the trigger")
    tx.run(
        """delete from hook_delivery
            where project = :project and workflow = :workflow and name = :name and at < :before
              and state not in ('queued', 'starting')""",
        workflow=new.workflow,
        name=new.trigger,
        before=now - new.known_days * _DAY,
    )
    tx.run(  # those of a trigger that is gone have no next
        """delete from hook_delivery
            where project = :project and at < :before and state not in ('queued', 'starting')
              and id in (select id from hook_delivery where project = :project order by id limit :swept)""",
        before=now - _KNOWN * _DAY,
        swept=_SWEPT,
    )
    if new.tag and state == "queued":
        tx.run(
            """update hook_delivery set state = 'superseded', params = '{}'
                where project = :project and workflow = :workflow and tag = :tag and state = 'queued'""",
            workflow=new.workflow,
            tag=new.tag,
        )
    id = new_id("h")
    tag = new.tag or id
    tx.run(
        """insert into hook_delivery(project, id, workflow, name, delivery, body, tag, params, state, at)
           values (:project, :id, :workflow, :name, :delivery, :body, :tag, :params, :state, :now)""",
        id=id,
        workflow=new.workflow,
        name=new.trigger,
        delivery=new.delivery,
        body=new.body,
        tag=tag,
        params=json.dumps(new.params),
        state=state,
        now=now,
    )
    tx.tell(HookAccepted())
    return tag


def queued(tx: WholeTransaction) -> list[Row]:
    """What waits to be started, of all projects that are here, oldest first."""
    return tx.all(
        """select h.*, c.root from hook_delivery h join checkout c on c.project = h.project and c.host = :here
            where h.state = 'queued' order by h.at, h.id"""
    )


def claim(tx: Transaction, id: str, host: str, *, now: int) -> bool:
    """Take a delivery that is about to be started; False when a newer one has taken its place."""
    changed = tx.changed(
        """update hook_delivery set state = 'starting', started_at = :now, host = :host
            where project = :project and id = :id and state = 'queued'""",
        id=id,
        host=host,
        now=now,
    )
    return bool(changed)


def started(tx: Transaction, id: str) -> None:
    _settle(tx, id, "started", "")


def failed(tx: Transaction, id: str, reason: str) -> None:
    tx.run(
        "update hook_delivery set state = 'failed', reason = :reason where project = :project and id = :id",
        id=id,
        reason=reason,
    )


def again(tx: Transaction, id: str) -> bool:
    """The person has one that failed tried again; False when there is none of this id."""
    changed = tx.changed(
        "update hook_delivery set state = 'queued' where project = :project and id = :id and state = 'failed'", id=id
    )
    if changed:
        tx.tell(HookAccepted())
    return bool(changed)


def take_up(tx: WholeTransaction, given_up: str = "") -> None:
    """Settle the deliveries that a process was starting which is gone, and one that a process has `given_up`: begun if
    the workspace was opened since, else queued again.
    """
    for row in tx.all(
        """select * from hook_delivery where state = 'starting'
              and (id = :given_up or not exists (select 1 from host h where h.id = hook_delivery.host))""",
        given_up=given_up,
    ):
        mine = tx.of(row["project"])
        opened = mine.one(
            """select id from workspace
                where project = :project and workflow = :workflow and tag = :tag and started_at >= :since""",
            workflow=row["workflow"],
            tag=row["tag"],
            since=row["started_at"],
        )
        if opened:
            _settle(mine, row["id"], "started", "")
        else:
            mine.run("update hook_delivery set state = 'queued' where project = :project and id = :id", id=row["id"])


def _settle(tx: Transaction, id: str, state: str, reason: str) -> None:
    """Close a delivery: what it brought is not needed any more, that it came is."""
    tx.run(
        """update hook_delivery set state = :state, reason = :reason, params = '{}'
            where project = :project and id = :id""",
        id=id,
        state=state,
        reason=reason,
    )


def params_of(row: Row) -> dict[str, str]:
    found: dict[str, Any] = json.loads(row["params"])
    return {name: str(value) for name, value in found.items()}
