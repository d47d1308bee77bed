"""Messages: sending them, asking and waiting, reading conversations, and where a message went."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import Address, WorkspaceName, canonical, parse_address
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, NotRunning
from agent_worker.core.events import Ended
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import find_mentions
from agent_worker.database.database import Row, Transaction
from agent_worker.service.addresses import address_in, no_agent, workflow_called
from agent_worker.service.carried_limits import cause_of
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trust import require_approved
from agent_worker.work import agent_rows, open_work, threads
from agent_worker.workflows.runtime import Runtime
from agent_worker.workspaces import (
    channel,
    deliveries,
    member_rows,
    resources,
    routing,
    workspace_rows,
    workspace_state,
)
from agent_worker.workspaces.carried_root import CarriedRoot, check_waits_for_itself
from agent_worker.workspaces.channel import Message
from agent_worker.workspaces.routing import OutgoingMessage, Receipt

ENDS = ("done", "failed", "incomplete", "cancelled", "dead")


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a question put to one agent."""

    text: str
    state: str  #: done | failed | incomplete | cancelled | dead
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MessageView:
    """One entry of a channel or a conversation."""

    seq: int
    sender: str
    text: str
    at: int
    kind: str = "message"
    id: str = ""
    mentions: tuple[str, ...] = ()
    resource: str | None = None  #: where the whole text is, when it was long
    run: str | None = None  #: that said it
    reply_to: int | None = None
    held: bool = False  #: taken back: no agent reads it any more
    proposal: int | None = None  #: the number of the one it announces, or whose end it tells
    full_size: int | None = None  #: of the whole text, in bytes, where `text` is only its beginning


@dataclass(frozen=True, slots=True)
class Wakes:
    """Whom a message would call on, if it were sent now."""

    names: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  #: mentioned, but no members
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Calls:
    """How often one has called on another in a channel."""

    who: str
    whom: str
    count: int
    open: int = 0  #: of these, how many are not answered yet: so long one waits for the other


@dataclass(frozen=True, slots=True)
class Hop:
    """Where a message went: to whom, what became of it there, and the run it was given to."""

    name: str
    state: str
    run: str | None


