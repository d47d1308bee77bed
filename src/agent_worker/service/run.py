"""Give work to an agent, a running team, a workflow or a team made up on the spot, and follow it to its end.

`run` streams what happens, `serve` waits and returns what came of it; both take the same request. An accepted message
to an agent is worked on whether anybody listens or not; a workflow that nobody listens to any more is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import field, replace
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN
from agent_worker.core.errors import AgentWorkerError, BadInput
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import find_mentions
from agent_worker.core.signature import Flat
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.loading import team_in
from agent_worker.service.agent_run import ask_and_follow
from agent_worker.service.carried_limits import cause_of
from agent_worker.service.channel_run import say_and_follow
from agent_worker.service.events import EventRecord, Filter, Follower
from agent_worker.service.followed import STOPPING, Followed, Served, UsageTotals, listening, waiting_for
from agent_worker.service.found_workflow import FoundWorkflow
from agent_worker.service.operation import Stream, operation
from agent_worker.service.running_instances import at_rest
from agent_worker.service.service import Service
from agent_worker.service.trust import approve_all, require_approved
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.work import inbox, open_work
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.start import Start
from agent_worker.workspaces import deliveries
from agent_worker.workspaces.resources import whole_text

TEAM = "team"  #: the name of a workflow made up on the spot; its tag is new each time
GONE = "the program that started it has left"


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
    brief: bool = False  #: of a question to an agent, `run` tells nothing before what ends it
    attended: bool = False  #: somebody is there who resumes it if a limit pauses it: `run` goes on telling
    cause: str | None = None  #: the run of an agent that asks by a command: the limits of what it works on go on
    key: str | None = None  #: of what `alice` or `@review` is told: given again, what became of the first is told


@operation("POST", "/run")
async def run(service: Service, request: Flat[RunRequest]) -> Stream:
    """Give work to an agent, a workflow or the agents defined here, and see what happens until it is done.

    With `@review` as the agent, the message is said there, and followed until all that came of it is done.

    Events: begun, chunk, tool_call, tool_result, step, message and others; the last one is done or error.
    """
    play = await begin_work(service, request)
    play.leaves_when_asked = request.leaves
    if request.brief:
        play.be_brief()
    return play


@operation("POST", "/serve")
async def serve(service: Service, request: Flat[RunRequest]) -> Served:
    """Give work to an agent, a workflow or the agents defined here, and wait for the result.

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
            return await ask_one(service, await service.project(request.project), request, agent, message)
        case RunRequest(workflow=str(workflow), agent=None, agents=None):
            wanted = WorkflowRequest(
                workflow, request.project, request.tag, request.params, request.message, request.cause
            )
            starting = begin(service, wanted, ends="quiet", trust=request.trust, model=request.model)
            return await _follow_team(service, starting, attended=request.attended)
        case RunRequest(message=str(message), agents=dict(agents), agent=None, workflow=None):
            loaded = await service.project(request.project)
            return await _assemble(service, loaded, request, agents, message)
    raise BadInput(
        "say what to run: an agent and a message, a workflow, or agents and a message",
        hint='{"agent": "alice", "message": "…"} or {"workflow": "review"} or {"agents": {…}, "message": "…"}',
    )


async def ask_one(service: Service, loaded: LoadedProject, request: RunRequest, agent: str, message: str) -> Followed:
    """Ask an agent, or say something in a running team, of a project that was looked at just now."""
    if "@" not in agent:
        await require_approved(service, loaded, agent, trust=request.trust)
    cause = await cause_of(service, loaded, request.cause) if request.cause else None
    give = say_and_follow if agent.startswith("@") else ask_and_follow
    return await give(service, loaded, agent, message, key=request.key, cause=cause)


# --- a team -------------------------------------------------------------------------------------------


async def _assemble(
    service: Service, loaded: LoadedProject, request: RunRequest, agents: dict[str, Any], message: str
) -> Followed:
    tag = new_id("t")
    definition = team_in({"name": TEAM, "agents": agents, "workspace": {"provider": "memory"}}, loaded.project.root)
    if request.trust:
        await approve_all(service, loaded, FoundWorkflow(definition, ""), None)
    if not find_mentions(message, definition.agents, sender="user").names:
        message = f"@{next(iter(definition.agents))} {message}"
    cause = await cause_of(service, loaded, request.cause) if request.cause else None
    starting = service.start(loaded, Start(definition, tag=tag, message=message, ends="quiet", cause=cause))
    return await _follow_team(service, starting)


async def _follow_team(
    service: Service, starting: Coroutine[Any, Any, Instance], *, attended: bool = False
) -> Followed:
    ended = asyncio.Event()

    async def start() -> tuple[Instance, list[str]]:
        running = await starting
        return running, await running.database.read(deliveries.called_on_first, running.id, since=running.started_at)

    follower, (running, woke) = await listening(service, start, until=ended)
    follower.narrow(Filter(workspace=running.id))
    return _TeamRun(service, follower, running, ended, attended=attended, woke=woke)


class _TeamRun(Followed):
    def __init__(
        self,
        service: Service,
        follower: Follower,
        running: Instance,
        ended: asyncio.Event,
        *,
        attended: bool,
        woke: list[str],
    ) -> None:
        super().__init__(service, follower)
        self._woke = woke  # whom its first words called on
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

    def begun(self) -> dict[str, Any]:
        return {"workflow": self._running.name, "woke": self._woke, "members": list(self._running.members)}

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
        """Whether the run has to end here because it waits for the person; its regular end is told by `until`."""
        if self.leaves_when_asked:
            self._waits = await self._rests()
        return self._waits

    async def _rests(self) -> bool:
        """Whether it can only go on with the person's word: all its work waits for that, or all but a vote is done."""
        rows = await self._running.database.read(open_work.open_in, self._running.id)
        if not rows:
            return bool(await self._running.database.read(inbox.asked_in, self._running.id))
        return all(
            row["state"] == "waiting" or (row["state"] == "queued" and self._lacks_key(row["agent"])) for row in rows
        )

    async def _conclude(self) -> Served | AgentWorkerError:
        came = await self._came()
        return replace(came, woke=self._woke) if isinstance(came, Served) else came

    async def _came(self) -> Served | AgentWorkerError:
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
