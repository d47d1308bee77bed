"""Schedules of agents, of members of a running workflow, and of workflows, as a person sets them.

What a person sets counts more than what a file says, and stays until the person clears it; then the file counts again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import ValidationError

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, WorkspaceName, canonical, check_tag
from agent_worker.core.errors import BadInput, NotFound, NotRunning, Refused
from agent_worker.database.database import Row
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Timer
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces import workspace_rows


@dataclass(frozen=True, slots=True)
class Scheduled:
    target: str  #: alice, alice@workflow:tag, @workflow:tag (the default of its members), or workflow
    wakeup: str
    prompt: str
    workspace: str
    due_at: int | None  #: next
    fired_at: int | None  #: last
    set_by: str = "file"  #: file | person
    tz: str = ""
    params: dict[str, str] = field(default_factory=dict)
    kind: Literal["agent", "member", "members", "workflow"] = "agent"  #: what is scheduled


@dataclass(frozen=True, slots=True)
class _Target:
    """What a schedule is for: an agent, a member of an instance, the members of one, or a workflow."""

    agent: str | None = None  #: id
    workflow: str = ""  #: workflow:tag, of a workflow that is run
    instance: str = ""  #: id of a workspace
    place: WorkspaceName | None = None  #: its name
    member: str = ""

    @property
    def id(self) -> str:
        return schedule.id_of(self.agent, self.workflow, self.instance)


@operation("GET", "/schedules")
async def schedules_list(service: Service, project: str | None = None) -> list[Scheduled]:
    """All schedules of a project, with when each is due next and was last."""
    loaded = await service.project(project)
    return [_scheduled(row) for row in await service.read(loaded, schedule.of_project)]


@operation("GET", "/schedules/{target}")
async def schedule_get(service: Service, target: str, project: str | None = None) -> Scheduled:
    """The schedule of an agent, of a member, of the members of an instance, or of a workflow."""
    loaded = await service.project(project)
    wanted = await _target(service, loaded, target)
    for row in await service.read(loaded, schedule.of_project):
        if row["id"] == wanted.id:
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
    """Wake an agent (alice), a member (alice@review:tag), or all members of an instance that have no schedule of their
    own (@review:tag); or run a workflow (review). By an interval (5m), a cron line (0 9 * * 1-5) or once (at).
    """
    loaded = await service.project(project)
    wanted = await _target(service, loaded, target)
    if wanted.place is not None:
        if workspace is not None:
            raise BadInput(f"{target} says already where it wakes", hint="leave out the workspace")
        workspace = str(wanted.place)
    given = {"wakeup": wakeup, "at": at, "tz": tz, "prompt": prompt, "workspace": workspace, "params": params}
    kind = WorkflowSchedule if wanted.workflow else Schedule
    spec = _checked(kind, {k: v for k, v in given.items() if v is not None})
    if wanted.workflow:
        await _check_workflow(service, loaded, wanted.workflow, spec)
    timer = Timer(spec, agent=wanted.agent, workflow=wanted.workflow, instance=wanted.instance, set_by="person")
    now = service.runtime.clock.now()
    if timer.state == "default":
        members = await service.read(loaded, workspace_rows.members_in, wanted.instance)
        await service.write(loaded, schedule.keep_default, timer, tuple(members.values()), now=now)
    else:
        await service.write(loaded, schedule.keep, timer, now=now)
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()
    return await schedule_get(service, target, project)


@operation("DELETE", "/schedules/{target}")
async def schedule_clear(service: Service, target: str, project: str | None = None) -> bool:
    """End what a person has set. True if there was something; what the file says, or the default, counts again."""
    loaded = await service.project(project)
    wanted, now = await _target(service, loaded, target), service.runtime.clock.now()
    if wanted.instance and wanted.agent is None:
        return await service.write(loaded, schedule.clear_default, wanted.instance)
    was, written = await service.write(loaded, schedule.clear, wanted.id, set_by="person"), _in_file(loaded, wanted)
    if not was and written:
        raise Refused(f"the schedule of {target} is in its file", hint="remove it there: the lines under schedule:")
    if written:
        timer = Timer(written, agent=wanted.agent, workflow=wanted.workflow, instance=wanted.instance)
        await service.write(loaded, schedule.keep, timer, now=now)
    elif wanted.instance and wanted.agent:
        await service.write(loaded, schedule.give_default, wanted.instance, wanted.agent, now=now)
    return was


def _in_file(loaded: LoadedProject, wanted: _Target) -> Schedule | WorkflowSchedule | None:
    workflows = loaded.project.workflows
    if wanted.place is not None:
        known = workflows.get(wanted.place.workflow)
        own = known.agents[wanted.member].schedule if known and wanted.member in known.agents else None
        return own.model_copy(update={"workspace": str(wanted.place)}) if own else None
    if wanted.agent is not None:
        return next(loaded.definition(name).schedule for name, id in loaded.agents.items() if id == wanted.agent)
    name = WorkspaceName.parse(wanted.workflow)
    return workflows[name.workflow].schedule if name.tag == MAIN else None


def _scheduled(row: Row) -> Scheduled:
    spec = schedule.spec_of(row)
    place = f"@{WorkspaceName(row['of_workflow'], row['of_tag'])}" if row["of_workflow"] else ""
    kind: Literal["agent", "member", "members", "workflow"] = (
        "workflow" if row["workflow"] else ("member" if row["agent"] else "members") if row["instance"] else "agent"
    )
    return Scheduled(
        target=f"{row['name'] or ''}{place}" or str(WorkspaceName.parse(row["workflow"])),
        wakeup=spec.wakeup or f"at {spec.at.isoformat() if spec.at else ''}",
        prompt=row["prompt"],
        workspace=row["workspace"],
        due_at=row["due_at"] if row["state"] == "active" else None,
        fired_at=row["fired_at"],
        set_by=row["set_by"],
        tz=spec.tz or "",
        params=spec.params if isinstance(spec, WorkflowSchedule) else {},
        kind=kind,
    )


async def _target(service: Service, loaded: LoadedProject, target: str) -> _Target:
    if "@" not in target:
        return _by_name(loaded, target)
    address = await service.address(loaded, target)
    assert address.workspace is not None
    try:
        workspace = await service.read(loaded, workspace_rows.find_running, address.workspace)
    except NotRunning as error:
        if canonical(address.workspace.workflow, loaded.project.workflows) is None:
            raise loaded.project.no_workflow(address.workspace.workflow) from None
        own = f"to run it by itself: agent-worker schedule {address.workspace} set …"
        raise NotRunning(error.message, hint=error.hint if address.agent else own) from None
    place = workspace_rows.name_of(workspace)
    if address.agent is None:
        return _Target(instance=workspace["id"], place=place)
    member = await service.read(loaded, workspace_rows.member_called, workspace["id"], address.agent)
    return _Target(agent=member["agent"], instance=workspace["id"], place=place, member=member["name"])


def _by_name(loaded: LoadedProject, target: str) -> _Target:
    """An agent; if none has that name, a workflow, perhaps with the tag that its instances shall have."""
    name = WorkspaceName.parse(target)
    known = canonical(name.workflow, loaded.project.workflows)
    if known and (":" in target or canonical(target, loaded.agents) is None):
        return _Target(workflow=WorkspaceName(known, check_tag(name.tag)).full)
    return _Target(agent=agent_id(loaded, target))


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
