"""All projects at once, as Home, the list beside it, the inbox and the search show them. One that cannot be looked at
(its directory was removed, or is removed just now) hides no other one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_worker.core.errors import AgentWorkerError
from agent_worker.service import projects
from agent_worker.service.projects import ProjectSummary, Status
from agent_worker.service.service import Service

T = TypeVar("T")


async def known_projects(service: Service) -> tuple[list[ProjectSummary], list[ProjectSummary]]:
    """The projects that have something in them, also those of former days; and those whose directory is gone."""
    await service.open_known()
    known = [p for p in await projects.projects_list(service) if p.agents or p.workflows or p.problems]
    return [p for p in known if not p.gone], [p for p in known if p.gone]


async def of_each(service: Service, look: Callable[[Service, str], Awaitable[T]]) -> list[tuple[ProjectSummary, T]]:
    """What a look at each project found, by its directory."""
    found: list[tuple[ProjectSummary, T]] = []
    for project in (await known_projects(service))[0]:
        try:
            found.append((project, await look(service, project.root)))
        except AgentWorkerError:
            continue  # it went while we looked
    return found


async def statuses(service: Service) -> list[Status]:
    return [status for _, status in await of_each(service, projects.status)]
