"""Talk becomes work: a message goes into the channel, to those it mentions, and into their queues.

Here the ring closes, in one transaction. Everything that speaks in a workspace comes through `say`: a person,
a kickoff, a tool, the answer of a run. Direct messages come through `tell_agent`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.failpoints import failpoint
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.mentions import NAMED, Mentions, find_mentions, nobody_called, nobody_named
from agent_worker.core.text import plural
from agent_worker.database.database import Transaction
from agent_worker.work import inbox, open_work, queue, threads
from agent_worker.work.queue import Lane, Order
from agent_worker.workspaces import channel, deliveries, member_rows, resources, workspace_rows
from agent_worker.workspaces.carried_root import CarriedRoot
from agent_worker.workspaces.channel import Draft, Message

MESSAGE_LIMIT = 256 * 1024
HEAD = 600
RECIPIENTS = 50
KEYS_KEPT = 24 * 3600 * 1_000_000  # microseconds
KICKOFF = "kickoff/"  # what the key of one begins with


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """Something to be said in a workspace."""

    workspace: str
    sender: str
    text: str
    to: str | None = None  #: a member by name: lane normal, no mention needed
    calls: tuple[str, ...] | None = None  #: just these members, as if mentioned, whoever the text names
    kind: channel.Kind = "message"
    root: str = ""  #: '' makes this message a root
    hop: int = 0
    run: str | None = None
    reply_to: int | None = None
    proposal: int | None = None  #: that it announces, or whose end it tells
    quoted: Sequence[tuple[int, int]] = ()  #: spans that are somebody else's words: no mention counts there


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a message that was sent."""

    id: str
    seq: int | None = None
    woke: tuple[str, ...] = ()  #: names of those who got it into their queue
    unknown: tuple[str, ...] = ()  #: mentioned, but no members: bounced
    members: tuple[str, ...] = ()
    resource: str | None = None
    asleep: tuple[str, ...] = ()  #: those of them who do nothing until a person lets them, as they are addressed
    desk: str = ""  #: who got it although it calls on nobody
    told: str = ""  #: what a person who sent it should know: whom it did not reach


def say(tx: Transaction, speech: OutgoingMessage, *, now: int, key: str | None = None) -> Receipt:
    """Post a message and queue the work it causes."""
    if key and (known := accepted(tx, key)):
        return Receipt(id=known)
    agents = _members_for(tx, speech)
    _check_recipient(tx, speech, agents)
    found = Mentions(names=speech.calls) if speech.calls is not None else _mentions(speech, agents)
    called = found.names if speech.to is None else (speech.to,)
    desk = "" if called else _desk(tx, speech, agents)
    if desk:
        called = (desk,)
        agents = agents if desk in agents else member_rows.members_in(tx, speech.workspace)
    if len(called) > RECIPIENTS:
        raise BadInput(f"a message wakes at most {RECIPIENTS} members; this one names {len(called)}")
    failpoint("accept.before_message")
    draft = _draft(tx, speech, called)
    if speech.sender == "user" and not speech.hop and not channel.said_before(tx, draft.workspace, "user", draft.text):
        member_rows.begin_anew(tx, speech.workspace)  # what a person writes is something new, whatever the answers are
    message = channel.post(tx, draft, now=now)
    for name in called:
        _give_work(tx, speech, message, agents[name], now=now)
    if speech.sender == "user" and called:
        inbox.close_mentions(tx, speech.workspace, (agents[name] for name in called))
    if found.user and speech.sender != "user":
        _ask_the_person(tx, speech, message, agents.get(speech.sender), now=now)
    if key:
        accept(tx, key, message.id, now=now)
    return Receipt(
        id=message.id,
        seq=message.seq,
        woke=called,
        unknown=found.unknown,
        members=tuple(agents),
        resource=message.resource,
        desk=desk,
        told=_missed(found, called, agents) if speech.sender == "user" else "",
    )


def is_new(tx: Transaction, speech: OutgoingMessage) -> bool:
    """Whether its sender has not said just this here lately, as it would be stored: secrets and length do not count."""
    return not channel.said_before(tx, speech.workspace, speech.sender, _draft(tx, speech, ()).text)


def _members_for(tx: Transaction, speech: OutgoingMessage) -> dict[str, str]:
    """Name → id of all members, if it may call on any; of those that its sender is told of, if it is a person's."""
    if speech.to is not None or speech.calls or "@" in speech.text:
        return member_rows.members_in(tx, speech.workspace)
    return member_rows.members_in(tx, speech.workspace, most=NAMED + 1) if speech.sender == "user" else {}


def _check_recipient(tx: Transaction, speech: OutgoingMessage, members: Collection[str]) -> None:
    if speech.to is not None and speech.to not in members:
        workspace = workspace_rows.get(tx, speech.workspace)
        raise Refused(
            f'{speech.to} is not a participant in workflow "{workspace["workflow"]}". '
            f"Add {speech.to} to .workflows/{workspace['workflow']}.yaml first.",
            hint=f"its members are: {', '.join(members)}",
        )


def _give_work(tx: Transaction, speech: OutgoingMessage, message: Message, agent: str, *, now: int) -> None:
    """Give a message to those it calls on: as a delivery, and as an instruction in their queue."""
    deliveries.deliver(tx, message, agent)
    order = Order(
        agent=agent,
        text=message.text,
        source="channel" if speech.to is None else "workspace",
        sender=speech.sender,
        lane=Lane.IMMEDIATE if speech.to is None else Lane.NORMAL,
        root=message.root,
        workspace=speech.workspace,
        message=message.id,
        hop=message.hop,
        continues=continued(tx, agent, speech.workspace, speech.text),
    )
    queue.put(tx, order, now=now)


