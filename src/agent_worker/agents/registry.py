"""Which agents there are, and what each needs to work: definitions bound to ids, backends, tools, places.

An agent has one worker of its own and, where a workflow adds to its definition, one per workspace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent_worker.backends.backend import Backend, Model
from agent_worker.core.errors import NotFound
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.layout import OwnPlaces, own_places
from agent_worker.definitions.project import ProjectFiles
from agent_worker.files.root import Root
from agent_worker.memory.library import Library
from agent_worker.tools.tool import Tool
from agent_worker.work.limits import WorkLimits

#: Tools that others provide, asked for anew at each run. Raises BackendFailure when they cannot say.
MoreTools = Callable[[], Awaitable[tuple[Tool, ...]]]


@dataclass(frozen=True, slots=True)
class AgentRuntime:
    """An agent as its loop needs it: definition, backend, tools, folder."""

    agent: str  #: id
    name: str
    project: str  #: id
    definition: AgentDefinition
    backend: Backend
    tools: tuple[Tool, ...] = ()
    more_tools: MoreTools | None = None
    limits: WorkLimits = field(default_factory=WorkLimits)
    cwd: Path = field(default_factory=Path)
    own_copy: bool = False  #: its cwd is a checkout of its own
    home: Root | None = None  #: its own folder; None when it has no personal files
    library: Library = field(default_factory=lambda: Library(None, ""))
    learner: Model | None = None  #: draws from a run what is worth remembering
    note: str = ""  #: what the workflow adds to its prompt
    workspace_name: str = ""  #: of the workspace it works in, for people
    credential: str = ""  #: whose rate limit it shares; '' shares none
    trouble: str = ""  #: what is wrong with its definition: it works by an older one, or not at all
    is_fit: bool = True  #: can it work?

    @property
    def is_program(self) -> bool:
        return self.definition.backend not in ("sdk", "mock")


class Registry:
    def __init__(self) -> None:
        self._workers: dict[tuple[str, str | None], AgentRuntime] = {}
        self._projects: dict[str, ProjectFiles] = {}

    def keep_project(self, id: str, project: ProjectFiles) -> None:
        """Remember what the files of a project say now."""
        self._projects[id] = project

    def root(self, project: str) -> Path | None:
        """Where the files of a project are; None when they were never read."""
        return self._projects[project].root if project in self._projects else None

    def places(self, project: str) -> OwnPlaces:
        """The folders in a project that are ours. Looks at its files."""
        return own_places(self._projects[project]) if project in self._projects else OwnPlaces()

    def add(self, worker: AgentRuntime, *, workspace: str | None = None) -> None:
        self._workers[worker.agent, workspace] = worker

    def remove(self, agent: str, *, workspace: str | None = None) -> None:
        self._workers.pop((agent, workspace), None)

    def remove_all(self, agent: str) -> list[Library]:
        """Forget an agent wherever it works; returns what it had open to look things up in."""
        gone = [self._workers.pop(key) for key in [key for key in self._workers if key[0] == agent]]
        return list({id(worker.library): worker.library for worker in gone}.values())

    def detach(self, workspace: str) -> None:
        """Forget what was registered for this workspace alone."""
        for key in [key for key in self._workers if key[1] == workspace]:
            del self._workers[key]

    def change(self, project: str, change: Callable[[AgentRuntime], AgentRuntime]) -> None:
        """Change everyone of this project, wherever they work."""
        self._workers = {
            key: change(worker) if worker.project == project else worker for key, worker in self._workers.items()
        }

    def has(self, agent: str, definition: AgentDefinition) -> bool:
        """Is it here already, with just this definition, and nothing was wrong with it?"""
        known = self._workers.get((agent, None))
        return known is not None and known.definition == definition and not known.trouble

    def own(self, agent: str) -> AgentRuntime | None:
        """The agent as it works by itself, in no workspace."""
        return self._workers.get((agent, None))

    def knows(self, agent: str) -> bool:
        return (agent, None) in self._workers or any(key[0] == agent for key in self._workers)

    def worker(self, agent: str, workspace: str | None = None) -> AgentRuntime:
        found = self._workers.get((agent, workspace)) or self._workers.get((agent, None)) or self._inline(agent)
        if found is None:
            raise NotFound(f"agent {agent} has no definition here")
        return found

    def _inline(self, agent: str) -> AgentRuntime | None:
        """The worker of an agent that lives only in a workspace."""
        return next((worker for (id, _), worker in self._workers.items() if id == agent), None)

    def workers(self) -> list[AgentRuntime]:
        return list(self._workers.values())
