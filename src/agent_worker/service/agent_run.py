"""A message to one agent, followed until what it asked for is done.

Above: run.py gives it, tickets.py takes it up again. Work goes on whether anybody follows it or not.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, replace
from functools import partial

from agent_worker.agents.deletion import DELETED
from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import Address
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Permanent, Refused
from agent_worker.database.database import Row, Transaction
from agent_worker.service.events import EventRecord, Filter, Follower
from agent_worker.service.followed import STOPPING, Followed, Served, UsageTotals, listening, waiting_for
from agent_worker.service.messages import ENDS, agent_id, as_before, hand_over
from agent_worker.service.operation import StreamItem
from agent_worker.service.service import Service
from agent_worker.work import agent_rows, inbox
from agent_worker.workspaces import routing
from agent_worker.workspaces.carried_root import CarriedRoot

#: What is asked of the person, which names no agent.
_ASKED = frozenset({"inbox", "settled"})
#: What may come of work that whoever only waits for its end has to hear.
_ENDS_IT = frozenset({"ended", "agent", "waiting", *_ASKED})
_OF_A_RUN = frozenset({"started", "chunk", "tool_call", "tool_result", "step", "retry", "ended"})


async def ask_and_follow(
    service: Service, loaded: LoadedProject, to: str, message: str, *, key: str | None, cause: CarriedRoot | None = None
) -> Followed:
    address = await service.address(loaded, to)
    if key is not None and address.workspace is not None:
        raise BadInput(
            f"{to} is in a workspace: a key is only for a direct question", hint=f"ask {address.agent} directly"
        )
    routing.check_size(message)
    put = partial(service.write, loaded, _put, loaded, address, message, now=service.now(), key=key, cause=cause)
    known = None if address.workspace else agent_id(loaded, address.agent or "")
    follower, work = await listening(service, put, wanted=_about(loaded, known))
    if known is None:
        follower.narrow(_about(loaded, work["agent"]))
    made = AgentRun(service, loaded, follower, work)
    made.may_be_over = work["state"] != "queued"  # of an earlier question with this key
    return made


def _about(loaded: LoadedProject, agent: str | None) -> Filter:
    """The filter for events that may be part of an agent's work or end it: whoever asks does not pay for what others
    do.
    """
    return Filter(project=loaded.id, agent=agent, anybodys=_ASKED)


class AgentRun(Followed):
    def __init__(self, service: Service, loaded: LoadedProject, follower: Follower, work: Row) -> None:
        super().__init__(service, follower)
        self._loaded = loaded
        self._database = service.database(loaded)
        self._work = work
        self._came: tuple[Row, UsageTotals] | None = None  # what had come of it when it was seen to be over
        self._runs: dict[str, bool] = {}  # whether a run is at our work

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        wait = self._service.runtime.supervisor.waits.of(self._work["agent"])
        async for items in super().__aiter__():
            yield items
            if wait is not None:  # it began before we listened
                name = self._service.runtime.registry.worker(self._work["agent"]).name
                told = {"event": "waiting", "agent": self._work["agent"], "name": name}
                yield [StreamItem("waiting", json.dumps(told | asdict(wait)))]
            wait = None

    def begun(self) -> dict[str, str]:
        name = self._service.runtime.registry.worker(self._work["agent"]).name
        return {"work": self._work["id"], "told": as_before(self._loaded, name)}

    def be_brief(self) -> None:
        self.is_brief = True
        self._follower.narrow(replace(_about(self._loaded, self._work["agent"]), kinds=_ENDS_IT))

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "waiting":
            return bool(told.record()["agent"] == self._work["agent"])
        if told.kind in _ASKED:
            record = told.record()
            asked = record.get("kind", "question") in ("question", "approval")  # all others come with its end
            return asked and await self._database.read(_is_about, record["id"], self._work["work"])
        if told.kind not in _OF_A_RUN:
            return False
        record = told.record()
        run = record["run"]
        if run not in self._runs:
            is_ours = record.get("instruction") == self._work["id"]
            self._runs[run] = is_ours or await self._database.read(_is_at, run, self._work["id"])
        return self._runs[run]

    def _may_end(self, told: EventRecord) -> bool:
        match told.kind:
            case "agent":
                return bool(told.record()["state"] != "running")
            case "waiting":
                return told.record()["what"] in ("key", "person")
        return super()._may_end(told)

    def _may_be_over(self) -> bool:
        return self.may_be_over or (self.leaves_when_asked and self._waits(self._work))

    async def _is_over(self) -> bool:
        row, usage = await self._database.read(_came_of, self._work["id"])
        is_kept = row["state"] != "running" and bool(row["held_by"])
        is_over = row["state"] in ENDS or is_kept or (self.leaves_when_asked and self._waits(row))
        self._came = (row, usage) if is_over else None
        return is_over

    def _waits(self, row: Row) -> bool:
        """Whether only a person can let this work go on."""
        return bool(row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(self._work["agent"])))

    async def _conclude(self) -> Served | AgentWorkerError:
        if self._came is None:
            self._came = await self._database.read(_came_of, self._work["id"])
        row, usage = self._came
        if self.leaves_when_asked and self._waits(row):
            items = await self._database.read(inbox.asked_by_work, self._work["work"])
            return waiting_for(items, [self._lacks_key(self._work["agent"])], self._tools, usage)
        if row["state"] not in ENDS and row["held_by"]:
            return _kept(row)
        if row["state"] not in ENDS:
            return STOPPING
        if row["state"] in ("failed", "dead", "cancelled"):
            why = f"it was cancelled: {row['reason']}" if row["state"] == "cancelled" else row["reason"] or row["state"]
            explained = f"agent-worker explain {row['run'] or ''}".strip()
            return Permanent(why, hint="agent-worker agent list" if row["reason"] == DELETED else explained)
        return Served(row["answer"] or "", self._tools, usage, row["state"], row["reason"], run=row["run"] or "")


async def came_of_work(service: Service, loaded: LoadedProject, id: str) -> Served | AgentWorkerError | None:
    """What has come by now of a message to an agent; None while it is worked on."""
    work = await service.read(loaded, _instruction, id)
    following = AgentRun(service, loaded, Follower(service, Filter(), until=service.closing), work)
    following.leaves_when_asked = True
    return await following.so_far()


async def take_up_work(service: Service, loaded: LoadedProject, id: str) -> Followed:
    """Follow a message to an agent that was given earlier. It may be over."""
    follower, work = await listening(service, partial(service.read, loaded, _instruction, id))
    follower.narrow(_about(loaded, work["agent"]))
    made = AgentRun(service, loaded, follower, work)
    made.may_be_over = True
    return made


# --- what is not over ----------------------------------------------------------------------------------


def _kept(row: Row) -> Refused:
    """The error for whoever waits for an answer that nobody works on now; the question is kept."""
    back = "resume" if row["paused"] else "agent start"
    return Refused(
        f"{row['name']} is no longer working: {row['held_by']}; your question is kept",
        hint=f"agent-worker {back} {row['name']}",
    )


# --- reading ------------------------------------------------------------------------------------------


def _find(tx: Transaction, id: str) -> Row | None:
    return tx.one("select * from instruction where project = :project and id = :id", id=id)


def _instruction(tx: Transaction, id: str) -> Row:
    row = _find(tx, id)
    if row is None:
        raise NotFound(f"there is no work {id}", hint="agent-worker runs")
    return row


def _put(
    tx: Transaction,
    loaded: LoadedProject,
    to: Address,
    message: str,
    *,
    now: int,
    key: str | None,
    cause: CarriedRoot | None = None,
) -> Row:
    """Give the message to its agent, and return the instruction that it becomes. Raises Refused for an agent that does
    not work.
    """
    receipt = hand_over(tx, loaded, to, message, now=now, key=key, cause=cause)
    row = _find(tx, receipt.id) or tx.one(
        """select i.* from delivery d
             join instruction i on i.project = :project and i.agent = d.agent and i.message = d.message
            where d.project = :project and d.message = :ref and i.state = 'queued'""",
        ref=receipt.id,
    )
    if row is None:
        raise BadInput("this key was used for another message", hint="give each question its own key, or none")
    if receipt.asleep and row["state"] not in ENDS:
        (who,) = receipt.asleep
        me = agent_rows.identity(tx, row["agent"])
        why = me["paused"] or me["reason"] or "a person paused its work there"
        raise Refused(f"{who} is not working at the moment: {why}", hint=f"agent-worker agent start {who}")
    return row


def _is_about(tx: Transaction, item: str, work: str) -> bool:
    row = tx.one("select ref from inbox_item where project = :project and id = :item", item=item)
    return row is not None and str(row["ref"]).partition("/")[0] == work


def _work_by_id(tx: Transaction, id: str) -> Row:
    row = tx.one(
        """select i.state, i.reason, i.run, r.text as answer, a.name, a.paused,
                  case when a.paused <> '' then a.paused when a.state in ('stopped', 'error') then a.reason
                       else '' end as held_by
             from instruction i left join run r on r.project = :project and r.id = i.run
                  join agent a on a.project = :project and a.id = i.agent
            where i.project = :project and i.id = :id""",
        id=id,
    )
    assert row is not None
    return row


def _came_of(tx: Transaction, id: str) -> tuple[Row, UsageTotals]:
    return _work_by_id(tx, id), _usage(tx, id)


def _is_at(tx: Transaction, run: str, work: str) -> bool:
    row = tx.one(
        """select 1 as found from run where project = :project and id = :run and instruction = :work
           union all select 1 from instruction where project = :project and id = :work and run = :run""",
        run=run,
        work=work,
    )
    return row is not None


def _usage(tx: Transaction, instruction: str) -> UsageTotals:
    row = tx.one(
        """select coalesce(sum(l.input), 0) as input, coalesce(sum(l.output), 0) as output,
                  coalesce(sum(l.micros), 0) as micros, coalesce(max(l.estimated), 0) as estimated
             from ledger l where l.project = :project and l.run in (
               select r.id from run r where r.project = :project and r.instruction = :instruction)""",
        instruction=instruction,
    )
    assert row is not None
    return UsageTotals(row["input"], row["output"], row["micros"] / 1e6, bool(row["estimated"]))
