"""Run AI agents as lasting identities that work together in workspaces.

The names below are the Python API; they are imported when first used, so that `import agent_worker` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_worker.api import Project, Team, open_project
    from agent_worker.core.errors import InUse
    from agent_worker.service.messages import Answer
    from agent_worker.workflows.summary import Summary
    from agent_worker.workspaces.channel import Message
    from agent_worker.workspaces.routing import Receipt

__all__ = ["Answer", "InUse", "Message", "Project", "Receipt", "Summary", "Team", "open_project"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_worker import api

    return getattr(api, name)
