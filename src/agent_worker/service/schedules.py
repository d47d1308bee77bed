"""Schedules of agents, of workflows and of members of a workflow, as a person sets them.

What a person sets counts more than what a file says, and stays until the person clears it; then the file counts again.
The four targets: `alice`; `review` (the workflow itself); `alice@review` (alice, there); `@review` (every member there
that has no schedule).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Literal

from pydantic import ValidationError

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, WorkspaceName, as_written, canonical, check_tag
from agent_worker.core.errors import BadInput, NotFound, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.schedule import Schedule, WorkflowSchedule
from agent_worker.definitions.wakeup import FORMS
from agent_worker.definitions.workflow import WorkflowDefinition
from agent_worker.schedules import schedule
from agent_worker.schedules.schedule import Timer
from agent_worker.service.messages import agent_id
from agent_worker.service.operation import operation
from agent_worker.service.schedule_starter import BY_PERSON
from agent_worker.service.service import Service
from agent_worker.trust.powers import check_power
from agent_worker.workspaces import member_rows


@dataclass(frozen=True, slots=True)
class Scheduled:
    target: str  #: alice, review, alice@review or @review, each of a workflow perhaps with its :tag
    of: Literal["agent", "workflow", "member", "default"]  #: `default`: for members that have no schedule
    wakeup: str
    meaning: str  #: when it is due, in words
    told: str  #: a sentence: who does what, and when
    prompt: str
    workspace: str
    due_at: int | None  #: next
    fired_at: int | None  #: last
    set_by: str = "file"  #: file | person | default
    tz: str = ""
    check: str = ""  #: the command that says whether there is anything to do
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScheduleRequest:
    """A schedule as somebody sets it. Its fields are arguments of `schedule_set`."""

    wakeup: str | None = None
    at: str | None = None
    tz: str | None = None
    prompt: str | None = None
    workspace: str | None = None
    check: str | None = None
    params: dict[str, str] | None = None


@operation("GET", "/schedules")
async def schedules_list(service: Service, project: str | None = None) -> list[Scheduled]:
    """All schedules of a project, with the next and last time of each."""
    loaded = await service.project(project)
    rows = await service.read(loaded, schedule.of_project)
    running = {(row["workspace"], row["member"]) for row in rows if row["instance"]}
    return [_scheduled(row) for row in rows if not _stands_for(row, running)]


@operation("GET", "/schedules/{target}")
async def schedule_get(service: Service, target: str, project: str | None = None) -> Scheduled:
    """The schedule of an agent, a workflow, a member (alice@review), or the default of members (@review)."""
    loaded = await service.project(project)
    found = await _target(service, loaded, target)
    rows = {row["id"]: row for row in await service.read(loaded, schedule.of_project)}
    for id in found.ids:
        if id in rows:
            return _scheduled(rows[id])
    raise NotFound(f"{target} has no schedule", hint=f"agent-worker schedule {target} set 2h")


@operation("PUT", "/schedules/{target}")
async def schedule_set(
    service: Service, target: str, request: Flat[ScheduleRequest], project: str | None = None
) -> Scheduled:
    """Wake `alice` or `alice@review`, run the workflow `review`, or set the default of the members of `@review`.

    By a rest (2h), in words (weekdays at 9), by a cron line (0 9 * * 1-5) or once (at). `check` is a command: it is
    run first, and when it prints nothing, nobody is woken.
    """
    loaded = await service.project(project)
    found = await _target(service, loaded, target)
    given = {key: value for key, value in asdict(request).items() if value is not None}
    _refuse_misplaced(found, given)
    wanted = _checked(WorkflowSchedule if found.workflow else Schedule, given)
    if found.workflow:
        await _check_workflow(service, loaded, found.workflow, wanted)
    if wanted.check:  # whoever sets it has typed it
        power = await asyncio.to_thread(check_power, wanted.check, BY_PERSON, loaded.project.root)
        await asyncio.to_thread(service.runtime.gate.approve, loaded.project.root, [power])
    await service.write(loaded, schedule.keep, found.timer(wanted, "person"), now=service.runtime.clock.now())
    await _tell_members(service, loaded, found)
    return await schedule_get(service, target, project)


@operation("DELETE", "/schedules/{target}")
async def schedule_clear(service: Service, target: str, project: str | None = None) -> bool:
    """Remove the schedule that a person set; what the file says applies again. True if there was one."""
    loaded = await service.project(project)
    found = await _target(service, loaded, target)
    was = await service.write(loaded, schedule.clear, found.own_id, set_by="person")
    if not was and found.in_file:
        raise Refused(f"the schedule of {target} is in its file", hint="remove it there: the lines under schedule:")
    if found.in_file and not found.members_of:
        await service.write(loaded, schedule.keep, found.timer(found.in_file), now=service.runtime.clock.now())
    await _tell_members(service, loaded, found)
    return was


# --- what a target means ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Target:
    """Whose schedule is meant: of an agent, of a workflow, or for members of one."""

    agent: str | None = None
    workflow: str = ""  #: workflow:tag
    members_of: str = ""  #: workflow:tag
    member: str = ""  #: '' is all of them that have none
    definition: WorkflowDefinition | None = None  #: of the workflow whose members are meant
    running: Row | None = None  #: the workspace in which they are now
    members: Mapping[str, str] = field(default_factory=dict)  #: name → agent there
    in_file: Schedule | WorkflowSchedule | None = None

    @property
    def own_id(self) -> str:
        """The id under which a person's words are kept."""
        if self.members_of:
            return schedule.id_for_members(self.members_of, self.member)
        return schedule.id_of(self.agent, self.workflow)

    @property
    def ids(self) -> list[str]:
        """The ids of the schedules that may be meant, first the one that applies now."""
        if self.running and self.member in self.members:
            return [f"{schedule.id_of(self.members[self.member])}/{self.running['id']}", self.own_id]
        return [self.own_id]

    def timer(self, wanted: Schedule | WorkflowSchedule, set_by: schedule.SetBy = "file") -> Timer:
        who = {"agent": self.agent, "workflow": self.workflow, "member": self.member, "members_of": self.members_of}
        return Timer(wanted, **who, set_by=set_by)  # type: ignore[arg-type]


