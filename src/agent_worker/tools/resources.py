"""Tools for large texts, which the team shares as resources."""

from __future__ import annotations

from agent_worker.core.errors import NotFound
from agent_worker.core.text import plural
from agent_worker.database.database import Transaction
from agent_worker.tools.tool import ToolContext, tool
from agent_worker.work import run_rows
from agent_worker.workspaces import resources

PAGE = 20_000  # characters


@tool
def resource_create(tx: Transaction, context: ToolContext, text: str) -> str:
    """Keep a large text for the team. You get an id to put into messages; the same text has the same id."""
    assert context.identity.workspace
    kept = resources.store(tx, context.identity.workspace, text)
    run_rows.note_produced(tx, context.identity.run)
    return f"Kept as resource {kept.id} ({plural(kept.size, 'byte')})."


@tool
def resource_read(tx: Transaction, context: ToolContext, id: str, start: int = 0, length: int = PAGE) -> str:
    """Read a resource, or the part of it from character `start` on."""
    assert context.identity.workspace
    kept = resources.load(tx, context.identity.workspace, id)
    if kept.held:
        raise NotFound(f"resource {id[:12]}… was taken back by a person")
    start, length = max(0, start), max(1, min(length, PAGE))
    rest = len(kept.text) - start - length
    tail = f"\n[{plural(rest, 'more character')}: start={start + length}]" if rest > 0 else ""
    return kept.text[start : start + length] + tail
