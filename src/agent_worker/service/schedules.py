"""Schedules of agents and workflows, as a person sets them.

What a person sets counts more than what a file says, and stays until the person clears it; then the file counts again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import ValidationError

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, WorkspaceName, canonical, parse_address
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.database.database import Row
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Timer
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service


@dataclass(frozen=True, slots=True)
class Scheduled:
    target: str  #: alice, or @workflow
    wakeup: str
    prompt: str
    workspace: str
    due_at: int | None  #: next
    fired_at: int | None  #: last
    set_by: str = "file"  #: file | person
    tz: str = ""
    params: dict[str, str] = field(default_factory=dict)


@operation("GET", "/schedules")
async def schedules_list(service: Service, project: str | None = None) -> list[Scheduled]:
    """All schedules of a project, with when each is due next and was last."""
    loaded = await service.project(project)
    return [_scheduled(row) for row in await service.read(loaded, schedule.of_project)]


@operation("GET", "/schedules/{target}")
async def schedule_get(service: Service, target: str, project: str | None = None) -> Scheduled:
    """The schedule of an agent, or of a @workflow."""
    loaded = await service.project(project)
    id = _id(loaded, target)
    for row in await service.read(loaded, schedule.of_project):
        if row["id"] == id:
            return _scheduled(row)
    raise NotFound(f"{target} has no schedule", hint=f"agent-worker schedule set {target} 5m")


@operation("PUT", "/schedules/{target}")
async def schedule_set(
    service: Service,
    target: str,
    wakeup: str | None = None,
    at: str | None = None,
    tz: str | None = None,
    prompt: str | None = None,
    workspace: str | None = None,
    params: dict[str, str] | None = None,
    project: str | None = None,
) -> Scheduled:
    """Wake an agent, or run a @workflow, by an interval (5m), a cron line (0 9 * * 1-5) or once (at)."""
    loaded = await service.project(project)
    agent, workflow = _target(loaded, target)
    given = {"wakeup": wakeup, "at": at, "tz": tz, "prompt": prompt, "workspace": workspace, "params": params}
    wanted = _checked(WorkflowSchedule if workflow else Schedule, {k: v for k, v in given.items() if v is not None})
    if workflow:
        await _check_workflow(service, loaded, workflow, wanted)
    timer = Timer(wanted, agent=agent, workflow=workflow, set_by="person")
    await service.write(loaded, schedule.keep, timer, now=service.runtime.clock.now())
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()
    return await schedule_get(service, target, project)


@operation("DELETE", "/schedules/{target}")
async def schedule_clear(service: Service, target: str, project: str | None = None) -> bool:
    """End what a person has set. True if there was something; what the file says counts again."""
    loaded = await service.project(project)
    agent, workflow = _target(loaded, target)
    id, written = schedule.id_of(agent, workflow), _in_file(loaded, agent, workflow)
    was = await service.write(loaded, schedule.clear, id, set_by="person")
    if not was and written:
        raise Refused(f"the schedule of {target} is in its file", hint="remove it there: the lines under schedule:")
    if written:
        timer = Timer(written, agent=agent, workflow=workflow)
        await service.write(loaded, schedule.keep, timer, now=service.runtime.clock.now())
    return was


def _in_file(loaded: LoadedProject, agent: str | None, workflow: str) -> Schedule | WorkflowSchedule | None:
    if agent is not None:
        return next(loaded.definition(name).schedule for name, id in loaded.agents.items() if id == agent)
    name = WorkspaceName.parse(workflow)
    return loaded.project.workflows[name.workflow].schedule if name.tag == MAIN else None


def _scheduled(row: Row) -> Scheduled:
    spec = schedule.spec_of(row)
    return Scheduled(
        target=row["name"] or f"@{WorkspaceName.parse(row['workflow'])}",
        wakeup=spec.wakeup or f"at {spec.at.isoformat() if spec.at else ''}",
        prompt=row["prompt"],
        workspace=row["workspace"],
        due_at=row["due_at"],
        fired_at=row["fired_at"],
        set_by=row["set_by"],
        tz=spec.tz or "",
        params=spec.params if isinstance(spec, WorkflowSchedule) else {},
    )


def _id(loaded: LoadedProject, target: str) -> str:
    return schedule.id_of(*_target(loaded, target))


def _target(loaded: LoadedProject, target: str) -> tuple[str | None, str]:
    """An agent's id, or workflow:tag."""
    address = parse_address(target)
    if address.workflow is None:
        return agent_id(loaded, target), ""
    if address.agent is not None:
        raise BadInput(f"{target} is a member", hint=f"set it for {address.agent}, with --workspace {address.workflow}")
    name = canonical(address.workflow, loaded.project.workflows)
    if name is None:
        raise loaded.project.no_workflow(address.workflow)
    return None, WorkspaceName(name, address.tag).full


async def _check_workflow(
    service: Service, loaded: LoadedProject, workflow: str, wanted: Schedule | WorkflowSchedule
) -> None:
    """Nobody will be there to give what is missing."""
    definition = (await service.workflow(loaded, WorkspaceName.parse(workflow).workflow)).definition
    params = wanted.params if isinstance(wanted, WorkflowSchedule) else {}
    known = {param.name: param for param in definition.params}
    wrong = [name for name in params if name not in known]
    missing = [name for name, param in known.items() if param.required and name not in params]
    if wrong or missing:
        told = f"has no parameter {wrong[0]}" if wrong else f"needs the parameter {missing[0]}"
        raise BadInput(f"{definition.name} {told}", hint=f"it takes: {', '.join(known) or 'none'}")
    if not definition.kickoff and not wanted.prompt:
        raise BadInput(f"{definition.name} has no kickoff, so nobody would be called", hint="add --prompt '@…'")


def _checked(kind: type[Schedule] | type[WorkflowSchedule], given: dict[str, object]) -> Schedule | WorkflowSchedule:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BadInput(f"{where}: {first['msg']}".lstrip(": "), hint="such as 5m or '0 9 * * 1-5'") from None
