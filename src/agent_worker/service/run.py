"""Give work to an agent, a running team, a workflow or a team made up on the spot, and follow it to its end.

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
from agent_worker.core.address import MAIN, Address
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Permanent, Refused
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import find_mentions
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.loading import team_in
from agent_worker.service.channel_run import say_and_follow
from agent_worker.service.events import EventRecord, Filter, Follower
from agent_worker.service.followed import STOPPING, Followed, Served, UsageTotals, listening, waiting_for
from agent_worker.service.messages import ENDS, hand_over
from agent_worker.service.operation import Stream, StreamItem, operation
from agent_worker.service.running_instances import at_rest
from agent_worker.service.service import Service
from agent_worker.service.trust import require_approved
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import agent_rows, inbox, open_work
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.start import Start
from agent_worker.workspaces import routing
from agent_worker.workspaces.resources import whole_text

TEAM = "team"  #: the name of a workflow made up on the spot; its tag is new each time
GONE = "whoever started it has left"


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
    attended: bool = False  #: somebody is there who resumes it if a limit pauses it: `run` goes on telling
    key: str | None = None  #: of what `alice` or `@review` is told: given again, what became of the first is told


@operation("POST", "/run")
async def run(service: Service, request: Flat[RunRequest]) -> Stream:
    """Give work to an agent, a workflow or the agents defined here, and see what happens until it is done.

    With `@review` as the agent, the message is said there, and followed until all that came of it is done.

    Events: begun, chunk, tool_call, tool_result, step, message and others; the last one is done or error.
    """
    play = await begin_work(service, request)
    play.leaves_when_asked = request.leaves
    return play


@operation("POST", "/serve")
async def serve(service: Service, request: Flat[RunRequest]) -> Served:
    """Give work to an agent, a workflow or the agents defined here, and wait for what comes of it.

    Where it can only go on once the person has answered, the state is `waiting`, and `waits_for` names the questions.
    """
    play = await begin_work(service, request)
    play.leaves_when_asked = True
    try:
        async for _ in play:
            pass
        return play.result()
    finally:
        await play.close()


async def begin_work(service: Service, request: RunRequest) -> Followed:
    """Give the work: it is accepted when this returns. Whoever follows it closes it."""
    match request:
        case RunRequest(message=str(message), agent=str(agent), workflow=None, agents=None):
            loaded = await service.project(request.project)
            await require_approved(service, loaded, agent, trust=request.trust)
            if agent.startswith("@"):
                return await say_and_follow(service, loaded, agent, message, key=request.key)
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


# --- one agent ----------------------------------------------------------------------------------------


async def _ask(service: Service, loaded: LoadedProject, to: str, message: str, *, key: str | None) -> Followed:
    address = await service.address(loaded, to)
    if key is not None and address.workspace is not None:
        raise BadInput(f"{to} is in a workspace: a key is for a direct question", hint=f"ask {address.agent} by itself")
    routing.check_size(message)
    follower = await listening(service, until=service.closing)
    try:
        work = await service.write(loaded, _put, loaded, address, message, now=service.now(), key=key)
    except BaseException:
        follower.close()
        raise
    made = _AgentRun(service, loaded, follower, work)
    made.may_be_over = key is not None
    return made


class _AgentRun(Followed):
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
            return waiting_for(items, [self._lacks_key(self._work["agent"])], self._tools, usage)
        if row["state"] not in ENDS and row["held_by"]:
            return _kept(row)
        if row["state"] not in ENDS:
            return STOPPING
        if row["state"] in ("failed", "dead", "cancelled"):
            return Permanent(row["reason"] or row["state"], hint=f"agent-worker explain {row['run'] or ''}".strip())
        usage = await self._database.read(_usage, self._work["id"])
        return Served(row["answer"] or "", self._tools, usage, row["state"], row["reason"], run=row["run"] or "")


async def came_of_work(service: Service, loaded: LoadedProject, id: str) -> Served | AgentWorkerError | None:
    """What has come by now of a message to an agent; None while it is worked on."""
    work = await service.read(loaded, _instruction, id)
    following = _AgentRun(service, loaded, Follower(service, Filter(), until=service.closing), work)
    following.leaves_when_asked = True
    return await following.so_far()


_OF_A_RUN = frozenset({"started", "chunk", "tool_call", "tool_result", "step", "retry", "ended"})


# --- a team -------------------------------------------------------------------------------------------


async def _assemble(service: Service, loaded: LoadedProject, agents: dict[str, Any], message: str) -> Followed:
    tag = new_id("t")
    definition = team_in({"name": TEAM, "agents": agents, "workspace": {"provider": "memory"}}, loaded.project.root)
    if not find_mentions(message, definition.agents, sender="user").names:
        message = f"@{next(iter(definition.agents))} {message}"
    starting = service.start(loaded, Start(definition, tag=tag, message=message, ends="quiet"))
    return await _follow_team(service, starting)


async def _follow_team(
    service: Service, starting: Coroutine[Any, Any, Instance], *, attended: bool = False
) -> Followed:
    ended = asyncio.Event()
    follower = await listening(service, until=ended)
    try:
        running = await starting
    except BaseException:
        follower.close()
        raise
    follower.narrow(Filter(workspace=running.id))
    return _TeamRun(service, follower, running, ended, attended=attended)


class _TeamRun(Followed):
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
                self._content = await self._running.database.read(whole_text, self._running.id, record["seq"])
        return told.kind != "queued"

    async def _is_over(self) -> bool:
        """The end is told by `until`."""
        if self.leaves_when_asked:
            self._waits = await self._rests()
        return self._waits

    async def _rests(self) -> bool:
        """Whether there is work, and only a person can make any of it go on."""
        rows = await self._running.database.read(open_work.open_in, self._running.id)
        return bool(rows) and all(
            row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(row["agent"])) for row in rows
        )

    async def _conclude(self) -> Served | AgentWorkerError:
        if self._waits:
            items = await self._running.database.read(inbox.asked_in, self._running.id)
            so_far = await self._running.so_far()
            usage = UsageTotals(so_far.input, so_far.output, so_far.usd, so_far.estimated)
            keys = [self._lacks_key(agent) for agent in self._running.members.values()]
            return waiting_for(items, keys, self._tools, usage, self._content)
        if self._finishing.done():
            summary = self._finishing.result()
        elif self._running.watch.at_limit.is_set():
            summary = await at_rest(self._running)
        else:
            return STOPPING
        # Not from the ledger: what a team made up on the spot has left there is gone with it.
        usage = UsageTotals(summary.input, summary.output, summary.usd, summary.estimated)
        return Served(self._content, self._tools, usage, summary.outcome, summary.reason, summary)


# --- what is not over ----------------------------------------------------------------------------------


def _kept(row: Row) -> Refused:
    """Nobody works on it now, and whoever waits for the answer need not go on waiting."""
    back = "resume" if row["paused"] else "start"
    return Refused(
        f"{row['name']} does not work any more: {row['held_by']}; what you asked is kept",
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


def _put(tx: Transaction, loaded: LoadedProject, to: Address, message: str, *, now: int, key: str | None) -> Row:
    """The instruction that the message becomes. Nobody waits for one who does not work."""
    receipt = hand_over(tx, loaded, to, message, now=now, key=key)
    row = _find(tx, receipt.id) or tx.one(
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