async def _target(service: Service, loaded: LoadedProject, text: str) -> _Target:
    if "@" in text:
        return await _members(service, loaded, text)
    name, tag = as_written(text)
    workflow = canonical(name, loaded.project.workflows)
    if tag is None and (workflow is None or canonical(name, loaded.agents)):
        id = agent_id(loaded, text)
        written = next(loaded.definition(each).schedule for each, its in loaded.agents.items() if its == id)
        return _Target(agent=id, in_file=written)
    if workflow is None:
        raise loaded.project.no_workflow(name)
    full = WorkspaceName(workflow, MAIN if tag is None else check_tag(tag))
    written_there = loaded.project.workflows[workflow].schedule if full.tag == MAIN else None
    return _Target(workflow=full.full, in_file=written_there)


async def _members(service: Service, loaded: LoadedProject, text: str) -> _Target:
    address = await service.address(loaded, text)
    assert address.workspace is not None
    name = canonical(address.workspace.workflow, loaded.project.workflows) or address.workspace.workflow
    workspace = WorkspaceName(name, address.tag)
    running = await service.read(loaded, _open, workspace)
    if running is None and name not in loaded.project.workflows:
        raise loaded.project.no_workflow(name)
    file = str(running["file"]) if running else ""
    definition = (await service.workflow(loaded, file or name)).definition
    member = canonical(address.agent, definition.agents) if address.agent else ""
    if member is None:
        raise NotFound(
            f"{address.agent} is not a member of {workspace}", hint=f"members: {', '.join(definition.agents)}"
        )
    members = await service.read(loaded, member_rows.members_in, running["id"]) if running else {}
    return _Target(
        members_of=workspace.full,
        member=member,
        definition=definition,
        running=running,
        members=members,
        in_file=definition.member_schedules.get(member),
    )


def _open(tx: Transaction, name: WorkspaceName) -> Row | None:
    return tx.one(
        """select * from workspace
            where project = :project and workflow = :workflow and tag = :tag and state in ('running', 'left')""",
        workflow=name.workflow,
        tag=name.tag,
    )


async def _tell_members(service: Service, loaded: LoadedProject, found: _Target) -> None:
    """Members that are at work follow what was set or cleared at once; the clock is looked at again."""
    if found.running and found.definition:
        await service.write(
            loaded,
            schedule.give_members,
            found.running["id"],
            WorkspaceName.parse(found.members_of),
            found.members,
            found.definition.member_schedules,
            now=service.runtime.clock.now(),
        )
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()


