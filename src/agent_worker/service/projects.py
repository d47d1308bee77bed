"""Projects, and the state of everything at a glance."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal

from agent_worker.core.disk_space import FreeSpace
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.preferred import PROGRAMS, installed, model_of
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.problems import in_lines
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.definitions.team_templates import write_team
from agent_worker.files.folder import disk_explained
from agent_worker.service.agents import AgentView, agents_list
from agent_worker.service.hosts import HostView, hosts_list
from agent_worker.service.inbox import inbox_list
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.workflows import Running, instances_list
from agent_worker.trust.powers import powers_of
from agent_worker.workflows.placeholder_values import run_line

Template = Literal["review", "triage", "research", "debate"]


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    name: str
    root: str
    agents: int
    workflows: int
    problems: list[str]  #: of its files, each with its line
    gone: bool = False  #: its directory is not there any more; what happened in it is kept


@dataclass(frozen=True, slots=True)
class Status:
    project: ProjectSummary
    agents: list[AgentView]
    instances: list[Running]
    workflows: dict[str, str]  #: those that files define, running or not, each with the command that runs it
    broken: dict[str, str]  #: workflows whose file cannot be used, with what is wrong
    waiting: int  #: items in the person's inbox
    disk: FreeSpace
    hosts: list[HostView]  #: that share the work; none where this daemon keeps its state for itself


@dataclass(frozen=True, slots=True)
class ProjectMade:
    project: str  #: its directory
    template: str  #: which is also the name of its workflow
    written: list[str]
    kept: list[str]  #: files that were there already


@operation("GET", "/projects")
async def projects_list(service: Service) -> list[ProjectSummary]:
    """The projects that have been opened since the daemon started."""
    known = [loaded.project for loaded in service.projects()]
    there = await asyncio.to_thread(lambda: [project.root.is_dir() for project in known])
    return [_summary(project, gone=not is_there) for project, is_there in zip(known, there, strict=True)]


@operation("GET", "/status")
async def status(service: Service, project: str | None = None) -> Status:
    """Agents, running workflows, what waits for the person, and mistakes in files."""
    loaded = await service.project(project)
    return Status(
        project=_summary(loaded.project),
        agents=await agents_list(service, project),
        instances=await instances_list(service, project),
        workflows={name: run_line(each) for name, each in sorted(loaded.project.workflows.items())},
        broken={name: in_lines(wrong) for name, wrong in sorted(loaded.project.broken_workflows.items())},
        waiting=len(await inbox_list(service, project)),
        disk=service.runtime.space.look(),
        hosts=await hosts_list(service, str(loaded.project.root)),
    )


@operation("POST", "/projects")
async def project_create(
    service: Service,
    directory: str,
    template: Template = "review",
    backend: str | None = None,
    model: ModelName | None = None,
) -> ProjectMade:
    """Set up agents and a workflow in a directory, from a template, as `init` does there. It is made if it is missing.

    Files that are there are left alone; then what the project could execute waits for approval, as always.
    """
    if backend not in (None, "mock", "sdk", *PROGRAMS):
        raise BadInput(f"{backend!r} is not a backend for a template", hint=f"one of mock, {', '.join(PROGRAMS)}")
    given = await asyncio.to_thread(_full_path, directory)
    if not (backend or model):
        there = {each.variable for each in service.runtime.backends.keys.listing(None) if each.source != "unapproved"}
        model = model_of(there)
        backend = "sdk" if model else next(iter(installed()), "mock")
    written, kept = await asyncio.to_thread(_set_up, Path(given), template, backend or "sdk", model)
    loaded = await service.project(given)
    if not kept:  # what our own command writes for the user is approved
        for workflow in (None, *loaded.project.workflows.values()):
            powers = await asyncio.to_thread(powers_of, loaded.project, workflow)
            await asyncio.to_thread(service.runtime.gate.approve, loaded.project.root, powers)
        await service.remake_kit(loaded)
    return ProjectMade(str(loaded.project.root), template, written, kept)


def _full_path(directory: str) -> str:
    given = os.path.expanduser(directory.strip())
    if not os.path.isabs(given):  # ours is not the directory that the caller is in
        raise BadInput(f"{directory!r} is not a full path", hint="such as /home/me/project or ~/project")
    return given


def _set_up(root: Path, template: str, backend: str, model: str | None) -> tuple[list[str], list[str]]:
    if not root.parent.is_dir():
        raise NotFound(f"there is no directory {root.parent}", hint="name a folder inside one that exists")
    if root.exists() and not root.is_dir():
        raise BadInput(f"{root} is a file", hint="name a folder")
    with disk_explained():
        root.mkdir(exist_ok=True)
        written, kept = write_team(template, root, backend, model)
    if not written:
        raise Refused("everything is already there", hint="to see how to run it: agent-worker ls")
    return written, kept


def _summary(project: ProjectFiles, *, gone: bool = False) -> ProjectSummary:
    return ProjectSummary(
        name=project.definition.name,
        root=str(project.root),
        agents=len(project.agents),
        workflows=len(project.workflows),
        problems=[str(problem) for problem in project.wrong],
        gone=gone,
    )
