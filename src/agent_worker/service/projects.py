"""Projects, and the state of everything at a glance."""

from __future__ import annotations

import os
from dataclasses import dataclass

from agent_worker.backends.providers import ProviderStatus, configured_providers
from agent_worker.definitions.project import Project
from agent_worker.service.agents import Agent, agents_list
from agent_worker.service.attention import attention_list
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.service.workflows import Running, instances_list
from agent_worker.storage.space import Room


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    name: str
    root: str
    agents: int
    workflows: int
    problems: list[str]  #: of its files, each with its line


@dataclass(frozen=True, slots=True)
class Status:
    project: ProjectSummary
    agents: list[Agent]
    instances: list[Running]
    waiting: int  #: items in the person's inbox
    disk: Room


@operation("GET", "/projects")
async def projects_list(office: Office) -> list[ProjectSummary]:
    """The projects that have been opened since the daemon started."""
    return [_summary(admitted.project) for admitted in office.projects()]


@operation("GET", "/status")
async def status(office: Office, project: str | None = None) -> Status:
    """Agents, running workflows, what waits for the person, and mistakes in files."""
    admitted = await office.project(project)
    return Status(
        project=_summary(admitted.project),
        agents=await agents_list(office, project),
        instances=await instances_list(office, project),
        waiting=len(await attention_list(office, project)),
        disk=office.stage.space.look(),
    )


@operation("GET", "/providers")
async def providers(office: Office) -> list[ProviderStatus]:
    """Which model providers can be used, by the keys in the daemon's environment. No key is shown."""
    return configured_providers(os.environ)


def _summary(project: Project) -> ProjectSummary:
    return ProjectSummary(
        name=project.definition.name,
        root=str(project.root),
        agents=len(project.agents),
        workflows=len(project.workflows),
        problems=[str(problem) for problem in project.wrong],
    )