def _ask_the_person(tx: Transaction, speech: OutgoingMessage, message: Message, agent: str | None, *, now: int) -> None:
    inbox.ask(
        tx,
        "mention",
        workspace=speech.workspace,
        agent=agent,
        ref=message.id,
        text=f"{speech.sender}: {message.text[:500]}",
        now=now,
    )


def _desk(tx: Transaction, speech: OutgoingMessage, members: Collection[str]) -> str:
    """The member that answers a message which calls on nobody: only a person's, or agents would talk without end."""
    if speech.sender != "user" or speech.kind != "message":
        return ""
    return workspace_rows.at_desk(workspace_rows.get(tx, speech.workspace), members)


def _missed(found: Mentions, called: Sequence[str], members: Iterable[str]) -> str:
    if found.unknown:
        return nobody_named(found.unknown, members)
    return "" if called else nobody_called(members)


def _mentions(speech: OutgoingMessage, agents: Mapping[str, str]) -> Mentions:
    return find_mentions(speech.text, agents, sender=speech.sender, quoted=speech.quoted)


def _draft(tx: Transaction, speech: OutgoingMessage, called: tuple[str, ...]) -> Draft:
    """The message as it is stored: without secrets, and only the head of what is long."""
    text, resource = tx.redact(speech.text), None
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > HEAD and size > workspace_rows.get(tx, speech.workspace)["smart_send"]:  # then it carries only its head
        kept = resources.store(tx, speech.workspace, text)
        resource = kept.id
        text = f"{text[:HEAD].rstrip()}\n[… {plural(kept.size, 'byte')} in all: resource_read {kept.id}]"
    return Draft(
        workspace=speech.workspace,
        sender=speech.sender,
        text=text,
        kind=speech.kind,
        mentions=called,
        resource=resource,
        reply_to=speech.reply_to,
        proposal=speech.proposal,
        root=speech.root,
        hop=speech.hop,
        run=speech.run,
    )


def continued(tx: Transaction, agent: str, workspace_id: str | None, text: str) -> str | None:
    """The id of the instruction that `continue` goes on with: what the agent last left incomplete in this context."""
    words = [word.strip(".!,") for word in text.lower().split() if not word.startswith("@")]
    if words not in (["continue"], ["please", "continue"]):
        return None
    return open_work.last_incomplete(tx, agent, workspace_id)


def hear(tx: Transaction, run: str, *, now: int) -> None:
    """Put what a run was asked into its agent's thread: once, and before anything it says."""
    for row in queue.hear(tx, run):
        context = row["workspace"] or threads.PERSONAL
        threads.say(tx, row["agent"], context, who=row["sender"], text=row["text"], run=run, now=now)


def notice(tx: Transaction, workspace_id: str, text: str, *, root: str = "", now: int) -> Message:
    """Post a message of the system in the channel. Nobody is woken by it."""
    return channel.post(
        tx, Draft(workspace=workspace_id, sender="system", text=text, kind="system", root=root), now=now
    )


def tell_agent(
    tx: Transaction,
    agent: str,
    text: str,
    *,
    now: int,
    sender: str = "user",
    key: str | None = None,
    cause: CarriedRoot | None = None,
) -> Receipt:
    """Give an agent a direct message from a person: personal context, answered before other work."""
    if key and (known := accepted(tx, key)):
        return Receipt(id=known)
    check_size(text)
    id = new_id("i")
    order = Order(
        agent=agent,
        text=text,
        source="dm",
        sender=sender,
        lane=Lane.IMMEDIATE,
        root=cause.root if cause and cause.root else id,
        hop=cause.hop if cause else 0,
        continues=continued(tx, agent, None, text),
    )
    queue.put(tx, order, now=now, id=id)
    if key:
        accept(tx, key, id, now=now)
    return Receipt(id=id)


def accepted(tx: Transaction, key: str) -> str | None:
    """What an earlier send with this key became."""
    row = tx.one("select ref from accepted where project = :project and key = :key", key=_kept(tx, key))
    return str(row["ref"]) if row else None


def forget_keys(tx: Transaction, *, now: int) -> None:
    """Forget keys of messages older than a day, but for those of kickoffs: an instance may be reopened later."""
    tx.run(
        "delete from accepted where project = :project and at < :before and substr(key, 1, :length) <> :kickoff",
        before=now - KEYS_KEPT,
        length=len(KICKOFF),
        kickoff=KICKOFF,
    )


def accept(tx: Transaction, key: str, ref: str, *, now: int) -> None:
    tx.run(
        "insert into accepted(project, key, ref, at) values (:project, :key, :ref, :at)",
        key=_kept(tx, key),
        ref=ref,
        at=now,
    )


def _kept(tx: Transaction, key: str) -> str:
    """A key as it is stored. One that holds a secret is known by its hash: without the secret it would be another's."""
    return key if tx.redact(key) == key else hashlib.sha256(key.encode()).hexdigest()


def check_size(text: str) -> None:
    """Refuse a message that is empty or too long. The answer of a run may be longer, and becomes a resource."""
    if not text.strip():
        raise BadInput("an empty message was not sent")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput("the text holds half a character: it is not valid Unicode") from None
    if size > MESSAGE_LIMIT:
        raise BadInput(
            f"a message holds at most {MESSAGE_LIMIT // 1024} KiB",
            hint="put the text into a resource or a document and send its name",
        )
