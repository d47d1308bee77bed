"""What was fetched from elsewhere: which commit of it is used, and moving to a newer one on purpose."""

from __future__ import annotations

import asyncio

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.errors import Stale
from agent_worker.core.later import dataclass
from agent_worker.service.found_workflow import FoundWorkflow, read_fetched, workflow_source
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trust import PendingApproval, approve_all, pending_approvals


@dataclass(frozen=True, slots=True)
class LockedSource:
    """A source, and the commit that it is until it is updated."""

    source: str
    commit: str
    at: str


@dataclass(frozen=True, slots=True)
class Newer:
    """What an update would bring."""

    source: str
    locked: str  #: the commit that is used now
    commit: str  #: the one that its branch or tag is now
    #: What it would do that was not approved, as a difference where there was something before.
    pending_approvals: list[PendingApproval]


@operation("GET", "/remotes")
async def remotes_list(service: Service) -> list[LockedSource]:
    """What was fetched, each with the commit it is locked to."""
    return [LockedSource(lock.source, lock.commit, lock.at) for lock in await service.remotes().locked()]


@operation("POST", "/remotes/look")
async def remote_look(service: Service, source: str, project: str | None = None) -> Newer:
    """What an update of a fetched workflow would change. Looking changes nothing."""
    loaded = await service.project(project)
    remote = workflow_source(source)
    now = await service.remotes().get(remote, now=service.runtime.clock.now())
    newest = await _newest(service, loaded, source)
    assert newest.fetched is not None
    return Newer(str(remote), now.commit, newest.fetched.commit, await pending_approvals(service, loaded, newest))


@operation("POST", "/remotes/update")
async def remote_update(
    service: Service, source: str, commit: str, project: str | None = None, digests: list[str] | None = None
) -> LockedSource:
    """Use this commit from now on, and approve what has these digests. It must be the one that was looked at."""
    loaded = await service.project(project)
    newest = await _newest(service, loaded, source)
    assert newest.fetched is not None
    if newest.fetched.commit != commit:
        raise Stale(f"{source} has moved again", hint=f"agent-worker remote update {source}")
    await approve_all(service, loaded, newest, digests or [])
    await service.remotes().move(newest.fetched.remote, commit, now=service.runtime.clock.now())
    return next(lock for lock in await remotes_list(service) if lock.source == str(newest.fetched.remote))


async def _newest(service: Service, loaded: LoadedProject, source: str) -> FoundWorkflow:
    fetched = await service.remotes().newest(workflow_source(source))
    return await asyncio.to_thread(read_fetched, loaded, fetched)
