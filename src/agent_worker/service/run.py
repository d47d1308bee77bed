"""Give work to an agent, a workflow or a team made up on the spot, and follow it to its end.

`run` streams what happens, `serve` waits and returns what came of it; both take the same request. An accepted message
to an agent is worked on whether anybody listens or not; a workflow that nobody listens to any more is stopped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import asdict, field
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.agents.waiting import Waiting
from agent_worker.core.address import MAIN, Address
from agent_worker.core.errors import AgentWorkerError, BadInput, NotRunning, Permanent, Refused
from agent_worker.core.events import Lagging
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import find_mentions
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.loading import team_in
from agent_worker.service.events import EventRecord, Filter, Follower, newest
from agent_worker.service.messages import ENDS, hand_over
from agent_worker.service.operation import Stream, StreamItem, operation
from agent_worker.service.service import Service, at_rest
from agent_worker.service.trust import require_approved
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import agent_rows, inbox, queue
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.start import Start
from agent_worker.workflows.summary import Summary
from agent_worker.workspaces import routing

TEAM = "team"  #: the name of a workflow made up on the spot; its tag is new each time
GONE = "whoever started it has left"
_STOPPING = NotRunning("the daemon is stopping", hint="the work goes on when it is started again")


@dataclass(frozen=True, slots=True)
class ToolCall:
    agent: str
    tool: str
    arguments: str
    own: bool = False  #: a coding program used a tool of its own


@dataclass(frozen=True, slots=True)
class UsageTotals:
    input: int = 0  #: tokens
    output: int = 0
    usd: float = 0.0
    estimated: bool = False  #: the money rests on a guess: of a price, or of how many tokens it were


@dataclass(frozen=True, slots=True)
class Served:
    """What came of it."""

    content: str  #: the answer; of a team, the last word of a member
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: UsageTotals = field(default_factory=UsageTotals)
    #: Of an agent: done | incomplete | waiting; of a workflow: done | failed | limit | stopped | waiting. What waits
    #: for the person goes on when it is answered.
    state: str = "done"
    reason: str = ""
    summary: Summary | None = None  #: of a workflow
    waits_for: list[str] = field(default_factory=list)  #: the items of the inbox that wait for the person
    run: str = ""  #: of an agent: the run that answered


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Work for an agent, a workflow or the agents defined in it. Its fields are the arguments of `run` and `serve`."""

    message: str | None = None
    agent: str | None = None
    workflow: str | None = None
    agents: dict[str, Any] | None = None
    tag: str = MAIN
    params: dict[str, str] = field(default_factory=dict)
    project: str | None = None
    trust: bool = False  #: approve what the workflow or agent could execute, as it is now
    model: ModelName | None = None  #: of all members of the workflow that use one
    leaves: bool = False  #: where it waits for the person's word or a key, `run` ends, and the work is kept
    key: str | None = None  #: of a question to an agent: given again, what became of the first one is told
    attended: bool = False  #: somebody is there who resumes it if a limit pauses it: `run` goes on telling


@operation("POST", "/run")
async def run(service: Service, request: Flat[RunRequest]) -> Stream:
    """Give work to an agent, a workflow or the agents defined here, and see what happens until it is done.

    Events: begun, chunk, tool_call, tool_result, step, message and others; the last one is done or error.
    """
    play = await _play(service, request)
    play.leaves_when_asked = request.leaves
    return play


@operation("POST", "/serve")
async def serve(service: Service, request: Flat[RunRequest]) -> Served:
    """Give work to an agent, a workflow or the agents defined here, and wait for what comes of it.

    Where it can only go on once the person has answered, the state is `waiting`, and `waits_for` names the questions.
    """
    play = await _play(service, request)
    play.leaves_when_asked = True
    try:
        async for _ in play:
            pass
        return play.result()
    finally:
        await play.close()


