"""What a project would do that the user has not approved, and their approval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agent_worker.agents.roster import Admitted
from agent_worker.service.office import Found, Office
from agent_worker.service.operation import operation
from agent_worker.trust.powers import Power, powers_of


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that can execute, receive a secret or cost more, and waits for a yes."""

    what: str
    shown: str  #: all of it, or the difference to what was approved before
    digest: str
    changed: bool
    why: str = ""  #: an earlier approval does not hold any more
    kind: str = ""  #: `limits` forbid nothing while they wait: lower ones hold


@operation("GET", "/trust")
async def trust_list(office: Office, project: str | None = None, workflow: str | None = None) -> list[Wish]:
    """What a project, or one of its workflows, would do that was not approved."""
    admitted = await office.project(project)
    found = await office.workflow(admitted, workflow) if workflow else None
    return await wishes(office, admitted, found)


@operation("POST", "/trust")
async def trust_give(
    office: Office, project: str | None = None, workflow: str | None = None, digests: list[str] | None = None
) -> int:
    """Approve what has these digests, or everything that waits. How much was approved."""
    admitted = await office.project(project)
    return await approve(office, admitted, workflow, digests)


async def approve(
    office: Office, admitted: Admitted, workflow: str | None = None, digests: list[str] | None = None
) -> int:
    found = await office.workflow(admitted, workflow) if workflow else None
    return await approve_all(office, admitted, found, digests)


async def wishes(office: Office, admitted: Admitted, found: Found | None) -> list[Wish]:
    powers = await asyncio.to_thread(_powers, admitted, found)
    waiting = await asyncio.to_thread(office.stage.gate.unapproved, admitted.project.root, powers)
    return [
        Wish(one.power.what, one.shown(), one.power.digest, one.before is not None, one.why, one.power.kind)
        for one in waiting
    ]


async def approve_all(office: Office, admitted: Admitted, found: Found | None, digests: list[str] | None) -> int:
    powers = await asyncio.to_thread(_powers, admitted, found)
    wanted = [power for power in powers if digests is None or power.digest in digests]
    root = admitted.project.root
    waiting = await asyncio.to_thread(office.stage.gate.unapproved, root, wanted)
    if waiting:
        await asyncio.to_thread(office.stage.gate.approve, root, [one.power for one in waiting])
        await office.equip_again(admitted)
    return len(waiting)


def _powers(admitted: Admitted, found: Found | None) -> tuple[Power, ...]:
    if found is None:
        return powers_of(admitted.project)
    return powers_of(admitted.project, found.definition, found.fetched)
