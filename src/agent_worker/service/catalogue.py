"""All operations: importing this fills the table."""

from __future__ import annotations

from agent_worker.service import (
    agents,
    attention,
    documents,
    messages,
    personal,
    projects,
    runs,
    schedules,
    workflows,
)
from agent_worker.service.operation import OPERATIONS

__all__ = [
    "OPERATIONS",
    "agents",
    "attention",
    "documents",
    "messages",
    "personal",
    "projects",
    "runs",
    "schedules",
    "workflows",
]
