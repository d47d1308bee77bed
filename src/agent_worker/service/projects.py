"""Projects, and the state of everything at a glance."""

from __future__ import annotations

import asyncio

from agent_worker.core.disk_space import FreeSpace
from agent_worker.core.later import dataclass
from agent_worker.definitions.project import ProjectFiles
from agent_worker.service.agents import AgentView, agents_list
from agent_worker.service.hosts import HostView, hosts_list
from agent_worker.service.inbox import inbox_list
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.workflows import Running, instances_list


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
    workflows: list[str]  #: those that files define, running or not
    waiting: int  #: items in the person's inbox
    disk: FreeSpace
    hosts: list[HostView]  #: that share the work; none where this daemon keeps its state for itself


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
        workflows=sorted(loaded.project.workflows),
        waiting=len(await inbox_list(service, project)),
        disk=service.runtime.space.look(),
        hosts=await hosts_list(service),
    )


def _summary(project: ProjectFiles, *, gone: bool = False) -> ProjectSummary:
    return ProjectSummary(
        name=project.definition.name,
        root=str(project.root),
        agents=len(project.agents),
        workflows=len(project.workflows),
        problems=[str(problem) for problem in project.wrong],
        gone=gone,
    )
