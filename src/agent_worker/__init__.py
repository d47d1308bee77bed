"""Run AI agents as lasting identities that work together in workspaces.

The names below are the Python API; they are imported when first used, so that `import agent_worker` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_worker.api import Answer, Message, Project, Receipt, Summary, Team, open_project

__all__ = ["Answer", "Message", "Project", "Receipt", "Summary", "Team", "open_project"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_worker import api

    return getattr(api, name)
