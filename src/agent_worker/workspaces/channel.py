"""The channel: an append-only log whose `seq` is the one order everybody sees. The one writer of `message`."""

from __future__ import annotations

import json
from typing import Literal

from agent_worker.core.errors import NotRunning
from agent_worker.core.events import Posted
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Soon, Transaction
from agent_worker.workspaces import workspace_state

Kind = Literal["message", "system", "proposal", "decision"]
LATELY = 500  # messages of a channel among which a repetition is noticed
UNSEEN = 50  #: messages that a member is shown at most of those that came since it last looked


@dataclass(slots=True)
class Message:
    """One entry of a channel. Nobody changes it, but frozen it would take four times as long to make."""

    workspace: str
    seq: int
    id: str
    sender: str
    text: str
    kind: Kind
    mentions: tuple[str, ...]  #: names, found once, when it was written
    root: str
    hop: int
    at: int
    resource: str | None = None  #: where the whole text is, when it was long
    reply_to: int | None = None
    proposal: int | None = None  #: the number of the one it announces, or whose end it tells
    run: str | None = None
    held: bool = False  #: taken back by a person

    @classmethod
    def of(cls, row: Row) -> Message:
        return cls(
            workspace=row["workspace"],
            seq=row["seq"],
            id=row["id"],
            sender=row["sender"],
            text=row["text"],
            kind=row["kind"],
            mentions=tuple(json.loads(row["mentions"])),
            root=row["root"],
            hop=row["hop"],
            at=row["at"],
            resource=row["resource"],
            reply_to=row["reply_to"],
            proposal=row["proposal"],
            run=row["run"],
            held=bool(row["held"]),
        )

    def posted(self, *, number: int = 0) -> Posted:
        """The event that tells of a message."""
        return Posted(
            workspace=self.workspace,
            number=number,
            seq=self.seq,
            id=self.id,
            sender=self.sender,
            text=self.text,
            kind=self.kind,
            mentions=self.mentions,
            proposal=self.proposal,
            resource=self.resource,
        )


@dataclass(slots=True)
class Draft:
    """A message before it has its `seq`. Not frozen, like `Message`."""

    workspace: str
    sender: str
    text: str
    kind: Kind = "message"
    mentions: tuple[str, ...] = ()
    resource: str | None = None
    reply_to: int | None = None
    proposal: int | None = None  #: the number of the one it announces, or whose end it tells
    root: str = ""  #: '' makes the message its own root
    hop: int = 0
    run: str | None = None


def post(tx: Transaction, draft: Draft, *, now: int) -> Message:
    seq = workspace_state.next_seq(tx, draft.workspace)
    if seq is None:
        raise NotRunning("this workspace is closed: nothing more can be said here")
    id = new_id("m")
    message = Message(
        workspace=draft.workspace,
        seq=seq,
        id=id,
        sender=draft.sender,
        text=draft.text,
        kind=draft.kind,
        mentions=draft.mentions,
        root=draft.root or id,
        hop=draft.hop,
        at=now,
        resource=draft.resource,
        reply_to=draft.reply_to,
        proposal=draft.proposal,
        run=draft.run,
    )
    tx.run(
        """insert into message(project, workspace, seq, id, sender, kind, text, mentions, resource, reply_to,
           proposal, root,
                               hop, run, at)
           values (:project, :workspace, :seq, :id, :sender, :kind, :text, :mentions, :resource, :reply_to, :proposal,
           :root,
                   :hop, :run, :at)""",
        workspace=message.workspace,
        seq=message.seq,
        id=id,
        sender=message.sender,
        kind=message.kind,
        text=message.text,
        mentions=json.dumps(message.mentions) if message.mentions else "[]",
        resource=message.resource,
        reply_to=message.reply_to,
        proposal=message.proposal,
        root=message.root,
        hop=message.hop,
        run=message.run,
        at=now,
    )
    tx.tell(message.posted())
    return message


def as_line(who: str, text: str, seq: int | None = None) -> str:
    """What somebody said as a model reads it. Further lines are set in: none can pass for somebody else's."""
    said = "\n  ".join(text.splitlines())
    return f"#{seq} {who}: {said}" if seq else f"{who}: {said}"


def read(
    tx: Transaction, workspace: str, *, since: int = 0, limit: int = 100, with_held: bool = False
) -> list[Message]:
    """Messages in order, after `since`. What was taken back is only for people."""
    rows = tx.all(
        """select * from message where project = :project and workspace = :workspace and seq > :since and held <= :held
            order by seq limit :limit""",
        workspace=workspace,
        since=since,
        held=int(with_held),
        limit=limit,
    )
    return [Message.of(row) for row in rows]