async def _play(service: Service, request: RunRequest) -> _Followed:
    match request:
        case RunRequest(message=str(message), agent=str(agent), workflow=None, agents=None):
            loaded = await service.project(request.project)
            await require_approved(service, loaded, agent, trust=request.trust)
            return await _ask(service, loaded, agent, message, key=request.key)
        case RunRequest(workflow=str(workflow), agent=None, agents=None):
            wanted = WorkflowRequest(workflow, request.project, request.tag, request.params, request.message)
            starting = begin(service, wanted, ends="quiet", trust=request.trust, model=request.model)
            return await _follow_team(service, starting, attended=request.attended)
        case RunRequest(message=str(message), agents=dict(agents), agent=None, workflow=None):
            return await _assemble(service, await service.project(request.project), agents, message)
    raise BadInput(
        "say what to run: an agent and a message, a workflow, or agents and a message",
        hint='{"agent": "alice", "message": "…"} or {"workflow": "review"} or {"agents": {…}, "message": "…"}',
    )


async def _listening(service: Service, *, until: asyncio.Event) -> Follower:
    """To everything, from before the work is given: what comes of it in the first moment is not missed."""
    follower = Follower(service, Filter(), until=until, at=await newest(service.runtime.database))
    follower.listen()
    return follower


class _Followed:
    """Follows one piece of work; keeps what it used and what came of it."""

    def __init__(self, service: Service, follower: Follower) -> None:
        self._service = service
        self._follower = follower
        self._tools: list[ToolCall] = []
        self._outcome: Served | AgentWorkerError = _STOPPING
        self.may_be_over = False  #: it may have ended before it was followed
        self.leaves_when_asked = False  #: is it over for whoever follows it, when it waits for the person?

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        yield [StreamItem("begun", json.dumps({"event": "begun"} | self._begun()))]
        async for batch in self._unless_asked():
            if shown := await self._shown(batch):
                yield shown
            if any(told.number or told.kind == "waiting" for told in batch) and await self._is_over():
                # It may have ended while this batch was read: what it said before that is still to come.
                async for rest in self._follower.rest():
                    if shown := await self._shown(rest):
                        yield shown
                break
        yield [await self._last()]

    async def _unless_asked(self) -> AsyncIterator[Sequence[EventRecord]]:
        """What happens; nothing, where it was over, or waited for the person, before we listened."""
        if (self.leaves_when_asked or self.may_be_over) and await self._is_over():
            return
        async for batch in self._followed():
            yield batch

    def _lacks_key(self, agent: str) -> Waiting | None:
        """What an agent waits for, if that is a key, which only a person can bring."""
        wait = self._service.runtime.supervisor.waits.of(agent)
        return wait if wait is not None and wait.what == "key" else None

    async def _shown(self, batch: Sequence[EventRecord]) -> list[StreamItem]:
        shown = [told for told in batch if await self._is_part(told)]
        self._tools += [_tool_call(told) for told in shown if told.kind == "tool_call"]
        return [StreamItem(told.kind, told.text) for told in shown]

    def result(self) -> Served:
        if isinstance(self._outcome, AgentWorkerError):
            raise self._outcome
        return self._outcome

    async def close(self) -> None:
        self._follower.close()

    async def _followed(self) -> AsyncIterator[Sequence[EventRecord]]:
        """Whoever reads slowly misses what is live only, and nothing else."""
        while True:
            try:
                async for batch in self._follower:
                    yield batch
                return
            except Lagging:
                self._follower = self._follower.again()

    def _begun(self) -> dict[str, str]:
        """What it is called, for whoever leaves before its end."""
        raise NotImplementedError

    async def _is_part(self, told: EventRecord) -> bool:
        raise NotImplementedError

    async def _is_over(self) -> bool:
        raise NotImplementedError

    async def _conclude(self) -> Served | AgentWorkerError:
        raise NotImplementedError

    async def _last(self) -> StreamItem:
        self._outcome = await self._conclude()
        match self._outcome:
            case Served(summary=summary) as served:
                told: dict[str, Any] = {"event": "done", "text": served.content} | asdict(served)
                del told["content"], told["summary"]
                if summary is not None:
                    told |= asdict(summary) | {"runs": dict(summary.runs), "exit_code": summary.exit_code}
                return StreamItem("done", json.dumps(told))
            case error:
                told = {"code": error.code, "message": error.message, "hint": error.hint}
                return StreamItem("error", json.dumps({"event": "error"} | told))


# --- one agent ----------------------------------------------------------------------------------------