# --- what is refused --------------------------------------------------------------------------------------


def _refuse_misplaced(found: _Target, given: Mapping[str, object]) -> None:
    if not found.members_of:
        return
    name = WorkspaceName.parse(found.members_of)
    if "params" in given:
        hint = f"the schedule of the workflow itself has no @: agent-worker schedule {name} set …"
        raise BadInput("members take no parameters", hint=hint)
    if "workspace" in given:
        raise BadInput(f"a workspace is named twice: members of {name} wake there", hint="leave out --workspace")


async def _check_workflow(
    service: Service, loaded: LoadedProject, workflow: str, wanted: Schedule | WorkflowSchedule
) -> None:
    """Check that a workflow can start by a schedule: nobody will be there to give what is missing."""
    definition = (await service.workflow(loaded, WorkspaceName.parse(workflow).workflow)).definition
    params = wanted.params if isinstance(wanted, WorkflowSchedule) else {}
    known = {param.name: param for param in definition.params}
    wrong = [name for name in params if name not in known]
    missing = [name for name, param in known.items() if param.required and name not in params]
    if wrong or missing:
        told = f"has no parameter {wrong[0]}" if wrong else f"needs the parameter {missing[0]}"
        hint = f"it takes: {', '.join(known) or 'none'}" if wrong else f"add -- --{missing[0]} '…'"
        raise BadInput(f"{definition.name} {told}", hint=hint)
    if not definition.kickoff and not wanted.prompt:
        raise BadInput(f"{definition.name} has no kickoff, so nobody would be called on", hint="add --prompt '@…'")


def _checked(kind: type[Schedule] | type[WorkflowSchedule], given: Mapping[str, object]) -> Schedule | WorkflowSchedule:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        hint = first.get("ctx", {}).get("hint") or FORMS
        raise BadInput(f"{where}: {first['msg']}".lstrip(": "), hint=hint) from None


# --- what is shown ----------------------------------------------------------------------------------------


def _stands_for(row: Row, running: set[tuple[str, str]]) -> bool:
    """Whether a row is what a person set for one member who follows it now: then the member's own row is shown."""
    if row["agent"] or row["workflow"] or not row["member"]:
        return False
    return (str(WorkspaceName.parse(row["workspace"])), row["member"]) in running


def _scheduled(row: Row) -> Scheduled:
    spec = schedule.spec_of(row)
    target, of, who = _named(row)
    return Scheduled(
        target=target,
        of=of,
        wakeup=spec.wakeup or f"at {spec.at.isoformat() if spec.at else ''}",
        meaning=spec.meaning,
        told=f"{who} {_how(row, spec, of)}",
        prompt=row["prompt"],
        workspace=row["workspace"],
        due_at=row["due_at"],
        fired_at=row["fired_at"],
        set_by=row["set_by"],
        tz=spec.tz or "",
        check=spec.check or "",
        params=spec.params if isinstance(spec, WorkflowSchedule) else {},
    )


def _named(row: Row) -> tuple[str, Literal["agent", "workflow", "member", "default"], str]:
    """A schedule's target, which of the four it is, and who does what."""
    if row["workflow"]:
        name = str(WorkspaceName.parse(row["workflow"]))
        return name, "workflow", f"the workflow {name} runs"
    if not row["instance"] and row["agent"]:
        return row["name"], "agent", f"{row['name']} wakes"
    name, member = str(WorkspaceName.parse(row["workspace"])), row["member"]
    if member:
        return f"{member}@{name}", "member", f"{member} wakes in {name}"
    return f"@{name}", "default", f"each member of {name} that has no schedule of its own wakes there"


def _how(row: Row, spec: Schedule | WorkflowSchedule, of: str) -> str:
    parts = [spec.meaning]
    if spec.interval is not None and of != "workflow":
        parts.append("counted from its last activity")
    if of == "agent" and row["workspace"]:
        parts.append(f"in {row['workspace']} if that runs")
    if of in ("member", "default"):
        parts.append("while that runs")
    if spec.check:
        parts.append(f"if `{spec.check}` prints something")
    return ", ".join(parts)
