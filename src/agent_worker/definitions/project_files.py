"""The files of a project: finding its directory, and reading every definition in it that is right.

One bad file does not stop the others. A file that was right before keeps what it said then, until it is right again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from agent_worker.core.address import canonical
from agent_worker.core.control_files import is_there
from agent_worker.core.errors import BadInput, DefinitionError, NotFound, Problem
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass, pattern
from agent_worker.core.suggestion import slip_of
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.checks import check_own_path, check_paths_of_agent, check_personal_dirs
from agent_worker.definitions.loading import load_agent, load_workflow, prompt_files, refuse, shown, with_prompt_read
from agent_worker.definitions.paths import Outside, names_beneath
from agent_worker.definitions.problems import did_you_mean, validate
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.source import Source, read_source
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition
from agent_worker.processes.environment import BASE

log = logging.getLogger(__name__)

D = TypeVar("D", AgentDefinition, WorkflowDefinition)
K = TypeVar("K")
L = TypeVar("L")

PROJECT_FILES = ("moniro.yaml", ".agents.yaml")
AGENTS, WORKFLOWS = ".agents", ".workflows"
_ENTRY = pattern(r"(agents)\[(\d+)\]|(workflows)\.([^.\[]+)")  # a field of the project's file


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """What was found in one look at the files."""

    root: Path
    definition: ProjectDefinition
    agents: Mapping[str, AgentDefinition] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowDefinition] = field(default_factory=dict)
    agent_files: Mapping[str, Path] = field(default_factory=dict)
    workflow_files: Mapping[str, Path] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()  #: of files that are broken now, also where an older version is kept
    unusable: tuple[Problem, ...] = ()  #: what was found wrong when its agents were made ready, whatever the files say
    broken: Mapping[str, Path] = field(default_factory=dict)  #: agents that cannot be had, each with its file
    elsewhere: tuple[Path, ...] = ()  #: files that define the project, outside of its two folders

    @property
    def printed_variables(self) -> frozenset[str]:
        """Variables that workflows may put into prompts as ${{ env.NAME }}: these are meant to be read."""
        return frozenset(name for workflow in self.workflows.values() for name in workflow.env)

    @property
    def secret_variables(self) -> frozenset[str]:
        """Variables that agents are given by `env:`. Their values are secrets, whatever they are called."""
        inline = (m for w in self.workflows.values() for m in w.agents.values() if isinstance(m, InlineMember))
        named = {name for agent in (*self.agents.values(), *inline) for name in agent.env}
        return frozenset(named - self.printed_variables - BASE)

    @property
    def wrong(self) -> tuple[Problem, ...]:
        """All problems that a person should mend."""
        return (*self.problems, *self.unusable)

    def wrong_with(self, agent: str) -> list[Problem]:
        """Problems in the file that this agent is written in."""
        file = self.broken.get(agent) or self.agent_files.get(agent)
        name = shown(file, self.root) if file else None  # once: it is asked of every agent, and there may be many
        return [one for one in self.wrong if one.file == name]

    def wrong_with_workflow(self, name: str) -> list[Problem]:
        """Problems in the file of a workflow, which is known as it was before they came."""
        file = self.workflow_files.get(name)
        return [one for one in self.problems if file and one.file == shown(file, self.root)]

    def with_values(
        self, agents: Mapping[str, AgentDefinition], workflows: Mapping[str, WorkflowDefinition]
    ) -> ProjectFiles:
        """The project with what programs have handed over beside its files. Where a name is taken twice, the file has
        it."""
        taken = {name.lower() for name in (*self.agents, *self.broken)}
        more = {name: agent for name, agent in agents.items() if name.lower() not in taken}
        names = {name.lower() for name in self.workflows}
        flows = {name: self.with_defaults(flow) for name, flow in workflows.items() if name.lower() not in names}
        if not more and not flows:
            return self
        return replace(self, agents={**self.agents, **more}, workflows={**self.workflows, **flows})

    @property
    def broken_workflows(self) -> dict[str, list[Problem]]:
        """The workflows whose file cannot be used, by the name that the file gives them, with what is wrong."""
        found: dict[str, list[Problem]] = {}
        for one in self.problems:
            file = PurePosixPath(one.file)
            if file.parent.name == WORKFLOWS and file.stem not in self.workflows:
                found.setdefault(file.stem, []).append(one)
        return found

    def no_workflow(self, name: str) -> BadInput:
        """The error for whoever asks for a workflow that is not there, or cannot be used."""
        broken = self.broken_workflows
        if found := canonical(name, broken):
            return DefinitionError(broken[found])
        names = sorted((*self.workflows, *broken))
        known = f"agent-worker ls (workflows here: {', '.join(names)})" if names else "agent-worker init"
        slip = slip_of(name, names) or slip_of(name, self.agents)
        hint = f"did you mean {slip.meant}?" if slip else known
        return NotFound(f"there is no workflow {name} in {self.root}", hint=hint, slip=slip)

    def workflow_path(self, name: str) -> Path:
        """Where a workflow's file of this name is: there, or beneath the project, or in its folder of workflows."""
        path = self.root / name  # a full path stays what it is
        in_folder = self.root / WORKFLOWS / name
        return in_folder if not path.exists() and in_folder.exists() else path

    def load_workflow(self, path: Path) -> WorkflowDefinition:
        """A workflow file at any path, for the agents of this project."""
        if not path.exists():
            raise self._no_file(path)
        return self.with_defaults(load_workflow(path, self.agents, root=self.root))

    def _no_file(self, path: Path) -> NotFound:
        beside = (path.parent, self.root / WORKFLOWS)
        known = [file.name for folder in beside if folder.is_dir() for file in folder.glob("*.y*ml")]
        slip = slip_of(path.name, known)
        hint = f"did you mean {slip.meant}?" if slip else "agent-worker ls"
        return NotFound(f"there is no file {path}", hint=hint, slip=slip)

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
        if any(os.path.isdir(path := directory / name) and is_there(path) for name in (AGENTS, WORKFLOWS)):
            return directory
        if any(os.path.isfile(directory / name) for name in PROJECT_FILES):
            return directory
    return here


