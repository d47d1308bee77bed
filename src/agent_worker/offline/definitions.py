"""`validate`, `schema` and `init`: files that people write are read and checked here; nothing runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from agent_worker.backends.models.providers import AS_NAMED, check_model
from agent_worker.client.discovery import home_directory, make_home
from agent_worker.core.clock import SystemClock
from agent_worker.core.errors import BadInput, DefinitionError, Problem
from agent_worker.core.later import dataclass
from agent_worker.core.text import plural
from agent_worker.definitions.agent import AgentDefinition
from agent_worker.definitions.loading import load_agent, shown
from agent_worker.definitions.notifications import read_notifications
from agent_worker.definitions.problems import validate
from agent_worker.definitions.project import ProjectDefinition
from agent_worker.definitions.project_files import (
    AGENTS,
    PROJECT_FILES,
    WORKFLOWS,
    ProjectFiles,
    find_project,
    load_project,
)
from agent_worker.definitions.schema import json_schema
from agent_worker.definitions.settings import wrong_model
from agent_worker.definitions.source import parse_source, read_source
from agent_worker.definitions.team_templates import write_team
from agent_worker.files.root import Root
from agent_worker.service.look_ahead import remarks_on, wrong_in_agent, wrong_in_project, wrong_in_workflow
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import powers_of
from agent_worker.trust.store import TrustStore, kept_in


@dataclass(frozen=True, slots=True)
class Checked:
    """What was looked at, and what is wrong in it."""

    project: ProjectFiles
    problems: list[Problem]
    what: str  #: in a few words; '' when there was nothing to look at
    remarks: list[str]  #: what can be used, but is hardly meant so


def checked(path: Path) -> Checked:
    """Check all files of the project at this directory, or one agent, workflow or project file."""
    project = load_project(find_project(path))
    if path.is_file():
        return _checked_file(path.resolve(), project)
    counted = f"{plural(len(project.agents), 'agent')} and {plural(len(project.workflows), 'workflow')}"
    problems = [*project.problems, *wrong_in_project(project), *_wrong_settings()]
    is_empty = not (problems or project.agents or project.workflows or _project_files(project.root))
    remarks = remarks_on(project, SystemClock().now())
    return Checked(project, problems, "" if is_empty else f"{counted} in {project.root}", remarks)


def _checked_file(file: Path, project: ProjectFiles) -> Checked:
    name = shown(file, project.root)
    kind = _kind_of(file, project)
    remarks = [each for each in remarks_on(project, SystemClock().now()) if each.startswith(f"{name}: ")]
    if kind == "project" and file in _project_files(project.root):
        in_it = [one for one in (*project.problems, *wrong_in_project(project)) if one.file == name]
        return Checked(project, in_it, f"project {project.definition.name} in {name}", remarks)
    try:
        if kind == "project":
            validate(ProjectDefinition, read_source(file, shown_as=name), defaults={"name": file.parent.name})
            return Checked(project, [], f"a project file: {name}", remarks)
        if kind == "agent":
            agent = load_agent(file, root=project.root)
            return Checked(project, wrong_in_agent(agent, file, project.root), f"agent {agent.name} in {name}", remarks)
        workflow = project.load_workflow(file)
        members = plural(len(workflow.agents), "agent")
        told = f"workflow {workflow.name} with {members} in {name}"
        return Checked(project, wrong_in_workflow(workflow, file, project), told, remarks)
    except DefinitionError as error:
        return Checked(project, error.problems, name, remarks)


def _kind_of(file: Path, project: ProjectFiles) -> Literal["agent", "workflow", "project"]:
    """The kind of a file: what the project takes it for, what its folder says, else what is in it."""
    if file.name in PROJECT_FILES:
        return "project"
    if file in map(Path.resolve, (*project.agent_files.values(), *project.broken.values())):
        return "agent"
    if file in map(Path.resolve, project.workflow_files.values()) or file.parent.name == WORKFLOWS:
        return "workflow"
    if file.parent.name == AGENTS:
        return "agent"
    with suppress(DefinitionError):
        match read_source(file).data:
            case {"agents": list()} | {"workflows": _}:
                return "project"
            case {"agents": _} | {"kickoff": _}:
                return "workflow"
            case dict(written) if written.keys() & AgentDefinition.model_fields.keys() - {"name"}:
                return "agent"
    return "workflow"


def _project_files(root: Path) -> list[Path]:
    return [path for name in PROJECT_FILES if (path := root / name).is_file()]


def _wrong_settings() -> list[Problem]:
    """What is wrong in the user's own files, which hold in every project."""
    found: list[Problem] = []
    try:
        found += wrong_model(home_directory())
    except DefinitionError as error:
        found += error.problems
    try:
        read_notifications(home_directory())
    except DefinitionError as error:
        found += error.problems
    return found


def limits_that_wait(path: Path) -> list[str]:
    """Limits that are written correctly and do not hold yet, as far as the home knows what was approved."""
    project, home = load_project(find_project(path)), home_directory()
    store = TrustStore(kept_in(Root.private(home) if home.is_dir() else None, project.root), clock=SystemClock())
    return [each.power.what for each in store.unapproved(powers_of(project)) if each.power.kind == "limits"]


def schema_of(kind: Literal["agent", "workflow", "project"]) -> dict[str, Any]:
    return json_schema(kind)


def read_value(text: str, *, name: str) -> tuple[Any, str]:
    """A value as it would be read from a YAML file, and what is wrong with it, if anything."""
    source = parse_source(text, file=name)
    return source.data, source.problems[0].message if source.problems else ""


def set_up_team(template: str, root: Path, backend: str, model: str | None) -> tuple[list[str], list[str]]:
    """A team from a template; the names of the files that were written, and of those that were there already."""
    if backend == "sdk" and model:
        try:
            check_model(model, AS_NAMED)
        except BadInput as error:
            raise BadInput(error.message, hint=f"agent-worker providers ({error.hint})") from None
    return write_team(template, root, backend, model)


def approve_written(root: Path) -> None:
    """Approve a project that we wrote for the user, where approvals are in the home."""
    project = load_project(root)
    Gate(Root.private(make_home(home_directory())), SystemClock()).approve(project.root, powers_of(project))


def digests_of(root: Path) -> list[str]:
    """Everything in this project that has to be approved, as the daemon knows it."""
    return [power.digest for power in powers_of(load_project(root))]
