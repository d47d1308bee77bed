"""Which agents there are, and what each needs to work: definitions bound to ids, backends, tools, places.

An agent has one `AgentRuntime` of its own and, where a workflow adds to its definition, one per workspace.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from dataclasses import field
from pathlib import Path

from agent_worker.backends.backend import Backend, Model
from agent_worker.core.errors import NoKey, NotFound
from agent_worker.core.later import dataclass
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.layout import OwnPlaces, own_places
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.settings import Settings, tightened
from agent_worker.files.root import Root
from agent_worker.memory.library import Library
from agent_worker.memory.own_files import RunJournal
from agent_worker.memory.workspace_library import WorkspaceLibraries
from agent_worker.tools.tool import Tool
from agent_worker.work.limits import WorkLimits

#: Tools that others provide, asked for anew at each run. Raises BackendFailure when they cannot say.
MoreTools = Callable[[], Awaitable[tuple[Tool, ...]]]
#: The key without which an agent cannot work now; None when it lacks none.
LacksKey = Callable[[], NoKey | None]


@dataclass(frozen=True, slots=True)
class Learner:
    """Draws from a run what is worth remembering."""

    model: Model
    choose: Callable[[], Awaitable[str]]  #: which model is asked; raises BackendFailure when none can be


@dataclass(frozen=True, slots=True)
class AgentKit:
    """The backend and the tools that an agent works with."""

    backend: Backend
    tools: tuple[Tool, ...] = ()
    learner: Learner | None = None  #: None: nothing is learned by itself
    words: Model | None = None  #: for small tasks, with any model of the agent's endpoint
    more_tools: MoreTools | None = None


class LazyKit:
    """The kit of an agent, made when it is first needed: of a thousand agents, few are at work."""

    def __init__(self, make: Callable[[], AgentKit]) -> None:
        self._make = make
        self._making = threading.Lock()
        self.made: AgentKit | None = None

    def get(self) -> AgentKit:
        """The kit. Blocks the first time: it reads files and imports tools. Raises AgentWorkerError when it cannot be
        made.
        """
        with self._making:
            if self.made is None:
                self.made = self._make()
            return self.made


@dataclass(frozen=True, slots=True)
class JudgeTerms:
    """Which model decides small questions for an agent, and what that may cost."""

    model: str = ""  #: '' for none: the rules decide
    credential: str = ""  #: whose rate limit it shares
    tokens: int = 0  #: of one run, with what is learned
    round_tokens: int = 0  #: of one round


@dataclass(frozen=True, slots=True)
class AgentRuntime:
    """An agent as its loop needs it: definition, backend and tools, folder."""

    agent: str  #: id
    name: str
    project: str  #: id
    definition: AgentDefinition
    kit: LazyKit
    limits: WorkLimits = field(default_factory=WorkLimits)
    cwd: Path = field(default_factory=Path)
    own_copy: bool = False  #: its cwd is a checkout of its own
    root: Path | None = None  #: of its project
    home: Root | None = None  #: its own folder; None when it has no personal files
    library: Library = field(default_factory=lambda: Library(None, ""))
    note: str = ""  #: what the workflow adds to its prompt
    workspace_name: str = ""  #: of the workspace it works in, for people
    knows_workspace: bool = True  #: False with `context: false`: it works there as if it were written to directly
    credential: str = ""  #: whose rate limit it shares; '' shares none
    learning_credential: str = ""  #: the same of the model that it learns with
    judge: JudgeTerms = field(default_factory=JudgeTerms)  #: what decides small questions about it
    lacks_key: LacksKey | None = None  #: None: it needs no key, or nobody is there who could set one
    trouble: str = ""  #: what is wrong with its definition: it works by an older one, or not at all
    remedy: str = ""  #: what mends that, as data
    is_fit: bool = True  #: can it work?

    @property
    def is_program(self) -> bool:
        return self.definition.backend not in ("sdk", "mock")


class Registry:
    def __init__(
        self,
        settings: Settings | None = None,
        libraries: WorkspaceLibraries | None = None,
        journal: RunJournal | None = None,
        indexes: Root | None = None,
    ) -> None:
        self.settings = settings or Settings()  #: the user's
        self.libraries = libraries or WorkspaceLibraries()  #: what was said and written in workspaces, to search
        self.journal = journal or RunJournal()  #: what files of agents should say while programs work for them
        self._indexes = indexes
        # By agent, then by workspace; None: as it works by itself.
        self._workers: dict[str, dict[str | None, AgentRuntime]] = {}
        self._projects: dict[str, ProjectFiles] = {}

    def library_of(self, agent: str, name: str, home: Root | None) -> Library:
        """What an agent can look up. Several hosts may see its folder: then the index is in the home of each."""
        index = self._indexes.beneath(agent) if self._indexes and home else None
        return Library(home, name, model=self.settings.semantic.model, index=index)

    def keep_project(self, id: str, project: ProjectFiles) -> None:
        """Remember what the files of a project say now."""
        self._projects[id] = project

    def settings_of(self, project: str) -> Settings:
        """What holds in a project: its own settings, as far as the user's let it choose."""
        known = self._projects.get(project)
        return tightened(self.settings, known.definition.settings) if known else self.settings

    def root(self, project: str) -> Path | None:
        """Where the files of a project are; None when they were never read."""
        return self._projects[project].root if project in self._projects else None

    def places(self, project: str) -> OwnPlaces:
        """The folders in a project that are ours. Looks at its files."""
        return own_places(self._projects[project]) if project in self._projects else OwnPlaces()

    def add(self, worker: AgentRuntime, *, workspace: str | None = None) -> None:
        self._workers.setdefault(worker.agent, {})[workspace] = worker

    def remove(self, agent: str, *, workspace: str | None = None) -> None:
        if everywhere := self._workers.get(agent):
            everywhere.pop(workspace, None)
            if not everywhere:
                del self._workers[agent]

    def remove_all(self, agent: str) -> list[Library]:
        """Forget an agent wherever it works; returns what it had open to look things up in."""
        gone = self._workers.pop(agent, {}).values()
        return list({id(worker.library): worker.library for worker in gone}.values())

    def detach(self, workspace: str) -> None:
        """Forget what was registered for this workspace alone."""
        for agent in [agent for agent, everywhere in self._workers.items() if workspace in everywhere]:
            self.remove(agent, workspace=workspace)

    def change(self, project: str, change: Callable[[AgentRuntime], AgentRuntime]) -> None:
        """Change everyone of this project, wherever they work."""
        for everywhere in self._workers.values():
            for workspace, worker in everywhere.items():
                if worker.project == project:
                    everywhere[workspace] = change(worker)

    def has(self, agent: str, definition: AgentDefinition) -> bool:
        """Whether this agent is registered with its files and this very definition, and nothing was wrong with it."""
        known = self.own(agent)
        return known is not None and known.definition == definition and known.home is not None and not known.trouble

    def own(self, agent: str) -> AgentRuntime | None:
        """The agent as it works by itself, in no workspace."""
        return self._workers.get(agent, {}).get(None)

    def knows(self, agent: str) -> bool:
        return agent in self._workers

    def works_in(self, agent: str, workspace: str | None) -> bool:
        """Whether it is known how this agent works there."""
        return workspace is None or workspace in self._workers.get(agent, {})

    def worker(self, agent: str, workspace: str | None = None) -> AgentRuntime:
        """The agent as it works in a workspace; else as it works by itself; else in the only place it has."""
        everywhere = self._workers.get(agent)
        if everywhere is None:
            raise NotFound(f"agent {agent} has no definition here")
        return everywhere.get(workspace) or everywhere.get(None) or next(iter(everywhere.values()))

    def lacks_key(self, agent: str) -> bool:
        """Whether this agent lacks a key, in any of the places where it works."""
        return any(each.lacks_key and each.lacks_key() for each in self._workers.get(agent, {}).values())

    def workers(self) -> list[AgentRuntime]:
        return [worker for everywhere in self._workers.values() for worker in everywhere.values()]
