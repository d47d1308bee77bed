"""Tools to talk with the team: its channel."""

from __future__ import annotations

from agent_worker.database.database import Transaction
from agent_worker.tools.tool import RunIdentity, ToolContext, tool
from agent_worker.work import run_rows, threads
from agent_worker.workspaces import channel, member_rows, routing

PAGE = 50
LATELY = 100  # lines of its thread in which a run looks for its own words


@tool
def channel_send(tx: Transaction, context: ToolContext, text: str) -> str:
    """Say something to the team now. Write @name to call on someone; the others read it later.

    Not needed for your answer: your final text is posted by itself, unless you have used this.
    """
    identity, now = context.identity, context.clock.micros()
    assert identity.workspace
    if _said_in_this_run(tx, identity, text):
        return "You have said exactly this already; it was not sent again."
    routing.check_size(text)
    speech = routing.OutgoingMessage(
        workspace=identity.workspace,
        sender=identity.name,
        text=text,
        root=identity.root,
        hop=identity.hop + 1,
        run=identity.run,
    )
    receipt = routing.say(tx, speech, now=now)
    run_rows.note_produced(tx, identity.run, posted=True)
    routing.hear(tx, identity.run, now=now)
    threads.say(tx, identity.agent, identity.workspace, who=identity.name, text=text, run=identity.run, now=now)
    return _told(receipt)


@tool
def channel_read(tx: Transaction, context: ToolContext, since: int | None = None, limit: int = PAGE) -> str:
    """Read the channel in order, after message number `since` (default: what you have not seen). Marks it as seen."""
    assert context.identity.workspace
    start = _seen(tx, context) if since is None else since
    messages = channel.read(tx, context.identity.workspace, since=start, limit=max(1, min(limit, 200)))
    if not messages:
        return "Nothing new."
    member_rows.mark_seen(tx, context.identity.workspace, context.identity.agent, messages[-1].seq)
    return _shown(messages)


@tool
def channel_peek(tx: Transaction, context: ToolContext, limit: int = 20) -> str:
    """Look at the latest messages without marking them as seen."""
    assert context.identity.workspace
    messages = channel.last(tx, context.identity.workspace, max(1, min(limit, 200)))
    return _shown(messages) if messages else "The channel is empty."


def _said_in_this_run(tx: Transaction, identity: RunIdentity, text: str) -> bool:
    talk = threads.recent(tx, identity.agent, identity.workspace or threads.PERSONAL, LATELY)
    return any((line.run, line.who, line.text) == (identity.run, identity.name, text) for line in talk)


def _seen(tx: Transaction, context: ToolContext) -> int:
    row = tx.one(
        "select seen from member where project = :project and workspace = :workspace and agent = :agent",
        workspace=context.identity.workspace,
        agent=context.identity.agent,
    )
    return int(row["seen"]) if row else 0


def _shown(messages: list[channel.Message]) -> str:
    return "\n".join(channel.as_line(m.sender, m.text, m.seq) for m in messages)


def _told(receipt: routing.Receipt) -> str:
    parts = [f"Sent as #{receipt.seq}."]
    if receipt.woke:
        parts.append(f"Called on: {', '.join(receipt.woke)}.")
    if receipt.unknown:
        parts.append(
            f"Nobody here is called {', '.join(receipt.unknown)}; the members are: {', '.join(receipt.members)}."
        )
    return " ".join(parts)
