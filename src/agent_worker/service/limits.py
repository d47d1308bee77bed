"""Limits as a person sees them: what is allowed, and how much of it is used."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal

from agent_worker.agents import commands
from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import WorkspaceName
from agent_worker.core.errors import BadInput
from agent_worker.core.later import dataclass
from agent_worker.database.database import Transaction
from agent_worker.service.agent_files import agent_edit
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.trust.allowances import THE_PROJECT, allowances_of
from agent_worker.work.limits import Payer, WorkLimits, day_of, spent
from agent_worker.workspaces import member_rows, workspace_rows, workspace_state

LATELY = 100  # pieces of work that ended last: what they descend from is still of interest


@dataclass(frozen=True, slots=True)
class LimitUse:
    of: str  #: project, an agent, or @workflow
    what: str
    unit: Literal["USD", "runs"]
    used: float
    limit: float | None  #: None: there is none
    estimated: bool = False  #: what is used rests on a guess
    waits: str = ""  #: what a file says instead, which holds once it is approved


@operation("GET", "/limits")
async def limits_list(service: Service, project: str | None = None) -> list[LimitUse]:
    """What a project, its agents and its running workflows may spend, and have spent."""
    loaded = await service.project(project)
    own = {name: service.runtime.registry.worker(id).limits for name, id in loaded.agents.items()}
    waiting = await asyncio.to_thread(_waiting, service, loaded)
    found = await service.read(loaded, _allowances, service, loaded, own, now=service.now())
    return [replace(each, waits=waiting.get((_whose(each), each.unit), "")) for each in found]


@operation("POST", "/workflows/{instance}/limits")
async def limits_raise(
    service: Service, instance: str, turns: int | None = None, usd: float | None = None, project: str | None = None
) -> list[LimitUse]:
    """Set what one request may use in a running instance, above what its file says: runs (`turns`) or money (`usd`).

    What a limit has stopped there goes on. What was used counts on: `resume` grants the same once more instead.
    """
    granted = {name: float(value) for name, value in (("turns", turns), ("usd", usd)) if value is not None}
    _check_numbers(granted, "say how many: turns, usd or both")
    loaded = await service.project(project)
    row = await service.running_row(loaded, instance)
    await service.write(loaded, _raise, row["id"], granted, now=service.now())
    return [each for each in await limits_list(service, project) if each.of == f"@{workspace_rows.name_of(row)}"]


def _raise(tx: Transaction, workspace: str, granted: dict[str, float], *, now: int) -> None:
    workspace_state.grant(tx, workspace, granted)
    commands.resume_workspace(tx, workspace, forgives=False, now=now)


@operation("POST", "/agents/{name}/limits")
async def agent_limit(service: Service, name: str, usd_per_day: float, project: str | None = None) -> list[LimitUse]:
    """Set what an agent may spend in a day, in its file. Work that this limit stopped continues."""
    _check_numbers({"usd_per_day": usd_per_day}, "")
    made = await agent_edit(service, name, {"limits": {"usd_per_day": usd_per_day}}, project)
    loaded = await service.project(project)
    id = loaded.agents[made.name]
    await service.write(loaded, commands.resume_agent, id, forgives=False, now=service.now())
    service.runtime.supervisor.wake(id)
    return [each for each in await limits_list(service, project) if each.of == made.name]


def _check_numbers(given: dict[str, float], missing: str) -> None:
    if not given:
        raise BadInput(missing, hint="turns=100")
    for name, value in given.items():
        if not 0 < value < 1e9:
            raise BadInput(f"{name}: {value:g} is not a possible limit", hint="a number above 0")


def _waiting(service: Service, loaded: LoadedProject) -> dict[tuple[str, str], str]:
    """What files say of whom, in USD or runs, that is not approved."""
    project = loaded.project
    held = service.runtime.gate.held_back(project.root, allowances_of(project))
    return {
        (each.of, "runs" if each.name == "turns" else "USD"): f"{each.told(each.value)}, once you approve it"
        for each in allowances_of(project)
        if (each.of, each.name) in held
    }


def _whose(allowance: LimitUse) -> str:
    return THE_PROJECT if allowance.of == "project" else WorkspaceName.parse(allowance.of).workflow


def _allowances(
    tx: Transaction, service: Service, loaded: LoadedProject, own: dict[str, WorkLimits], *, now: int
) -> list[LimitUse]:
    found: list[LimitUse] = []
    for name, id in loaded.agents.items():
        used = spent(tx, Payer(id, ""), hop=0, fruitless=0, now=now)
        if not found:
            total = own[name].usd_per_project_day
            today, estimated = f"today ({day_of(now)})", "project" in used.estimated
            found.append(LimitUse("project", today, "USD", used.usd_project, total, estimated))
        allowed = own[name].usd_per_agent_day
        found.append(LimitUse(name, "today", "USD", used.usd_agent, allowed, "agent" in used.estimated))
    for workspace in workspace_rows.of_project(tx):
        if workspace["state"] == "running":
            found += _of_workspace(tx, service, workspace["id"], now=now)
    return found


def _of_workspace(tx: Transaction, service: Service, workspace: str, *, now: int) -> list[LimitUse]:
    """What is used of a workspace's limits, by its dearest request of late: each request has an allowance of its
    own."""
    dearest = tx.one(
        """select t.key from tally t where t.project = :project and t.scope = 'root' and t.key in (
             select root from instruction
              where project = :project and workspace = :workspace and state in ('queued', 'running', 'waiting')
             union select root from (
               select root from instruction where project = :project and workspace = :workspace and ended_at is not null
                order by ended_at desc limit :lately) as ended)
           order by t.runs desc limit 1""",
        workspace=workspace,
        lately=LATELY,
    )
    members = member_rows.members_in(tx, workspace)
    if dearest is None or not members:
        return []
    agent = next(iter(members.values()))
    limits = service.runtime.registry.worker(agent, workspace).limits.with_granted(
        workspace_rows.granted(tx, workspace)
    )
    used = spent(tx, Payer(agent, dearest["key"]), hop=0, fruitless=0, now=now)
    row = workspace_rows.get(tx, workspace)
    name = f"@{workspace_rows.name_of(row)}"
    return [
        LimitUse(name, "its largest request", "runs", used.runs, limits.runs_per_root),
        LimitUse(name, "its largest request", "USD", used.usd_root, limits.usd_per_root, "root" in used.estimated),
    ]
