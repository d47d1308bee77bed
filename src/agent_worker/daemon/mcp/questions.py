"""What waits for the person, as a form that their client shows, and what they said to it."""

from __future__ import annotations

from typing import Any

import mcp_types as wire
from mcp.server import ServerRequestContext

from agent_worker.service.inbox import inbox_answer, inbox_show
from agent_worker.service.service import Service

NEWER = "2026-07-28"  #: the first protocol in which an answer may be a question


def can_ask(context: ServerRequestContext[Any]) -> bool:
    able = context.session.client_capabilities
    return context.protocol_version >= NEWER and able is not None and able.elicitation is not None


def question(item: dict[str, Any]) -> wire.ElicitRequest:
    """An item of the inbox as a form that a client shows."""
    if item["kind"] == "approval":
        decision = {"type": "string", "enum": ["approve", "deny"], "title": "Decision"}
        properties: dict[str, Any] = {"decision": decision, "why": {"type": "string", "title": "Why (optional)"}}
        required = ["decision"]
    else:
        answer = {"type": "string", "title": "Answer"} | ({"enum": item["options"]} if item["options"] else {})
        properties, required = {"answer": answer}, ["answer"]
    schema = {"type": "object", "properties": properties, "required": required}
    params = wire.ElicitRequestFormParams(message=item["text"], requested_schema=schema)
    return wire.ElicitRequest(params=params)


async def give(service: Service, id: str, reply: wire.ElicitResult) -> None:
    """Give the person's answer to one item, as their client brings it. Somebody may have answered it already."""
    item = await inbox_show(service, id)
    content = reply.content or {}
    if reply.action != "accept":
        if reply.action == "decline":
            await inbox_answer(service, item.id, "deny" if item.kind == "approval" else "dismiss")
        return
    if item.kind == "approval":
        yes = content.get("decision") == "approve"
        await inbox_answer(service, item.id, "approve" if yes else "deny", str(content.get("why") or ""))
    else:
        await inbox_answer(service, item.id, "answer", str(content.get("answer") or ""), other=True)
