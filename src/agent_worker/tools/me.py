"""Tools about oneself: inbox and status."""

from __future__ import annotations

from agent_worker.errors import BadInput
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import inbox, workspace
from agent_worker.workspaces.channel import as_line


@tool
def my_inbox(tx: Transaction, desk: Desk) -> str:
    """What was sent to you here and is not dealt with yet."""
    assert desk.seat.workspace
    rows = inbox.open_for(tx, desk.seat.agent, desk.seat.workspace)
    return "\n".join(as_line(row["sender"], row["text"], row["seq"]) for row in rows) or "Your inbox is empty."


@tool
def my_inbox_ack(tx: Transaction, desk: Desk, messages: list[int]) -> str:
    """Say that you have dealt with these messages of your inbox, by number. Done by itself when your work ends well."""
    done = inbox.acknowledge(tx, desk.seat.agent, desk.seat.run, messages)
    if missing := [number for number in messages if number not in done]:
        raise BadInput(f"not in your inbox: {', '.join(f'#{n}' for n in missing)}", hint="my_inbox lists what is")
    return "Done."


@tool
def my_status_set(tx: Transaction, desk: Desk, status: str) -> str:
    """Tell the team in a few words what you are doing."""
    assert desk.seat.workspace
    workspace.set_status(tx, desk.seat.workspace, desk.seat.agent, status[:200])
    return "Set."
