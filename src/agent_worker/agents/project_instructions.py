"""What a repository tells everybody who works in it: its `AGENTS.md`, and the one nearest to where the agent works.

Words for agents, not orders of ours: they come into the prompt as quoted material, with their source. Read anew for
each run, from the project itself, also for an agent that works in a copy of its own: there it could write them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from agent_worker.agents.prompt import PromptText
from agent_worker.core.errors import AgentWorkerError, NotFound
from agent_worker.files.root import Root

FILE = "AGENTS.md"
_LARGEST = 256 * 1024  # bytes that are read; of these only a part is shown


def project_instructions(root: Path | None, cwd: str) -> tuple[PromptText, ...]:
    """The file at the root, then the nearest at or above `cwd`. One that cannot be read is said, and stops nothing."""
    if root is None:
        return ()
    project = Root(root)
    # Nearly all projects have none below the root, so what is looked at is one name for each folder on the way.
    near = next((found for folder in _above(cwd) if (found := _read(project, f"{folder}/{FILE}")) is not None), None)
    return tuple(filter(None, (_read(project, FILE), near)))


def _above(cwd: str) -> list[str]:
    """The folders from here up to the root, without it."""
    parts = [part for part in PurePosixPath(cwd).parts if part != "."]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _read(project: Root, path: str) -> PromptText | None:
    try:
        text = project.read_text(path, limit=_LARGEST)
    except NotFound:
        return None
    except (AgentWorkerError, OSError) as error:
        text = f"(it could not be read: {error})"
    return PromptText(path, text, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12])
