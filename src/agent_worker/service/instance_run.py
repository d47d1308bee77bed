"""An instance of a workflow, followed until it has ended, rests at a limit, or waits for the person.

Unlike what `run` follows, it is not stopped when nobody follows it any more, and it may be taken up after it has ended:
what came of it is read from what it left in the database.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.database.database import Row, Transaction
from agent_worker.service.events import EventRecord, Filter, Follower
from agent_worker.service.followed import Followed, Served, UsageTotals, listening, waiting_for
from agent_worker.service.service import Service
from agent_worker.work import inbox, open_work
from agent_worker.workflows.quiet import kept_by
from agent_worker.workflows.summary import Summary, summarise
from agent_worker.workspaces import deliveries, member_rows
from agent_worker.workspaces.resources import whole_text

FORGOTTEN = "it has ended, and its workspace keeps nothing (provider: memory)"


async def take_up_instance(service: Service, loaded: LoadedProject, id: str) -> Followed:
    """Follow an instance by the id of its workspace. It may be over."""
    follower, (row, woke) = await listening(service, partial(service.read, loaded, _begun, id))
    follower.narrow(Filter(workspace=id))
    made = InstanceRun(service, loaded, follower, row, woke)
    made.may_be_over = True
    return made


class InstanceRun(Followed):
    def __init__(self, service: Service, loaded: LoadedProject, follower: Follower, row: Row, woke: list[str]) -> None:
        super().__init__(service, follower)
        self._database = service.database(loaded)
        self._id: str = row["id"]
        self._woke = woke  # whom its first words called on
        self._content = ""  # of one that keeps nothing, what was heard

    def begun(self) -> dict[str, Any]:
        return {"workflow": self._id, "woke": self._woke}

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "message" and (record := told.record())["sender"] not in ("user", "system"):
            self._content = str(record["text"])
        return told.kind != "queued"

    async def _is_over(self) -> bool:
        row = await self._database.read(_instance, self._id)
        if row["state"] not in ("running", "left"):
            return True
        return bool(await self._database.read(kept_by, self._id)) or (self.leaves_when_asked and await self._rests())

    async def _rests(self) -> bool:
        """Whether it can only go on with the person's word: all its work waits for that, or all but a vote is done."""
        rows = await self._database.read(open_work.open_in, self._id)
        if not rows:
            return bool(await self._database.read(inbox.asked_in, self._id))
        return all(
            row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(row["agent"])) for row in rows
        )

    async def _conclude(self) -> Served | AgentWorkerError:
        row = await self._database.read(_instance, self._id)
        if row["provider"] == "memory" and row["state"] == "archived":
            return Served(self._content, self._tools, reason=FORGOTTEN)
        content, summary = await self._database.read(_came_of, row)
        usage = UsageTotals(summary.input, summary.output, summary.usd, summary.estimated)
        if row["state"] in ("running", "left") and await self._rests():
            items = await self._database.read(inbox.asked_in, self._id)
            members = await self._database.read(member_rows.members_in, self._id)
            keys = [self._lacks_key(agent) for agent in members.values()]
            return waiting_for(items, keys, self._tools, usage, content)
        return Served(content, self._tools, usage, summary.outcome, summary.reason, summary)


def _begun(tx: Transaction, id: str) -> tuple[Row, list[str]]:
    row = _instance(tx, id)
    return row, deliveries.called_on_first(tx, id, since=row["started_at"])


def _instance(tx: Transaction, id: str) -> Row:
    row = tx.one("select * from workspace where project = :project and id = :id", id=id)
    if row is None:
        raise NotFound(f"there is no instance {id}", hint="agent-worker ls")
    return row


def _came_of(tx: Transaction, row: Row) -> tuple[str, Summary]:
    """The last word of a member, and the summary."""
    last = tx.one(
        """select seq from message
            where project = :project and workspace = :workspace and at >= :since and held = 0
              and sender not in ('user', 'system')
            order by seq desc limit 1""",
        workspace=row["id"],
        since=row["started_at"],
    )
    stopped = tx.one(  # what was cancelled in the moment of its end was not done: somebody stopped it
        """select reason from instruction
            where project = :project and workspace = :workspace and state = 'cancelled' and ended_at = :ended
            limit 1""",
        workspace=row["id"],
        ended=row["ended_at"] if row["ended_at"] is not None else -1,
    )
    content = whole_text(tx, row["id"], last["seq"]) if last else ""
    return content, summarise(tx, row["id"], row["started_at"], stopped["reason"] if stopped else "")