def load_project(root: Path, *, previous: ProjectFiles | None = None) -> ProjectFiles:
    """Read all files of a project. Never raises for what is in them: see `ProjectFiles.problems`.

    What was right in `previous` and is broken now stays as it was.
    """
    return _Look(root.resolve(), previous).project()


class _Look:
    """One look at all files of a project. `_before` is what the look before found."""

    def __init__(self, root: Path, previous: ProjectFiles | None) -> None:
        self._root = root
        # Nothing is written that had to be checked; and what checks a project file is slow to make.
        self._default = ProjectDefinition.model_construct(name=root.name or "project")
        self._before = previous or ProjectFiles(root, self._default)
        self._has_history = previous is not None
        files = (self._before.agent_files, self._before.workflow_files)
        self._before_in = {file: name for each in files for name, file in each.items()}
        self._problems: list[Problem] = []
        self._agents: dict[str, AgentDefinition] = {}
        self._workflows: dict[str, WorkflowDefinition] = {}
        self._agent_files: dict[str, Path] = {}
        self._workflow_files: dict[str, Path] = {}
        self._broken: dict[str, Path] = {}  # agents that cannot be had, each with its file
        self._read: set[Path] = set()  # files that define the project, there or not

    def project(self) -> ProjectFiles:
        definition = self._project_file()
        self._take_agents(self._found(AGENTS) if definition.agents is None else definition.agents)
        self._refuse_shared_dirs()
        if definition.workflows is None:
            self._take_workflows({path: None for path in self._found(WORKFLOWS)})
        else:
            self._take_workflows({path: name for name, path in definition.workflows.items()})
        project = ProjectFiles(self._root, definition, self._agents, {}, self._agent_files, self._workflow_files)
        workflows = {name: project.with_defaults(workflow) for name, workflow in self._workflows.items()}
        project = replace(project, workflows=workflows, problems=tuple(self._problems), broken=self._broken)
        return replace(project, elsewhere=tuple(sorted(self._read)))

    # --- the project's own file -----------------------------------------------------------------------

    def _project_file(self) -> ProjectDefinition:
        # What is no file, or a link to nothing, is told: its limits would be missing without a word.
        files = [path for name in PROJECT_FILES if is_there(path := self._root / name)]
        for other in files[1:]:
            self._note(other, "", f"is not read: there is {files[0].name} too", hint="keep one of them")
        if not files:
            return self._default
        return self._or_kept(lambda: self._load_project_file(files[0]), self._before.definition, files[0])

    def _load_project_file(self, file: Path) -> ProjectDefinition:
        source = read_source(self._inside(file), shown_as=file.name)
        self._read.update(file.parent / name for name in prompt_files(source.data))
        definition = self._validated(source, file)
        refuse(source, check_own_path(("workspace", "base"), definition.workspace.base, self._root))
        return definition

    def _validated(self, source: Source, file: Path) -> ProjectDefinition:
        """The project's file, checked. With no older version, an entry that is wrong is left out: it costs what it
        names, no more."""
        defaults = {"name": self._default.name}
        try:
            return validate(ProjectDefinition, source, defaults=defaults)
        except DefinitionError as error:
            wrong = [_ENTRY.match(one.field) for one in error.problems]
            left_out = {(found[1] or found[3], found[2] or found[4]) for found in wrong if found}
            if self._has_history or not all(wrong):
                raise
            data = {key: _without(value, left_out, key) for key, value in source.data.items()}
            if not all(data[of] for of, _ in left_out):
                raise
            self._problems += error.problems
        for entry in (source.data[of][int(which)] for of, which in left_out if of == "agents"):
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                self._broken[entry["name"]] = file
        return validate(ProjectDefinition, replace(source, data=data), defaults=defaults)

    # --- agents ---------------------------------------------------------------------------------------

    def _found(self, folder: str) -> list[str]:
        try:
            names = os.listdir(self._root / folder)
        except OSError as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return []
            self._note(self._root / folder, "", f"cannot be read: {error.strerror}")
            return [f"{folder}/{file.name}" for file in self._before_in if file.parent == self._root / folder]
        found = (name for name in names if name.endswith((".yaml", ".yml")) and not name.startswith("."))
        return sorted(f"{folder}/{name}" for name in found)

    def _take_agents(self, entries: Iterable[str | AgentDefinition]) -> None:
        loaded: list[tuple[Path, AgentDefinition]] = []
        for index, entry in enumerate(entries):
            file = self._file_of(entry)
            self._watch(file)
            kept = self._before.agents.get(entry.name if isinstance(entry, AgentDefinition) else self._name_in(file))
            agent = self._or_kept(partial(self._load_agent, entry, file, index), kept, file)
            if agent is None:
                where = file if is_there(file) else self._own_file or file
                self._broken[entry.name if isinstance(entry, AgentDefinition) else file.stem] = where
                self._watch_prompts(file)
            else:
                loaded.append((file, agent))
                if agent.prompt and agent.prompt.system_file:
                    self._watch(file.parent / agent.prompt.system_file)
        for file in self._name(loaded, self._before.agents, self._agents, self._agent_files):
            self._broken.setdefault(file.stem, file)

    @property
    def _own_file(self) -> Path | None:
        """The project's own file, if it has one."""
        return next((path for name in PROJECT_FILES if os.path.isfile(path := self._root / name)), None)

    def _named_in_project(self, given: str, file: Path, where: tuple[str | int, ...]) -> None:
        """Raise where the project's file names a file that is not there: the mistake is in the project's file."""
        if is_there(file) or (own := self._own_file) is None:
            return
        there = [*self._found(AGENTS), *self._found(WORKFLOWS)]
        bare = [each for each in there if PurePosixPath(each).stem == given]
        hint = f'did you mean "{bare[0]}"?' if bare else did_you_mean(given, there)
        source = read_source(own, shown_as=self._shown(own))
        raise DefinitionError([source.problem(where, f"there is no file {given}", hint=hint)])

    def _file_of(self, entry: str | AgentDefinition) -> Path:
        if isinstance(entry, str):
            return self._root / entry
        return self._own_file or self._root / PROJECT_FILES[0]  # where it is written

    def _load_agent(self, entry: str | AgentDefinition, file: Path, index: int) -> AgentDefinition:
        self._inside(file)
        if isinstance(entry, str):
            self._named_in_project(entry, file, ("agents", index))
            return load_agent(file, root=self._root)
        agent, wrong = with_prompt_read(entry, named_in=file, root=self._root)
        wrong += check_paths_of_agent(agent, self._root)
        refuse(Source(self._shown(file), None), [broken.below(agent.name) for broken in wrong])
        return agent

    def _refuse_shared_dirs(self) -> None:
        """Refuse folders that two agents share: the one that moved in stays where it was before, if it was anywhere."""
        shared = check_personal_dirs(self._agents, self._root)
        for name, broken in shared.items():
            self._note(self._agent_files[name], "context.dir", broken.message)
            if name in self._before.agents:
                self._agents[name] = self._before.agents[name]
        for name in check_personal_dirs(self._agents, self._root) if shared else ():
            self._broken[name] = self._agent_files.pop(name)
            del self._agents[name]

    # --- workflows ------------------------------------------------------------------------------------

    def _take_workflows(self, paths: Mapping[str, str | None]) -> None:
        """Read the workflows, given as path → the name that the project gives it."""
        loaded: list[tuple[Path, WorkflowDefinition]] = []
        for path, name in paths.items():
            file = self._root / path
            self._watch(file)
            self._watch_prompts(file)
            kept = self._before.workflows.get(self._name_in(file))
            if kept and not self._all_here(kept):
                kept = None
            workflow = self._or_kept(partial(self._load_workflow, file, name), kept, file)
            if workflow is not None:
                loaded.append((file, workflow))
        for _ in self._name(loaded, self._before.workflows, self._workflows, self._workflow_files):
            pass  # what it was called before is taken too: it is told already

    def _all_here(self, workflow: WorkflowDefinition) -> bool:
        refs = [member.ref for member in workflow.agents.values() if isinstance(member, RefMember)]
        return all(canonical(ref, self._agents) for ref in refs)

    def _load_workflow(self, file: Path, name: str | None) -> WorkflowDefinition:
        self._inside(file)
        if name is not None:
            self._named_in_project(self._shown(file), file, ("workflows", name))
        broken = {agent: self._shown(where) for agent, where in self._broken.items()}
        found = load_workflow(file, self._agents, root=self._root, broken_agents=broken, name=name)
        if name is not None and found.name != name:
            why = f"is {found.name}, but the project calls it {name}"
            raise DefinitionError([Problem(self._shown(file), 1, 1, "name", why)])
        return found

    # --- both -----------------------------------------------------------------------------------------

    def _name(
        self, loaded: Sequence[tuple[Path, D]], before: Mapping[str, D], here: dict[str, D], files: dict[str, Path]
    ) -> Iterator[Path]:
        """Put each definition under its name; yields the files that found no place.

        A name belongs to the file that had it before, or is called so: nobody takes another's by editing their own
        file.
        """

        def claim(pair: tuple[Path, D]) -> tuple[bool, bool]:
            file, found = pair
            return self._name_in(file) != found.name, file.stem != found.name

        taken: dict[str, Path] = {}  # a name in small letters → whose it is
        for file, found in sorted(loaded, key=claim):
            kept = before.get(self._name_in(file))
            if (other := taken.get(found.name.lower())) is None:
                named = found
            else:
                self._note(file, "name", f"{found.name} is taken by {self._shown(other)}", hint="choose another name")
                if kept is None or kept.name.lower() in taken:
                    yield file
                    continue
                named = kept
            here[named.name] = named
            files[named.name] = taken[named.name.lower()] = file

    def _or_kept(self, load: Callable[[], L], kept: K, file: Path) -> L | K:
        try:
            return load()
        except DefinitionError as error:
            self._problems += error.problems
        except Exception:  # boundary: whatever there is about one file, the others are read
            id = new_id("e")
            log.exception("%s could not be read: %s", file, id)
            self._note(file, "", f"this should not have happened: {id}", hint="agent-worker daemon logs")
        return kept

    def _name_in(self, file: Path) -> str:
        """The name of the definition that this file held before."""
        return self._before_in.get(file, "")

    def _watch(self, file: Path) -> None:
        if file.parent not in (self._root / AGENTS, self._root / WORKFLOWS):
            self._read.add(file)

    def _watch_prompts(self, file: Path) -> None:
        with suppress(DefinitionError):
            for name in prompt_files(read_source(file).data):
                self._watch(file.parent / name)

    def _inside(self, file: Path) -> Path:
        try:
            names_beneath(self._root, str(file.relative_to(self._root)))
        except Outside:
            raise DefinitionError([Problem(self._shown(file), 1, 1, "", "points outside the project")]) from None
        return file

    def _shown(self, file: Path) -> str:
        return shown(file, self._root)

    def _note(self, file: Path, field: str, message: str, *, hint: str = "") -> None:
        source = Source(self._shown(file), None)
        if field and file.name not in PROJECT_FILES:  # there, a key of this name may be another's
            with suppress(DefinitionError):
                source = read_source(file, shown_as=self._shown(file))
        self._problems.append(source.problem(field.split(".") if field else (), message, hint=hint))


def _without(value: Any, left_out: Collection[tuple[str, str]], of: str) -> Any:
    if isinstance(value, list):
        return [each for index, each in enumerate(value) if (of, str(index)) not in left_out]
    return {key: each for key, each in value.items() if (of, key) not in left_out} if isinstance(value, dict) else value
