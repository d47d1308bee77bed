"""Tools to talk with the team."""

from __future__ import annotations

from agent_worker import instructions, routing, threads
from agent_worker.clock import micros
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, Seat, tool
from agent_worker.workspaces import channel, workspace

PAGE = 50
LATELY = 100  # lines of its thread in which a run looks for its own words


@tool
def channel_send(tx: Transaction, desk: Desk, text: str) -> str:
    """Say something to the team now. Write @name to call on someone; the others read it later.

    Not needed for your answer: your final text is posted by itself, unless you have used this.
    """
    seat, now = desk.seat, micros(desk.clock.now())
    assert seat.workspace
    if _said_in_this_run(tx, seat, text):
        return "You have said exactly this already; it was not sent again."
    routing.check_size(text)
    speech = routing.Speech(
        workspace=seat.workspace, sender=seat.name, text=text, root=seat.root, hop=seat.hop + 1, run=seat.run
    )
    receipt = routing.say(tx, speech, now=now)
    instructions.note_produced(tx, seat.run, posted=True)
    routing.hear(tx, seat.run, now=now)
    threads.say(tx, seat.agent, seat.workspace, who=seat.name, text=text, run=seat.run, now=now)
    return _told(receipt)


@tool
def channel_read(tx: Transaction, desk: Desk, since: int | None = None, limit: int = PAGE) -> str:
    """Read the channel in order, after message number `since` (default: what you have not seen). Marks it as seen."""
    assert desk.seat.workspace
    start = _seen(tx, desk) if since is None else since
    messages = channel.read(tx, desk.seat.workspace, since=start, limit=max(1, min(limit, 200)))
    if not messages:
        return "Nothing new."
    workspace.mark_seen(tx, desk.seat.workspace, desk.seat.agent, messages[-1].seq)
    return _shown(messages)


@tool
def channel_peek(tx: Transaction, desk: Desk, limit: int = 20) -> str:
    """Look at the latest messages without marking them as seen."""
    assert desk.seat.workspace
    messages = channel.last(tx, desk.seat.workspace, max(1, min(limit, 200)))
    return _shown(messages) if messages else "The channel is empty."


def _said_in_this_run(tx: Transaction, seat: Seat, text: str) -> bool:
    talk = threads.recent(tx, seat.agent, seat.workspace or threads.PERSONAL, LATELY)
    return any((line.run, line.who, line.text) == (seat.run, seat.name, text) for line in talk)


def _seen(tx: Transaction, desk: Desk) -> int:
    row = tx.one(
        "select seen from member where workspace = :workspace and agent = :agent",
        workspace=desk.seat.workspace,
        agent=desk.seat.agent,
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
