"""What a project would do that the user has not approved, and their approval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_worker.agents.loader import LoadedProject
from agent_worker.service.operation import operation
from agent_worker.service.service import FoundWorkflow, Service
from agent_worker.trust.powers import Power, powers_of


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """Something that can execute, receive a secret or cost more, and waits for a yes."""

    what: str
    shown: str  #: all of it, or the difference to what was approved before
    digest: str
    changed: bool
    why: str = ""  #: an earlier approval does not hold any more
    kind: str = ""  #: `limits` forbid nothing while they wait: lower ones hold


@operation("GET", "/trust")
async def trust_list(
    service: Service, project: str | None = None, workflow: str | None = None
) -> list[PendingApproval]:
    """What a project, or one of its workflows, would do that was not approved."""
    loaded = await service.project(project)
    found = await service.workflow(loaded, workflow) if workflow else None
    return await pending_approvals(service, loaded, found)


@operation("POST", "/trust")
async def trust_give(
    service: Service, project: str | None = None, workflow: str | None = None, digests: list[str] | None = None
) -> int:
    """Approve what has these digests, or everything that waits. How much was approved."""
    loaded = await service.project(project)
    return await approve(service, loaded, workflow, digests)


async def approve(
    service: Service, loaded: LoadedProject, workflow: str | None = None, digests: list[str] | None = None
) -> int:
    found = await service.workflow(loaded, workflow) if workflow else None
    return await approve_all(service, loaded, found, digests)


async def pending_approvals(
    service: Service, loaded: LoadedProject, found: FoundWorkflow | None
) -> list[PendingApproval]:
    powers = await asyncio.to_thread(_powers, loaded, found)
    waiting = await asyncio.to_thread(service.runtime.gate.unapproved, loaded.project.root, powers)
    return [
        PendingApproval(one.power.what, one.shown(), one.power.digest, one.before is not None, one.why, one.power.kind)
        for one in waiting
    ]


async def approve_all(
    service: Service, loaded: LoadedProject, found: FoundWorkflow | None, digests: list[str] | None
) -> int:
    powers = await asyncio.to_thread(_powers, loaded, found)
    wanted = [power for power in powers if digests is None or power.digest in digests]
    root = loaded.project.root
    waiting = await asyncio.to_thread(service.runtime.gate.unapproved, root, wanted)
    if waiting:
        await asyncio.to_thread(service.runtime.gate.approve, root, [one.power for one in waiting])
        await service.remake_kit(loaded)
    return len(waiting)


def _powers(loaded: LoadedProject, found: FoundWorkflow | None) -> tuple[Power, ...]:
    if found is None:
        return powers_of(loaded.project)
    return powers_of(loaded.project, found.definition, found.fetched)