async def _ask(service: Service, loaded: LoadedProject, to: str, message: str, *, key: str | None) -> _Followed:
    address = await service.address(loaded, to)
    if key is not None and address.workspace is not None:
        raise BadInput(f"{to} is in a workspace: a key is for a direct question", hint=f"ask {address.agent} by itself")
    if address.agent is None:
        raise BadInput(f"{to} is a channel, not an agent", hint="name a workflow, or one of its members")
    routing.check_size(message)
    follower = await _listening(service, until=service.closing)
    try:
        work = await service.write(loaded, _put, loaded, address, message, now=service.now(), key=key)
    except BaseException:
        follower.close()
        raise
    made = _AgentRun(service, loaded, follower, work)
    made.may_be_over = key is not None
    return made


class _AgentRun(_Followed):
    def __init__(self, service: Service, loaded: LoadedProject, follower: Follower, work: Row) -> None:
        super().__init__(service, follower)
        self._database = service.database(loaded)
        self._work = work
        self._runs: dict[str, bool] = {}  # whether a run is at our work

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        wait = self._lacks_key(self._work["agent"])
        async for items in super().__aiter__():
            yield items
            if wait is not None:  # it began before we listened
                name = self._service.runtime.registry.worker(self._work["agent"]).name
                told = {"event": "waiting", "agent": self._work["agent"], "name": name}
                yield [StreamItem("waiting", json.dumps(told | asdict(wait)))]
            wait = None

    def _begun(self) -> dict[str, str]:
        return {"work": self._work["id"]}

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "waiting":
            return bool(told.record()["agent"] == self._work["agent"])
        if told.kind in ("inbox", "settled"):
            record = told.record()
            asked = record.get("kind", "question") in ("question", "approval")  # all others come with its end
            return asked and await self._database.read(_is_about, record["id"], self._work["work"])
        if told.kind not in _OF_A_RUN:
            return False
        run = told.record()["run"]
        if run not in self._runs:
            self._runs[run] = await self._database.read(_is_at, run, self._work["id"])
        return self._runs[run]

    async def _is_over(self) -> bool:
        row = await self._database.read(_work_by_id, self._work["id"])
        if self.leaves_when_asked and self._waits(row):
            return True
        return row["state"] in ENDS or (row["state"] != "running" and bool(row["held_by"]))

    def _waits(self, row: Row) -> bool:
        """Whether only a person can make it go on."""
        return bool(row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(self._work["agent"])))

    async def _conclude(self) -> Served | AgentWorkerError:
        row = await self._database.read(_work_by_id, self._work["id"])
        if self.leaves_when_asked and self._waits(row):
            items = await self._database.read(inbox.asked_by_work, self._work["work"])
            usage = await self._database.read(_usage, self._work["id"])
            return _waiting(items, [self._lacks_key(self._work["agent"])], self._tools, usage)
        if row["state"] not in ENDS and row["held_by"]:
            return _kept(row)
        if row["state"] not in ENDS:
            return _STOPPING
        if row["state"] in ("failed", "dead", "cancelled"):
            return Permanent(row["reason"] or row["state"], hint=f"agent-worker explain {row['run'] or ''}".strip())
        usage = await self._database.read(_usage, self._work["id"])
        return Served(row["answer"] or "", self._tools, usage, row["state"], row["reason"], run=row["run"] or "")


_OF_A_RUN = frozenset({"started", "chunk", "tool_call", "tool_result", "step", "retry", "ended"})


# --- a team -------------------------------------------------------------------------------------------


async def _assemble(service: Service, loaded: LoadedProject, agents: dict[str, Any], message: str) -> _Followed:
    tag = new_id("t")
    definition = team_in({"name": TEAM, "agents": agents, "workspace": {"provider": "memory"}}, loaded.project.root)
    if not find_mentions(message, definition.agents, sender="user").names:
        message = f"@{next(iter(definition.agents))} {message}"
    starting = service.start(loaded, Start(definition, tag=tag, message=message, ends="quiet"))
    return await _follow_team(service, starting)


async def _follow_team(
    service: Service, starting: Coroutine[Any, Any, Instance], *, attended: bool = False
) -> _Followed:
    ended = asyncio.Event()
    follower = await _listening(service, until=ended)
    try:
        running = await starting
    except BaseException:
        follower.close()
        raise
    follower.narrow(Filter(workspace=running.id))
    return _TeamRun(service, follower, running, ended, attended=attended)


