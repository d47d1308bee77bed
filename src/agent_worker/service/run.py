"""Give work to an agent, a workflow or a team made up on the spot, and follow it to its end.

`run` streams what happens, `serve` waits and returns what came of it; both take the same request. An accepted message
to an agent is worked on whether anybody listens or not; a workflow that nobody listens to any more is stopped.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, Address, parse_address
from agent_worker.core.errors import AgentWorkerError, BadInput, Permanent, Refused
from agent_worker.core.events import Lagging
from agent_worker.core.ids import new_id
from agent_worker.core.mentions import find_mentions
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.checks import check_paths_of_workflow, check_placeholders
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.loading import located, refuse
from agent_worker.definitions.problems import validate
from agent_worker.definitions.source import Source
from agent_worker.definitions.workflow import InlineMember, WorkflowDefinition
from agent_worker.service.events import EventRecord, Filter, Follower, newest
from agent_worker.service.messages import ENDS, hand_over
from agent_worker.service.operation import Stream, StreamItem, operation
from agent_worker.service.service import Service
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import agent_rows
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.start import Start
from agent_worker.workflows.summary import Summary
from agent_worker.workspaces import routing

TEAM = "team"  #: the name of a workflow made up on the spot; its tag is new each time
GONE = "whoever started it has left"
_STOPPING = Refused("the daemon is stopping", hint="the work goes on when it is started again")


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
    state: str = "done"  #: of an agent: done | incomplete; of a workflow: done | failed | limit | stopped
    reason: str = ""
    summary: Summary | None = None  #: of a workflow


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
    trust: bool = False  #: approve what the workflow could execute, as it is now
    model: ModelName | None = None  #: of all members of the workflow that use one


@operation("POST", "/run")
async def run(service: Service, request: Flat[RunRequest]) -> Stream:
    """Give work to an agent, a workflow or the agents defined here, and see what happens until it is done.

    Events: chunk, tool_call, tool_result, step, message and others; the last one is done or error.
    """
    return await _play(service, request)


@operation("POST", "/serve")
async def serve(service: Service, request: Flat[RunRequest]) -> Served:
    """Give work to an agent, a workflow or the agents defined here, and wait for what comes of it."""
    play = await _play(service, request)
    try:
        async for _ in play:
            pass
        return play.result()
    finally:
        await play.close()


async def _play(service: Service, request: RunRequest) -> _Followed:
    match request:
        case RunRequest(message=str(message), agent=str(agent), workflow=None, agents=None):
            return await _ask(service, await service.project(request.project), agent, message)
        case RunRequest(workflow=str(workflow), agent=None, agents=None):
            wanted = WorkflowRequest(workflow, request.project, request.tag, request.params, request.message)
            starting = begin(service, wanted, ends="quiet", trust=request.trust, model=request.model)
            return await _follow_team(service, starting)
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

    async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
        async for batch in self._followed():
            if shown := await self._shown(batch):
                yield shown
            if any(told.number for told in batch) and await self._is_over():
                # It may have ended while this batch was read: what it said before that is still to come.
                async for rest in self._follower.rest():
                    if shown := await self._shown(rest):
                        yield shown
                break
        yield [await self._last()]

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


async def _ask(service: Service, loaded: LoadedProject, to: str, message: str) -> _Followed:
    address = parse_address(to)
    if address.agent is None:
        raise BadInput(f"{to} is a channel, not an agent", hint="name a workflow, or one of its members")
    routing.check_size(message)
    follower = await _listening(service, until=service.closing)
    try:
        work = await service.write(loaded, _put, loaded, address, message, now=service.now())
    except BaseException:
        follower.close()
        raise
    return _AgentRun(service, loaded, follower, work)


class _AgentRun(_Followed):
    def __init__(self, service: Service, loaded: LoadedProject, follower: Follower, work: Row) -> None:
        super().__init__(service, follower)
        self._database = service.database(loaded)
        self._work = work
        self._runs: dict[str, bool] = {}  # whether a run is at our work

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "inbox":
            return await self._database.read(_is_about, told.record()["id"], self._work["work"])
        if told.kind not in _OF_A_RUN:
            return False
        run = told.record()["run"]
        if run not in self._runs:
            self._runs[run] = await self._database.read(_is_at, run, self._work["id"])
        return self._runs[run]

    async def _is_over(self) -> bool:
        row = await self._database.read(_work_by_id, self._work["id"])
        return row["state"] in ENDS

    async def _conclude(self) -> Served | AgentWorkerError:
        row = await self._database.read(_work_by_id, self._work["id"])
        if row["state"] not in ENDS:
            return _STOPPING
        if row["state"] in ("failed", "dead", "cancelled"):
            return Permanent(row["reason"] or row["state"], hint=f"agent-worker explain {row['run'] or ''}".strip())
        usage = await self._database.read(_usage, self._work["id"])
        return Served(row["answer"] or "", self._tools, usage, row["state"], row["reason"])


_OF_A_RUN = frozenset({"started", "chunk", "tool_call", "tool_result", "step", "retry", "ended"})


# --- a team -------------------------------------------------------------------------------------------


async def _assemble(service: Service, loaded: LoadedProject, agents: dict[str, Any], message: str) -> _Followed:
    tag = new_id("t")
    written = {"name": TEAM, "agents": agents, "workspace": {"provider": "memory"}}
    source = Source("the request", written)
    placeholders = located(source, check_placeholders(written))
    definition = validate(WorkflowDefinition, source, defaults={}, also=placeholders)
    refuse(source, check_paths_of_workflow(definition, loaded.project.root))
    for name, member in definition.agents.items():
        if not isinstance(member, InlineMember) or (member.prompt and member.prompt.system_file):
            raise BadInput(f"agents.{name}: define it here, without ref and system_file")
    if not find_mentions(message, definition.agents, sender="user").names:
        message = f"@{next(iter(definition.agents))} {message}"
    starting = service.start(loaded, Start(definition, tag=tag, message=message, ends="quiet"))
    return await _follow_team(service, starting)


async def _follow_team(service: Service, starting: Coroutine[Any, Any, Instance]) -> _Followed:
    ended = asyncio.Event()
    follower = await _listening(service, until=ended)
    try:
        running = await starting
    except BaseException:
        follower.close()
        raise
    follower.narrow(Filter(workspace=running.id))
    return _TeamRun(service, follower, running, ended)


class _TeamRun(_Followed):
    def __init__(self, service: Service, follower: Follower, running: Instance, ended: asyncio.Event) -> None:
        super().__init__(service, follower)
        self._ended = ended
        self._running = running
        self._content = ""
        self._finishing = service.background(service.finish(running))
        self._finishing.add_done_callback(lambda _: self._ended.set())
        self._closing = service.background(self._end_with_the_host())

    async def close(self) -> None:
        await super().close()
        self._closing.cancel()
        if not self._finishing.done() and not self._service.closing.is_set():
            await self._service.stop(self._running, reason=GONE)

    async def _end_with_the_host(self) -> None:
        await self._service.closing.wait()
        self._ended.set()

    async def _is_part(self, told: EventRecord) -> bool:
        if told.kind == "message":
            record = told.record()
            if record["sender"] not in ("user", "system"):
                self._content = record["text"]
        return told.kind != "queued"

    async def _is_over(self) -> bool:
        return False  # told by `until`

    async def _conclude(self) -> Served | AgentWorkerError:
        if not self._finishing.done():
            return _STOPPING
        summary = self._finishing.result()
        # Not from the ledger: what a team made up on the spot has left there is gone with it.
        usage = UsageTotals(summary.input, summary.output, summary.usd, summary.estimated)
        return Served(self._content, self._tools, usage, summary.outcome, summary.reason, summary)


# --- reading ------------------------------------------------------------------------------------------


def _tool_call(told: EventRecord) -> ToolCall:
    record = told.record()
    return ToolCall(record["name"], record["tool"], record["arguments"], record["own"])


def _put(tx: Transaction, loaded: LoadedProject, to: Address, message: str, *, now: int) -> Row:
    """The instruction that the message becomes. Nobody waits for one who does not work."""
    receipt = hand_over(tx, loaded, to, message, now=now)
    row = tx.one("select * from instruction where project = :project and id = :ref", ref=receipt.id)
    row = row or tx.one(
        """select i.* from delivery d
             join instruction i on i.project = :project and i.agent = d.agent and i.message = d.message
            where d.project = :project and d.message = :ref and i.state = 'queued'""",
        ref=receipt.id,
    )
    assert row is not None
    me = agent_rows.identity(tx, row["agent"])
    if me["paused"] or me["state"] in ("stopped", "error"):
        why = me["paused"] or me["reason"] or me["state"]
        raise Refused(f"{me['name']} is not working at the moment: {why}", hint=f"agent-worker resume {me['name']}")
    return row


def _is_about(tx: Transaction, item: str, work: str) -> bool:
    row = tx.one("select ref from inbox_item where project = :project and id = :item", item=item)
    return row is not None and str(row["ref"]).partition("/")[0] == work


def _work_by_id(tx: Transaction, id: str) -> Row:
    row = tx.one(
        """select i.state, i.reason, i.run, r.text as answer
             from instruction i left join run r on r.project = :project and r.id = i.run
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
