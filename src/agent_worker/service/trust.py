"""What a project would do that the user has not approved, their approval, and taking it back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical
from agent_worker.core.errors import BadInput, DefinitionError
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.definitions.project_files import ProjectFiles
from agent_worker.memory import audit
from agent_worker.memory.audit import AuditEntry, Deed
from agent_worker.service.addresses import no_agent
from agent_worker.service.found_workflow import FoundWorkflow
from agent_worker.service.operation import operation
from agent_worker.service.providers import keys_changed
from agent_worker.service.service import Service
from agent_worker.trust.approvals import Unapproved
from agent_worker.trust.gate import Gate
from agent_worker.trust.powers import Power, powers_of, powers_of_agent
from agent_worker.trust.project_keys import keys_in_env_file, power_of_keys


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """Something that can execute, receive a secret or cost more, and waits for a yes."""

    what: str
    shown: str  #: all of it, or the difference to what was approved before
    digest: str
    changed: bool
    why: str = ""  #: an earlier approval does not hold any more
    kind: str = ""  #: `limits` forbid nothing while they wait: lower ones hold


@dataclass(frozen=True, slots=True)
class _TrustSubject:
    """What is asked about: of a project that need not be open for it, or of something in one that is."""

    root: Path
    powers: tuple[Power, ...]
    loaded: LoadedProject | None


async def _subject(service: Service, project: str | None, workflow: str | None, agent: str | None) -> _TrustSubject:
    if workflow is None and agent is None:
        files, loaded = await service.files_of(project)
        return _TrustSubject(files.root, await asyncio.to_thread(_powers, files, None), loaded)
    loaded = await service.project(project)
    return _TrustSubject(loaded.project.root, await _powers_of(service, loaded, workflow, agent), loaded)


@operation("GET", "/trust")
async def trust_list(
    service: Service, project: str | None = None, workflow: str | None = None, agent: str | None = None
) -> list[PendingApproval]:
    """What a project, or one of its workflows or agents, would do that is not approved."""
    asked = await _subject(service, project, workflow, agent)
    waiting = await asyncio.to_thread(service.runtime.gate.unapproved, asked.root, asked.powers)
    return [_pending(one) for one in waiting]


@operation("POST", "/trust")
async def trust_give(
    service: Service,
    project: str | None = None,
    workflow: str | None = None,
    agent: str | None = None,
    digests: list[str] | None = None,
) -> int:
    """Approve what has these digests, or everything that waits. Returns how many were approved."""
    return await _approve(service, await _subject(service, project, workflow, agent), digests)


@operation("GET", "/trust/approved")
async def trust_approved(
    service: Service, project: str | None = None, workflow: str | None = None, agent: str | None = None
) -> list[PendingApproval]:
    """What a project, or one of its workflows or agents, does because it was approved."""
    asked = await _subject(service, project, workflow, agent)
    return [_pending(Unapproved(power, None)) for power in await asyncio.to_thread(_approved, service, asked)]


@operation("DELETE", "/trust")
async def trust_revoke(
    service: Service, project: str | None = None, workflow: str | None = None, agent: str | None = None
) -> int:
    """Take approvals back: the person is asked again. Returns how many were taken back."""
    asked = await _subject(service, project, workflow, agent)
    approved = await asyncio.to_thread(_approved, service, asked)
    if approved:
        await _note(service, asked, approved, "withdrawn")
        await asyncio.to_thread(service.runtime.gate.withdraw, asked.root, approved)
        if asked.loaded:
            await service.remake_kit(asked.loaded)
    return len(approved)


def _approved(service: Service, asked: _TrustSubject) -> list[Power]:
    waiting = {one.power.digest for one in service.runtime.gate.unapproved(asked.root, asked.powers)}
    return [power for power in asked.powers if power.digest not in waiting]


async def approve(
    service: Service, loaded: LoadedProject, workflow: str | None = None, agent: str | None = None
) -> int:
    powers = await _powers_of(service, loaded, workflow, agent)
    return await _approve(service, _TrustSubject(loaded.project.root, powers, loaded), None)


async def require_approved(service: Service, loaded: LoadedProject, agent: str, *, trust: bool = False) -> None:
    """Before an agent is written to directly: refuse at once what its run would be refused.

    `trust` approves it instead. Members of a workspace were asked about when their workflow began.
    """
    if (known := loaded.agents.get(loaded.named(agent))) is None:
        return  # whoever delivers the message says so
    if trust:
        await approve(service, loaded, agent=agent)
    worker = service.runtime.registry.own(known)
    is_ready = worker is not None and worker.kit.made is not None
    await asyncio.to_thread(_require, service.runtime.gate, loaded, agent, is_ready=is_ready)


def _require(gate: Gate, loaded: LoadedProject, agent: str, *, is_ready: bool) -> None:
    powers = _powers_of_one(loaded, loaded.named(agent))
    if is_ready:
        # What else was changed since it was made ready is refused where it is used: a skill when it is read.
        powers = tuple(power for power in powers if power.kind in ("program", "settings"))
    gate.require(loaded.project.root, powers)


async def pending_approvals(
    service: Service, loaded: LoadedProject, found: FoundWorkflow | None
) -> list[PendingApproval]:
    powers = await asyncio.to_thread(_powers, loaded.project, found)
    return [
        _pending(one) for one in await asyncio.to_thread(service.runtime.gate.unapproved, loaded.project.root, powers)
    ]


def _pending(one: Unapproved) -> PendingApproval:
    power = one.power
    return PendingApproval(power.what, one.shown(), power.digest, one.before is not None, one.why, power.kind)


async def approve_all(
    service: Service, loaded: LoadedProject, found: FoundWorkflow | None, digests: list[str] | None
) -> int:
    powers = await asyncio.to_thread(_powers, loaded.project, found)
    return await _approve(service, _TrustSubject(loaded.project.root, powers, loaded), digests)


async def _approve(service: Service, asked: _TrustSubject, digests: list[str] | None) -> int:
    wanted = [power for power in asked.powers if digests is None or power.digest in digests]
    waiting = await asyncio.to_thread(service.runtime.gate.unapproved, asked.root, wanted)
    if waiting:
        powers = [one.power for one in waiting]
        await _note(service, asked, powers, "approved")
        await asyncio.to_thread(service.runtime.gate.approve, asked.root, powers)
        if asked.loaded:
            await service.remake_kit(asked.loaded)
            await keys_changed(service)
    return len(waiting)


async def _note(service: Service, asked: _TrustSubject, powers: Sequence[Power], deed: Deed) -> None:
    """Note an approval in the audit before it counts; for a project that is open in another runtime, that one does."""
    if asked.loaded:
        await service.write(asked.loaded, _noted, [power.what for power in powers], deed, now=service.now())


def _noted(tx: Transaction, what: Sequence[str], deed: Deed, *, now: int) -> None:
    for each in what:
        audit.note(tx, AuditEntry(agent="", who="user", deed=deed, about=each), now=now)


async def _powers_of(
    service: Service, loaded: LoadedProject, workflow: str | None, agent: str | None
) -> tuple[Power, ...]:
    """The powers of a workflow, of an agent by itself, or of the whole project."""
    if agent is not None and workflow is not None:
        raise BadInput("name a workflow or an agent, not both")
    if agent is not None:
        return await asyncio.to_thread(_powers_of_one, loaded, loaded.named(agent))
    found = await service.workflow(loaded, workflow) if workflow else None
    return await asyncio.to_thread(_powers, loaded.project, found)


def _powers_of_one(loaded: LoadedProject, agent: str) -> tuple[Power, ...]:
    if agent not in loaded.agents and (broken := canonical(agent, loaded.project.broken)) is not None:
        raise DefinitionError(loaded.project.wrong_with(broken))
    if agent not in loaded.agents:
        raise no_agent(agent, loaded.agents)
    return powers_of_agent(loaded.definition(agent), loaded.project.root) + _powers_of_keys(loaded.project)


def _powers_of_keys(project: ProjectFiles) -> tuple[Power, ...]:
    return power_of_keys(project, keys_in_env_file(project))


def _powers(project: ProjectFiles, found: FoundWorkflow | None) -> tuple[Power, ...]:
    if found is None:
        return powers_of(project) + _powers_of_keys(project)
    return powers_of(project, found.definition, found.fetched) + _powers_of_keys(project)
