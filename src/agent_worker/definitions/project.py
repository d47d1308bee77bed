"""A project: the directory, its optional file (SPEC §4.3), and every definition in it that is right.

One bad file does not stop the others. A file that was right before keeps what it said then, until it is right again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Discriminator, Tag

from agent_worker.address import canonical
from agent_worker.control_files import is_stand_in
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.block import Block
from agent_worker.definitions.checks import check_own_path, check_paths_of_agent, check_personal_dirs
from agent_worker.definitions.fields import InsidePath, Line, Money, Name
from agent_worker.definitions.loading import load_agent, load_workflow, refuse, shown, with_prompt_read
from agent_worker.definitions.paths import Outside, beneath
from agent_worker.definitions.problems import did_you_mean, validate
from agent_worker.definitions.source import Source, read_source
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.errors import DefinitionError, NotFound, Problem

D = TypeVar("D", AgentDefinition, WorkflowDefinition)

PROJECT_FILES = ("moniro.yaml", ".agents.yaml")
AGENTS, WORKFLOWS = ".agents", ".workflows"


class ProjectWorkspace(Block):
    """What workflows of the project use unless they say otherwise."""

    provider: Literal["file", "sqlite", "memory"] = "file"
    base: InsidePath = ".workspace"


class ProjectLimits(Block):
    usd_per_day: Money | None = None


AgentEntry = Annotated[
    Annotated[InsidePath, Tag("<path>")] | Annotated[AgentDefinition, Tag("<agent>")],
    Discriminator(lambda value: "<path>" if isinstance(value, str) else "<agent>"),
]


class ProjectDefinition(Block):
    name: Line
    agents: tuple[AgentEntry, ...] | None = None  #: None finds .agents/*.yaml
    workflows: dict[Name, InsidePath] | None = None  #: None finds .workflows/*.yaml
    workspace: ProjectWorkspace = ProjectWorkspace()
    limits: ProjectLimits = ProjectLimits()


@dataclass(frozen=True, slots=True)
class Project:
    """What was found in one look at the files."""

    root: Path
    definition: ProjectDefinition
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowDefinition] = field(default_factory=dict)
    agent_files: Mapping[str, Path] = field(default_factory=dict)
    workflow_files: Mapping[str, Path] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()  #: of files that are broken now, also where an older version is kept

    def no_workflow(self, name: str) -> NotFound:
        """What to say to whoever asks for one that is not there."""
        known = f"workflows: {', '.join(self.workflows)}" if self.workflows else "agent-worker init"
        hint = did_you_mean(name, list(self.workflows)) or known
        return NotFound(f"there is no workflow {name} in {self.root}", hint=hint)

    def load_workflow(self, path: Path) -> WorkflowDefinition:
        """A workflow file at any path, for the agents of this project."""
        return self.with_defaults(load_workflow(path, self.agents, root=self.root))

    def with_defaults(self, workflow: WorkflowDefinition) -> WorkflowDefinition:
        settings = workflow.workspace
        if settings is False or "provider" in settings.model_fields_set:
            return workflow
        settings = settings.model_copy(update={"provider": self.definition.workspace.provider})
        return workflow.model_copy(update={"workspace": settings})


def find_project(start: Path) -> Path:
    """The nearest directory, from `start` upwards, that is a project; else `start` itself."""
    start = start.resolve()
    here = start if start.is_dir() else start.parent
    for directory in (here, *here.parents):
        # os.path: a directory that may not be looked into is not a project, and no error.
        if any(os.path.isdir(path := directory / name) and not is_stand_in(path) for name in (AGENTS, WORKFLOWS)):
            return directory
        if any(os.path.isfile(directory / name) for name in PROJECT_FILES):
            return directory
    return here


def load_project(root: Path, *, previous: Project | None = None) -> Project:
    """Never raises for what is in the files: see `Project.problems`.

    What was right in `previous` and is broken now stays as it was.
    """
    return _Look(root.resolve(), previous).project()


class _Look:
    """One look at all files of a project. `_before` is what the look before found."""

    def __init__(self, root: Path, previous: Project | None) -> None:
        self._root = root
        self._default = ProjectDefinition(name=root.name or "project")
        self._before = previous or Project(root, self._default)
        files = (self._before.agent_files, self._before.workflow_files)
        self._before_in = {file: name for each in files for name, file in each.items()}
        self._problems: list[Problem] = []
        self._agents: dict[str, AgentDefinition] = {}
        self._workflows: dict[str, WorkflowDefinition] = {}
        self._agent_files: dict[str, Path] = {}
        self._workflow_files: dict[str, Path] = {}
        self._broken: dict[str, str] = {}  # agents that cannot be had, each with its file

    def project(self) -> Project:
        definition = self._project_file()
        for entry in self._found(AGENTS) if definition.agents is None else definition.agents:
            self._take_agent(entry)
        self._refuse_shared_dirs()
        if definition.workflows is None:
            for path in self._found(WORKFLOWS):
                self._take_workflow(self._root / path)
        else:
            for name, path in definition.workflows.items():
                self._take_workflow(self._root / path, name=name)
        project = Project(self._root, definition, self._agents, {}, self._agent_files, self._workflow_files)
        workflows = {name: project.with_defaults(workflow) for name, workflow in self._workflows.items()}
        return replace(project, workflows=workflows, problems=tuple(self._problems))

    def _project_file(self) -> ProjectDefinition:
        files = [path for name in PROJECT_FILES if (path := self._root / name).is_file()]
        for other in files[1:]:
            self._note(other, "", f"is not read: there is {files[0].name} too", hint="keep one of them")
        if not files:
            return self._default
        try:
            source = read_source(self._inside(files[0]), shown_as=files[0].name)
            definition = validate(ProjectDefinition, source, defaults={"name": self._default.name})
            refuse(source, check_own_path(("workspace", "base"), definition.workspace.base, self._root))
        except DefinitionError as error:
            self._problems += error.problems
            return self._before.definition
        return definition

    def _found(self, folder: str) -> list[str]:
        files = (path for path in (self._root / folder).glob("*") if path.suffix in (".yaml", ".yml"))
        return sorted(f"{folder}/{path.name}" for path in files if not path.name.startswith("."))

    def _take_agent(self, entry: str | AgentDefinition) -> None:
        file = self._file_of(entry)
        kept = self._before.agents.get(self._before_in.get(file, ""))
        if isinstance(entry, AgentDefinition):
            kept = self._before.agents.get(entry.name)
        agent = self._or_kept(lambda: self._load_agent(entry, file), kept)
        if agent is None:
            self._broken[entry.name if isinstance(entry, AgentDefinition) else file.stem] = self._shown(file)
        elif self._is_free(agent.name, self._agent_files, file):
            self._agents[agent.name] = agent
            self._agent_files[agent.name] = file

    def _file_of(self, entry: str | AgentDefinition) -> Path:
        if isinstance(entry, str):
            return self._root / entry
        return next(path for name in PROJECT_FILES if (path := self._root / name).is_file())

    def _load_agent(self, entry: str | AgentDefinition, file: Path) -> AgentDefinition:
        self._inside(file)
        if isinstance(entry, str):
            return load_agent(file, root=self._root)
        agent, wrong = with_prompt_read(entry, named_in=file, root=self._root)
        wrong += check_paths_of_agent(agent, self._root)
        refuse(Source(self._shown(file), None), [broken.below(agent.name) for broken in wrong])
        return agent

    def _refuse_shared_dirs(self) -> None:
        for name, broken in check_personal_dirs(self._agents, self._root).items():
            file = self._agent_files.pop(name)
            del self._agents[name]
            self._broken[name] = self._shown(file)
            self._note(file, "context.dir", broken.message)

    def _take_workflow(self, file: Path, *, name: str | None = None) -> None:
        kept = self._before.workflows.get(self._before_in.get(file, ""))
        if kept and not self._all_here(kept):
            kept = None
        workflow = self._or_kept(lambda: self._load_workflow(file, name), kept)
        if workflow is None:
            return
        if name is not None and workflow.name != name:
            self._note(file, "name", f"is {workflow.name}, but the project calls it {name}")
        elif self._is_free(workflow.name, self._workflow_files, file):
            self._workflows[workflow.name] = workflow
            self._workflow_files[workflow.name] = file

    def _all_here(self, workflow: WorkflowDefinition) -> bool:
        refs = [member.ref for member in workflow.agents.values() if isinstance(member, RefMember)]
        return all(canonical(ref, self._agents) for ref in refs)

    def _load_workflow(self, file: Path, name: str | None) -> WorkflowDefinition:
        self._inside(file)
        return load_workflow(file, self._agents, root=self._root, broken_agents=self._broken, name=name)

    def _or_kept(self, load: Callable[[], D], kept: D | None) -> D | None:
        try:
            return load()
        except DefinitionError as error:
            self._problems += error.problems
            return kept

    def _is_free(self, name: str, files: Mapping[str, Path], file: Path) -> bool:
        taken = canonical(name, files)
        if taken is not None:
            self._note(file, "name", f"{name} is taken by {self._shown(files[taken])}", hint="choose another name")
        return taken is None

    def _inside(self, file: Path) -> Path:
        try:
            beneath(self._root, str(file.relative_to(self._root)))
        except Outside:
            raise DefinitionError([Problem(self._shown(file), 1, 1, "", "leads out of the project")]) from None
        return file

    def _shown(self, file: Path) -> str:
        return shown(file, self._root)

    def _note(self, file: Path, field: str, message: str, *, hint: str = "") -> None:
        self._problems.append(Problem(self._shown(file), 1, 1, field, message, hint))