def at(tx: Transaction, workspace: str, seq: int) -> Message | None:
    row = tx.one(
        "select * from message where project = :project and workspace = :workspace and seq = :seq and held = 0",
        workspace=workspace,
        seq=seq,
    )
    return Message.of(row) if row else None


def is_known(tx: Transaction, id: str) -> bool:
    """Whether there is a message with this id. Searches all messages: not for frequent use."""
    return tx.one("select 1 as one from message where project = :project and id = :id", id=id) is not None


def was_told(tx: Transaction, workspace: str, text: str) -> bool:
    """Whether a message of the system says this already. Searches all messages: not for frequent use."""
    sql = "select 1 as one from message where project = :project and workspace = :workspace and kind = 'system'"
    return tx.one(f"{sql} and text = :text limit 1", workspace=workspace, text=text) is not None


def last(
    tx: Transaction, workspace: str, count: int, *, after: int = 0, before: int = 2**62, with_held: bool = False
) -> list[Message]:
    """The newest messages between two seqs, the oldest of them first. What was taken back is only for people."""
    rows = tx.all(
        """select * from message
            where project = :project and workspace = :workspace and seq > :after and seq < :before and held <= :held
            order by seq desc limit :count""",
        workspace=workspace,
        after=after,
        before=before,
        held=int(with_held),
        count=count,
    )
    return [Message.of(row) for row in reversed(rows)]


def unseen_soon(tx: Transaction, workspace: str, agent: str) -> Soon[list[Row]]:
    """The newest messages that a member was not shown yet, the newest first, and whether the run that posted one read
    from outside: `UNSEEN`, and one more if there are older ones.
    """
    # Their number is no parameter: when PostgreSQL knows it, it need not plan anew each time.
    return tx.all_soon(
        """select m.seq, m.sender, m.text, m.run,
                  (select r.outside from run r where r.project = :project and r.id = m.run) as outside
             from message m
            where m.project = :project and m.workspace = :workspace and m.held = 0
              and m.seq > coalesce((select seen from member
                                     where project = :project and workspace = :workspace and agent = :agent), 0)
            order by m.seq desc limit 51""",
        workspace=workspace,
        agent=agent,
    )


def count_from_others(tx: Transaction, workspace: str, me: str, *, after: int, before: int) -> int:
    """How many messages of others there are between two seqs."""
    row = tx.one(
        """select count(*) as n from message
            where project = :project and workspace = :workspace and seq > :after and seq < :before
              and held = 0 and sender <> :me""",
        workspace=workspace,
        me=me,
        after=after,
        before=before,
    )
    return int(row["n"]) if row else 0


def hold_back(tx: Transaction, workspace: str, run: str) -> list[Row]:
    """Take back what a run posted: no agent gets to read it. Returns the messages."""
    return tx.all(
        """update message set held = 1
            where project = :project and workspace = :workspace and run = :run and held = 0 returning *""",
        workspace=workspace,
        run=run,
    )


def hold_back_proposal(tx: Transaction, workspace: str, number: int) -> list[Row]:
    """Take back the announcement of a proposal and its outcome, which repeats the question. Returns the messages."""
    return tx.all(
        """update message set held = 1
            where project = :project and workspace = :workspace and held = 0 and proposal = :number
           returning *""",
        workspace=workspace,
        number=number,
    )


def hold_back_outcome(tx: Transaction, workspace: str, number: int) -> list[Row]:
    """Take back the message that says how a proposal ended; the question stays. Returns the messages."""
    return tx.all(
        """update message set held = 1
            where project = :project and workspace = :workspace and held = 0 and proposal = :number
              and kind = 'decision' returning *""",
        workspace=workspace,
        number=number,
    )


def said_before(tx: Transaction, workspace: str, sender: str, text: str, *, among: int = 10) -> bool:
    """Did this sender say just this in its last few messages here? What is long past does not count."""
    rows = tx.all(
        """select text from message
            where project = :project and workspace = :workspace and sender = :sender and kind = 'message'
              and seq > (select w.seq - :lately from workspace w where w.project = :project and w.id = :workspace)
            order by seq desc limit :among""",
        workspace=workspace,
        sender=sender,
        among=among,
        lately=LATELY,
    )
    return any(row["text"].strip() == text.strip() for row in rows)


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from message where project = :project and workspace = :workspace", workspace=workspace)
