"""Work by its ticket: given in one call, waited for in as many as it takes.

For whoever cannot keep a call open until the end, as most AI programs cannot: each answer carries an id, and
`work_wait` goes on from there, also after a restart. A ticket is the id of what is stored anyway: of an instruction, of
a message in a channel, of an instance. Nothing stops because nobody waits.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.clock import from_micros
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Flat
from agent_worker.database.database import Transaction
from agent_worker.service.agent_run import take_up_work
from agent_worker.service.channel_run import take_up_said
from agent_worker.service.followed import Followed, Served, UsageTotals
from agent_worker.service.found_workflow import TOGETHER
from agent_worker.service.inbox import Item, inbox_show
from agent_worker.service.instance_run import take_up_instance
from agent_worker.service.operation import operation
from agent_worker.service.run import RunRequest, ask_one
from agent_worker.service.service import Service
from agent_worker.service.typed_ids import Kind
from agent_worker.service.work import work_cancel
from agent_worker.service.workflows import WorkflowRequest, begin
from agent_worker.workspaces import workspace_rows

PATIENCE = 20.0  #: seconds; coding programs give up on a call after 25 to 30
LONGEST = 600.0
TEAMS = 100  #: of agents called together, that may run at once
_LINES = 5  # of what happens, that are told while it is worked on
_SAID = 40  # messages of a team
_SAID_CHARS = 4000  # of each


@dataclass(frozen=True, slots=True)
class SaidBy:
    sender: str
    text: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """How a piece of work stands."""

    id: str  #: by which work_wait asks for it again
    state: str  #: working | done | incomplete | waiting | limit | failed | stopped
    text: str = ""  #: the answer; of a team, the last word of a member
    reason: str = ""
    next: str = ""  #: what to do now; '' when it is over
    said: list[SaidBy] = field(default_factory=list)  #: by the members of a team, in order
    doing: list[str] = field(default_factory=list)  #: while it is worked on: what happened last
    waits_for: list[Item] = field(default_factory=list)  #: what the person must answer before it goes on
    documents: list[str] = field(default_factory=list)  #: that a team has changed
    usage: UsageTotals = field(default_factory=UsageTotals)
    run: str = ""  #: of an agent: the run that answered, for run_explain
    at: str = ""  #: of a team: where it can be read, for channel_read and doc_read
    woke: list[str] = field(default_factory=list)  #: of what was said in a channel: whom it called on
    since: str = ""  #: when it was asked for
    changed: str = ""  #: when something last came of it


@operation("POST", "/tickets/ask", tool="agent_ask")
async def ticket_ask(
    service: Service,
    agent: str,
    message: str,
    project: str | None = None,
    seconds: float = PATIENCE,
    key: str | None = None,
    cause: str | None = None,
) -> Ticket:
    """Ask an agent (`alice`) or a running team (`@review`), and wait for the answer.

    What takes longer than `seconds` goes on: the state is `working` then, and work_wait with the id waits again. The
    same key asks once.
    """
    loaded = await service.project(project)
    work = await ask_one(service, loaded, RunRequest(key=key, cause=cause), agent, message)
    return await _waited(service, loaded, work, _named(work), seconds)


@operation("POST", "/tickets/run", tool="workflow_run")
async def ticket_run(service: Service, request: Flat[WorkflowRequest], seconds: float = PATIENCE) -> Ticket:
    """Run a workflow until nobody has anything left to do, and return what the team said.

    What takes longer than `seconds` goes on: the state is `working` then, and work_wait with the id waits again.
    """
    loaded = await service.project(request.project)
    return await _run(service, loaded, request, seconds)


@operation("POST", "/tickets/team", tool="team_start")
async def ticket_team(
    service: Service,
    agents: list[str],
    message: str,
    project: str | None = None,
    seconds: float = PATIENCE,
    cause: str | None = None,
) -> Ticket:
    """Call agents of the project together for one question, by their names, and return what they said.

    The first of them answers, unless the message calls on others by @name. They end when all is done. What takes
    longer than `seconds` goes on: work_wait with the id waits again.
    """
    loaded = await service.project(project)
    if not agents or len(agents) > 20:
        raise BadInput("a team is 1 to 20 agents", hint=f"agents here: {', '.join(loaded.agents)}")
    source = TOGETHER + "+".join(agents)
    found = await service.workflow(loaded, source)
    for n in range(1, TEAMS + 1):  # the lowest: the last one that had this name is put away then
        request = WorkflowRequest(source, str(loaded.project.root), f"t{n}", message=message, cause=cause)
        if await service.read(loaded, _is_running, found.definition.name, request.tag):
            continue
        try:
            return await _run(service, loaded, request, seconds)
        except Refused:
            if not await service.read(loaded, _is_running, found.definition.name, request.tag):
                raise  # else somebody else has just taken that name
    raise Refused(f"{TEAMS} teams of this kind are already running", hint="agent-worker ls")


@operation("GET", "/tickets/{id}", tool="work_wait")
async def work_wait(service: Service, id: str, seconds: float = PATIENCE) -> Ticket:
    """Wait for work that was asked for earlier, by the id it was given; with 0 seconds, see how it stands."""
    for kind, take_up in _TAKE_UP.items():
        database, whole = await service.holding(id, kind)
        if not database.project:
            continue
        loaded = await service.project_of(database)
        return await _waited(service, loaded, await take_up(service, loaded, whole), whole, seconds)
    raise NotFound(f"there is no work {id[:100]}", hint="agent-worker runs")


@operation("DELETE", "/tickets/{id}", tool="work_stop")
async def work_stop(service: Service, id: str) -> Ticket:
    """Stop work that was asked for earlier, by the id it was given. What it has done stays."""
    database, instance = await service.holding(id, "instance")
    try:
        if not database.project:
            await work_cancel(service, id, whole=True)
        elif (row := await database.read(workspace_rows.get, instance))["state"] in ("running", "left"):
            loaded = await service.project_of(database)
            await service.stop_named(loaded, str(workspace_rows.name_of(row)))
    except Refused:
        pass  # it is over already, and is told as what it is
    return await work_wait(service, id, 0)


_TAKE_UP: dict[Kind, Callable[[Service, LoadedProject, str], Awaitable[Followed]]] = {
    "work": take_up_work,
    "message": take_up_said,
    "instance": take_up_instance,
}


async def _run(service: Service, loaded: LoadedProject, request: WorkflowRequest, seconds: float) -> Ticket:
    running = await begin(service, request, ends="quiet")
    service.background(service.finish(running))
    return await _waited(service, loaded, await take_up_instance(service, loaded, running.id), running.id, seconds)


async def _waited(service: Service, loaded: LoadedProject, work: Followed, id: str, seconds: float) -> Ticket:
    """What has come of the work within this time. Whoever stops waiting stops nothing."""
    work.leaves_when_asked = True
    happened: deque[str] = deque(maxlen=_LINES)
    came: Served | AgentWorkerError | None
    try:
        async with asyncio.timeout(max(0.0, min(seconds, LONGEST))):
            async for batch in work:
                happened.extend(filter(None, (_line(json.loads(item.data)) for item in batch)))
        came = work.outcome
    except TimeoutError:
        came = await work.so_far()
    finally:
        await work.close()
    at, said, times = await service.read(loaded, _stands, id)
    ticket = await _ticket(service, id, came, list(happened), at, said)
    state = "stopped" if times.was_cancelled and ticket.state in ("failed", "incomplete") else ticket.state
    woke = list(work.begun().get("woke", ()))
    return replace(ticket, state=state, woke=woke, since=times.since, changed=times.changed)


async def _ticket(
    service: Service,
    id: str,
    came: Served | AgentWorkerError | None,
    doing: list[str],
    at: str,
    said: list[SaidBy],
) -> Ticket:
    if came is None:
        return Ticket(id, "working", next=f"call work_wait with id {id}", said=said, doing=doing, at=at)
    if isinstance(came, AgentWorkerError):
        return Ticket(id, "failed", reason=came.message, next=came.hint, said=said, at=at)
    items = await _waited_for(service, came.waits_for)
    then = {
        "waiting": f"the person answers (inbox_answer); then call work_wait with id {id}",
        "limit": f"the person continues it (agent-worker resume @{at}); then call work_wait with id {id}",
    }
    return Ticket(
        id,
        came.state,
        came.content,
        came.reason,
        then.get(came.state, ""),
        said,
        waits_for=items,
        documents=list(came.summary.documents) if came.summary else [],
        usage=came.usage,
        run=came.run,
        at=at,
    )


async def _waited_for(service: Service, ids: Sequence[str]) -> list[Item]:
    """What the person is still asked: one that was answered in this moment is left out."""
    found = []
    for id in ids:
        with suppress(NotFound):
            found.append(await inbox_show(service, id))
    return found


def _named(work: Followed) -> str:
    return str(next(iter(work.begun().values())))


def _line(record: dict[str, Any]) -> str:
    """An event in a few words; '' for one that is not worth a line."""
    match record:
        case {"event": "message", "sender": str(sender), "text": str(text)} if sender != "system":
            return f"{sender}: {' '.join(text.split())[:160]}"
        case {"event": "tool_call", "name": name, "tool": tool}:
            return f"{name} uses {tool}"
        case {"event": "started", "name": name}:
            return f"{name} is at work"
        case {"event": "retry", "name": name}:
            return f"{name} tries again"
    return ""


# --- reading ------------------------------------------------------------------------------------------


def _stands(tx: Transaction, id: str) -> tuple[str, list[SaidBy], _Times]:
    return *_said(tx, id), _times(tx, id)


def _said(tx: Transaction, id: str) -> tuple[str, list[SaidBy]]:
    """Where a team works, and what its members have said about this work; nothing for a direct message to an agent."""
    sent = tx.one(
        """select d.workspace, m.root from delivery d
             join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
            where d.project = :project and d.message = :id limit 1""",
        id=id,
    )
    place = sent["workspace"] if sent else id
    row = tx.one("select * from workspace where project = :project and id = :id", id=place)
    if row is None:
        return "", []
    rows = tx.all(
        """select sender, text from message
            where project = :project and workspace = :workspace and held = 0 and at >= :since
              and sender not in ('user', 'system') and (cast(:root as text) is null or root = :root)
            order by seq desc limit :limit""",
        workspace=place,
        since=0 if sent else row["started_at"],
        root=sent["root"] if sent else None,
        limit=_SAID,
    )
    said = [SaidBy(each["sender"], each["text"][:_SAID_CHARS]) for each in reversed(rows)]
    return str(workspace_rows.name_of(row)), said


@dataclass(frozen=True, slots=True)
class _Times:
    since: str
    changed: str
    was_cancelled: bool  #: what ended last of it was not wanted any more


def _times(tx: Transaction, id: str) -> _Times:
    """When work was asked for and when something last came of it: of an instance, of a message, of an instruction."""
    place = tx.one("select started_at, ended_at from workspace where project = :project and id = :id", id=id)
    if place is not None:
        last = tx.one("select max(at) as at from message where project = :project and workspace = :id", id=id)
        begun, seen = place["started_at"], [place["ended_at"], last["at"] if last else None]
        return _Times(_time(begun), _time(max([begun, *(each for each in seen if each is not None)])), False)
    rows = tx.all(_ONE, id=id) or tx.all(_CAME_OF, id=id)
    begun = min(row["queued_at"] for row in rows)
    seen = [row[name] for row in rows for name in ("queued_at", "begun_at", "ended_at") if row[name] is not None]
    ended = [row for row in rows if row["ended_at"] is not None]
    newest = max(ended, key=lambda row: row["ended_at"], default=None)
    return _Times(_time(begun), _time(max(seen)), newest is not None and newest["state"] == "cancelled")


_ONE = """
select i.queued_at, i.ended_at, i.state, (
    select max(r.started_at) from run r where r.project = :project and r.instruction = i.id) as begun_at
  from instruction i where i.project = :project and i.id = :id"""

#: All work that came of a message: what is open and what has ended, each by its own index.
_CAME_OF = """
select i.queued_at, i.ended_at, i.state, i.queued_at as begun_at
  from (select m.workspace, m.root from delivery d
          join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
         where d.project = :project and d.message = :id limit 1) said
  join instruction i on i.project = :project and i.workspace = said.workspace and i.root = said.root
   and i.state in ('queued', 'running', 'waiting')
union all
select i.queued_at, i.ended_at, i.state, i.queued_at as begun_at
  from (select m.workspace, m.root, m.at from delivery d
          join message m on m.project = :project and m.workspace = d.workspace and m.seq = d.seq
         where d.project = :project and d.message = :id limit 1) said
  join instruction i on i.project = :project and i.workspace = said.workspace and i.ended_at >= said.at
   and i.root = said.root"""


def _time(micros: int) -> str:
    return from_micros(micros).isoformat(timespec="milliseconds")


def _is_running(tx: Transaction, workflow: str, tag: str) -> bool:
    row = tx.one(
        """select 1 as one from workspace
            where project = :project and workflow = :workflow and tag = :tag and state in ('running', 'left')""",
        workflow=workflow,
        tag=tag,
    )
    return row is not None