class _TeamRun(_Followed):
    def __init__(
        self, service: Service, follower: Follower, running: Instance, ended: asyncio.Event, *, attended: bool
    ) -> None:
        super().__init__(service, follower)
        self._ended = ended
        self._running = running
        self._content = ""
        self._finishing = service.background(service.finish(running))
        self._finishing.add_done_callback(lambda _: self._ended.set())
        self._closing = service.background(self._end_with(service.closing))
        self._resting = None if attended else service.background(self._end_with(running.watch.at_limit))
        self._waits = False  # for the person, and whoever asked has been told

    async def close(self) -> None:
        """What nobody follows any more is stopped, unless it waits for the person: then it goes on with their word."""
        await super().close()
        self._closing.cancel()
        if self._resting is not None:
            self._resting.cancel()
        if self._finishing.done() or self._waits or self._service.closing.is_set():
            return
        if not await self._running.is_kept():
            await self._service.stop(self._running, reason=GONE)

    def _begun(self) -> dict[str, str]:
        return {"workflow": self._running.name}

    async def _end_with(self, happened: asyncio.Event) -> None:
        await happened.wait()
        self._ended.set()

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "message":
            record = told.record()
            if record["sender"] not in ("user", "system"):
                self._content = record["text"]
        return told.kind != "queued"

    async def _is_over(self) -> bool:
        """The end is told by `until`."""
        if self.leaves_when_asked:
            self._waits = await self._rests()
        return self._waits

    async def _rests(self) -> bool:
        """Whether there is work, and only a person can make any of it go on."""
        rows = await self._running.database.read(queue.open_in, self._running.id)
        return bool(rows) and all(
            row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(row["agent"])) for row in rows
        )

    async def _conclude(self) -> Served | AgentWorkerError:
        if self._waits:
            items = await self._running.database.read(inbox.asked_in, self._running.id)
            so_far = await self._running.so_far()
            usage = UsageTotals(so_far.input, so_far.output, so_far.usd, so_far.estimated)
            keys = [self._lacks_key(agent) for agent in self._running.members.values()]
            return _waiting(items, keys, self._tools, usage, self._content)
        if self._finishing.done():
            summary = self._finishing.result()
        elif self._running.watch.at_limit.is_set():
            summary = await at_rest(self._running)
        else:
            return _STOPPING
        # Not from the ledger: what a team made up on the spot has left there is gone with it.
        usage = UsageTotals(summary.input, summary.output, summary.usd, summary.estimated)
        return Served(self._content, self._tools, usage, summary.outcome, summary.reason, summary)


# --- what is not over ----------------------------------------------------------------------------------


def _waiting(
    items: Sequence[Row],
    keys: Sequence[Waiting | None],
    tools: list[ToolCall],
    usage: UsageTotals,
    content: str = "",
) -> Served:
    """What waits for the person: for their answers, for `keys`, or for both."""
    reason = "; ".join(dict.fromkeys([item["text"] for item in items] + [wait.reason for wait in keys if wait]))
    return Served(content, tools, usage, "waiting", reason, waits_for=[item["id"] for item in items])


def _kept(row: Row) -> Refused:
    """Nobody works on it now, and whoever waits for the answer need not go on waiting."""
    back = "resume" if row["paused"] else "start"
    return Refused(
        f"{row['name']} does not work any more: {row['held_by']}; what you asked is kept",
        hint=f"agent-worker {back} {row['name']}",
    )


# --- reading ------------------------------------------------------------------------------------------


def _tool_call(told: EventRecord) -> ToolCall:
    record = told.record()
    return ToolCall(record["name"], record["tool"], record["arguments"], record["own"])


def _put(tx: Transaction, loaded: LoadedProject, to: Address, message: str, *, now: int, key: str | None) -> Row:
    """The instruction that the message becomes. Nobody waits for one who does not work."""
    receipt = hand_over(tx, loaded, to, message, now=now, key=key)
    row = tx.one("select * from instruction where project = :project and id = :ref", ref=receipt.id)
    row = row or tx.one(
        """select i.* from delivery d
             join instruction i on i.project = :project and i.agent = d.agent and i.message = d.message
            where d.project = :project and d.message = :ref and i.state = 'queued'""",
        ref=receipt.id,
    )
    assert row is not None
    if receipt.asleep and row["state"] not in ENDS:
        (who,) = receipt.asleep
        me = agent_rows.identity(tx, row["agent"])
        why = me["paused"] or me["reason"] or "a person lets its work there wait"
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
