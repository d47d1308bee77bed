"""Tools for large texts."""

from __future__ import annotations

from agent_worker import instructions
from agent_worker.errors import NotFound
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import resources

PAGE = 20_000  # characters


@tool
def resource_create(tx: Transaction, desk: Desk, text: str) -> str:
    """Keep a large text for the team. You get an id to put into messages; the same text has the same id."""
    assert desk.seat.workspace
    kept = resources.store(tx, desk.seat.workspace, text)
    instructions.note_produced(tx, desk.seat.run)
    return f"Kept as resource {kept.id} ({kept.size} bytes)."


@tool
def resource_read(tx: Transaction, desk: Desk, id: str, start: int = 0, length: int = PAGE) -> str:
    """Read a resource, or the part of it from character `start` on."""
    assert desk.seat.workspace
    kept = resources.load(tx, desk.seat.workspace, id)
    if kept.held:
        raise NotFound(f"resource {id[:12]}… was taken back by a person")
    start, length = max(0, start), max(1, min(length, PAGE))
    rest = len(kept.text) - start - length
    tail = f"\n[{rest} more characters: start={start + length}]" if rest > 0 else ""
    return kept.text[start : start + length] + tail