@operation("POST", "/send", tool="agent_send")
async def send(
    service: Service,
    to: str,
    message: str,
    project: str | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Receipt:
    """Deliver a message to `alice`, `@workflow` or `alice@workflow`. The same key is accepted once.

    `cause` is the run of an agent that sends it by a command: the limits of what it works on go on.
    """
    loaded = await service.project(project)
    if "@" not in to:
        await require_approved(service, loaded, to)
    why = await cause_of(service, loaded, cause) if cause else None
    return await deliver(service.runtime, loaded, to, message, key=key, cause=why)


@operation("POST", "/channels/{workspace}", tool="channel_send")
async def channel_send(
    service: Service, workspace: str, message: str, project: str | None = None, key: str | None = None
) -> Receipt:
    """Say something in the channel of a running workflow. Write @name to call on a member."""
    return await deliver(
        service.runtime, await service.project(project), f"@{workspace.removeprefix('@')}", message, key=key
    )


@operation("GET", "/messages", tool="channel_read")
async def read(
    service: Service,
    at: str,
    project: str | None = None,
    since: int = 0,
    limit: int = 100,
    last: bool = False,
    before: int | None = None,
    held: bool = False,
) -> list[MessageView]:
    """Read a channel (`@workflow`) or a conversation (`alice`), after `since`; with `last`, the newest ones.

    With `before`, the newest ones before that. With `held`, also what a person took back.
    """
    loaded = await service.project(project)
    pick = _Pick(since, max(1, min(limit, 1000)), last or before is not None, before, held)
    return await service.read(loaded, _read, loaded, await service.address(loaded, at), pick)


@operation("POST", "/clear")
async def clear(service: Service, at: str, project: str | None = None) -> str:
    """Put a conversation aside and start a new one: of `alice`, of `alice@workflow`, or of all members in `@workflow`.

    Nothing is deleted: the files keep it, and agents can look it up. No prompt shows it any more.
    """
    loaded = await service.project(project)
    address = await service.address(loaded, at)
    await service.write(loaded, _clear, loaded, address)
    return str(address)


@operation("POST", "/preview")
async def preview(service: Service, at: str, message: str, project: str | None = None) -> Wakes:
    """Whom a message in a channel would wake. Nothing is sent."""
    loaded = await service.project(project)
    return await service.read(loaded, _wakes, await service.address(loaded, at), message)


@operation("GET", "/mentions")
async def mentions_map(service: Service, at: str, project: str | None = None) -> list[Calls]:
    """Who has called on whom in a channel, and how often."""
    loaded = await service.project(project)
    return await service.read(loaded, _calls, await service.address(loaded, at))


@operation("POST", "/ask")
async def ask(service: Service, agent: str, message: str, project: str | None = None) -> Answered:
    """Send a direct message to an agent and wait for the answer."""
    return await put_question(service.runtime, await service.project(project), agent, message)


@operation("GET", "/trace/{message}")
async def trace(service: Service, message: str) -> list[Hop]:
    """Where a message went, to an agent or in a channel; empty when it called on nobody."""
    database, message = await service.holding(message, "message", "work", "unheard")
    return await database.read(_trace, message)


# --- for those inside the process ---------------------------------------------------------------------


async def deliver(
    runtime: Runtime,
    loaded: LoadedProject,
    to: str,
    text: str,
    *,
    key: str | None = None,
    cause: CarriedRoot | None = None,
) -> Receipt:
    routing.check_size(text)
    database, now = runtime.database.of(loaded.id), runtime.clock.micros()
    address = await address_in(database, loaded, to)
    return await database.write(hand_over, loaded, address, text, now=now, key=key, cause=cause)


async def stored(service: Service, keys: Sequence[str], project: str | None) -> tuple[str, ...]:
    """Which of these keys belong to messages that have arrived."""
    loaded = await service.project(project)
    return await service.read(loaded, _stored, keys)


async def put_question(runtime: Runtime, loaded: LoadedProject, agent: str, text: str) -> Answered:
    """Send a direct message and wait for what becomes of it."""
    if parse_address(agent).workflow is not None:
        raise BadInput(f"{agent} is not a direct address: only an agent by itself can be asked", hint="such as alice")
    answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
    ended: dict[str, Answered] = {}  # while we do not know yet which is ours: many may end while we wait
    asked: list[str] = []

    def hear(event: Ended) -> None:
        if event.state not in ENDS or (asked and event.instruction != asked[0]):
            return
        told = Answered(event.text, event.state, event.reason)
        if not asked:
            ended[event.instruction] = told
        elif not answer.done():
            answer.set_result(told)

    def close() -> None:
        if not answer.done():
            answer.set_exception(NotRunning("it was closed before it had an answer", hint="open it again, and ask"))

    unlisten, unwait = runtime.bus.listen(hear, Ended), runtime.bus.when_closed(close)
    try:
        receipt = await deliver(runtime, loaded, agent, text)
        asked.append(receipt.id)
        return ended[receipt.id] if receipt.id in ended else await answer
    finally:
        unlisten()
        unwait()
        answer.cancel()


async def read_channel(
    runtime: Runtime, loaded: LoadedProject, at: str, *, since: int = 0, limit: int = 100
) -> list[Message]:
    return await runtime.database.of(loaded.id).read(_messages, parse_address(at), since, limit)


def last_words(tx: Transaction, agent: str, count: int) -> Sequence[threads.ThreadEntry]:
    """The end of the direct conversation with an agent."""
    return threads.recent(tx, agent, threads.PERSONAL, count)


def agent_id(loaded: LoadedProject, name: str) -> str:
    found = canonical(name, loaded.agents)
    if found is None and (broken := canonical(name, loaded.project.broken)) is not None:
        raise DefinitionError(loaded.project.wrong_with(broken))
    if found is None:
        if canonical(name, loaded.project.broken_workflows):
            raise loaded.project.no_workflow(name)
        raise no_agent(name, loaded.agents, workflow=workflow_called(name, loaded.project.workflows))
    return loaded.agents[found]


def hand_over(
    tx: Transaction,
    loaded: LoadedProject,
    to: Address,
    text: str,
    *,
    now: int,
    key: str | None = None,
    cause: CarriedRoot | None = None,
) -> Receipt:
    if to.workspace is None:
        agent = agent_id(loaded, to.agent or "")
        receipt = routing.tell_agent(tx, agent, text, now=now, key=key, cause=cause)
        if cause:
            check_waits_for_itself(tx, cause, [agent])
        me = agent_rows.identity(tx, agent)
        name = str(me["name"])
        return replace(
            receipt, woke=(name,), asleep=tuple(filter(None, [asleep(tx, me)])), told=as_before(loaded, name)
        )
    workspace = workspace_rows.find_running(tx, to.workspace)
    speech = OutgoingMessage(workspace=workspace["id"], sender="user", text=text, to=to.agent)
    if cause:
        speech = replace(speech, root=cause.root, hop=cause.hop)
    receipt = routing.say(tx, speech, now=now, key=key)
    members = member_rows.members_in(tx, workspace["id"]) if receipt.woke else {}
    if cause:
        check_waits_for_itself(tx, cause, [members[name] for name in receipt.woke])
    called = (asleep(tx, agent_rows.identity(tx, members[name]), workspace) for name in receipt.woke)
    waits = _paused(workspace) if receipt.woke else ""
    return replace(receipt, asleep=tuple(filter(None, called)), told=receipt.told or waits)


def as_before(loaded: LoadedProject, agent: str) -> str:
    """What a person should know who talks to an agent whose file they have just broken: it is not what they wrote."""
    wrong = loaded.project.wrong_with(agent) if agent in loaded.project.agent_files else []
    return f"{agent} works as before the mistake in its file: {wrong[0]}" if wrong else ""


def _paused(workspace: Row) -> str:
    """What a person should know who has just called on members that may not begin."""
    if not workspace["paused"]:
        return ""
    name = workspace_rows.name_of(workspace)
    return f"@{name} is paused, so this waits ({workspace['paused']}); to go on: agent-worker resume @{name}"


def asleep(tx: Transaction, me: Row, workspace: Row | None = None) -> str:
    """An agent's address if it takes no work, or none of this workspace, until a person lets it; '' if it does."""
    member = member_rows.member_row(tx, workspace["id"], me["id"]) if workspace else None
    there = f"{member['name']}@{workspace_rows.name_of(workspace)}" if workspace and member else ""
    if member and member["away"]:
        return there
    if me["paused"] or me["state"] in ("stopped", "error"):
        return there if me["kind"] == "inline" else str(me["name"])
    return ""


def _stored(tx: Transaction, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(key for key in keys if routing.accepted(tx, key))


def _clear(tx: Transaction, loaded: LoadedProject, at: Address) -> None:
    if at.workspace is None:
        return threads.clear(tx, agent_id(loaded, at.agent or ""), threads.PERSONAL)
    workspace = workspace_rows.find(tx, at.workspace)
    if at.agent is not None:
        member = member_rows.member_called(tx, workspace["id"], at.agent)
        return threads.clear(tx, member["agent"], workspace["id"])
    workspace_state.clear(tx, workspace["id"])
    for agent in member_rows.members_in(tx, workspace["id"]).values():
        threads.clear(tx, agent, workspace["id"])


def _messages(tx: Transaction, at: Address, since: int, limit: int) -> list[Message]:
    workspace = workspace_rows.find(tx, at.workspace or WorkspaceName(""))
    return channel.read(tx, workspace["id"], since=since, limit=limit)


@dataclass(frozen=True, slots=True)
class _Pick:
    since: int
    limit: int
    last: bool
    before: int | None
    held: bool


def _read(tx: Transaction, loaded: LoadedProject, at: Address, pick: _Pick) -> list[MessageView]:
    if at.workspace is None:
        return _conversation(tx, agent_id(loaded, at.agent or ""), threads.PERSONAL, pick)
    row = workspace_rows.find(tx, at.workspace)
    workspace = row["id"]
    if at.agent is not None:
        member = member_rows.member_called(tx, workspace, at.agent)
        return _conversation(tx, member["agent"], workspace, pick)
    if pick.last:
        after = pick.since if pick.before else max(pick.since, row["cleared"])
        found = channel.last(tx, workspace, pick.limit, after=after, before=pick.before or 2**62, with_held=pick.held)
    else:
        found = channel.read(tx, workspace, since=pick.since, limit=pick.limit, with_held=pick.held)
    return [_line(tx, message) for message in found]


def _line(tx: Transaction, m: Message) -> MessageView:
    size = resources.size(tx, m.workspace, m.resource) if m.resource else None
    return MessageView(
        m.seq, m.sender, m.text, m.at, m.kind, m.id, m.mentions, m.resource, m.run, m.reply_to, m.held, m.proposal, size
    )


def _conversation(tx: Transaction, agent: str, context: str, pick: _Pick) -> list[MessageView]:
    if pick.last and pick.before is None:
        talk = threads.recent(tx, agent, context, pick.limit, with_held=pick.held)
    elif pick.last:
        talk = threads.before(tx, agent, context, pick.before, pick.limit, with_held=pick.held)
    else:
        talk = threads.since(tx, agent, context, pick.since, limit=pick.limit, with_held=pick.held)
    return [MessageView(t.seq, t.who, t.text, t.at, t.kind, run=t.run, held=t.held) for t in talk]


def _wakes(tx: Transaction, at: Address, text: str) -> Wakes:
    workspace = workspace_rows.find(tx, at.workspace or WorkspaceName(""))
    members = tuple(member_rows.members_in(tx, workspace["id"]))
    if at.agent is not None:
        return Wakes((at.agent,), members=members)
    found = find_mentions(text, members, sender="user")
    desk = "" if found.names else workspace_rows.at_desk(workspace, members)
    return Wakes(found.names or ((desk,) if desk else ()), found.unknown, members)


def _trace(tx: Transaction, id: str) -> list[Hop]:
    rows = deliveries.trace(tx, id) or open_work.trace(tx, id)
    if not rows and not channel.is_known(tx, id):
        places = [f"@{workspace_rows.name_of(row)}" for row in workspace_rows.of_project(tx)]
        hint = f"agent-worker peek {places[-1]} --json" if places else "agent-worker runs"
        raise NotFound(f"there is no message {id}", hint=hint)
    return [Hop(row["name"], row["state"], row["run"]) for row in rows]


def _calls(tx: Transaction, at: Address) -> list[Calls]:
    workspace = workspace_rows.find(tx, at.workspace or WorkspaceName(""))
    counted: Counter[tuple[str, str]] = Counter()
    for row in tx.all(
        """select sender, mentions, count(*) as n from message
            where project = :project and workspace = :workspace and mentions <> '[]'
            group by sender, mentions order by sender, mentions""",
        workspace=workspace["id"],
    ):
        for name in json.loads(row["mentions"]):
            counted[row["sender"], name] += row["n"]
    waiting = {(row["who"], row["whom"]): row["n"] for row in deliveries.unanswered(tx, workspace["id"])}
    pairs = dict.fromkeys([*counted, *waiting])
    return [Calls(*pair, max(counted[pair], waiting.get(pair, 0)), waiting.get(pair, 0)) for pair in pairs]
