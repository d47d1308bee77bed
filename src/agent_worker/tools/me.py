"""Tools about the agent itself: its inbox and its status."""

from __future__ import annotations

from agent_worker.core.errors import BadInput
from agent_worker.database.database import Transaction
from agent_worker.tools.tool import ToolContext, tool
from agent_worker.workspaces import deliveries, member_rows
from agent_worker.workspaces.channel import as_line


@tool
def my_inbox(tx: Transaction, context: ToolContext) -> str:
    """What was sent to you here and is not dealt with yet."""
    assert context.identity.workspace
    rows = deliveries.open_for(tx, context.identity.agent, context.identity.workspace)
    return "\n".join(as_line(row["sender"], row["text"], row["seq"]) for row in rows) or "Your inbox is empty."


@tool
def my_inbox_ack(tx: Transaction, context: ToolContext, messages: list[int]) -> str:
    """Say that you have dealt with these messages of your inbox, by number. Done by itself when your work ends well."""
    done = deliveries.acknowledge(tx, context.identity.agent, context.identity.run, messages)
    if missing := [number for number in messages if number not in done]:
        raise BadInput(f"not in your inbox: {', '.join(f'#{n}' for n in missing)}", hint="my_inbox lists what is")
    return "Done."


@tool
def my_status_set(tx: Transaction, context: ToolContext, status: str) -> str:
    """Tell the team in a few words what you are doing."""
    assert context.identity.workspace
    member_rows.set_status(tx, context.identity.workspace, context.identity.agent, status[:200])
    return "Set."
