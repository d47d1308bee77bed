"""Workflows: which there are, which run, and putting them to work."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from agent_worker.agents import commands
from agent_worker.agents.waiting import Waiting, for_person, state_of
from agent_worker.core.address import MAIN
from agent_worker.core.errors import DefinitionError, NotRunning, Untrusted
from agent_worker.core.later import dataclass
from agent_worker.core.signature import Flat
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.fields import ModelName
from agent_worker.definitions.workflow import with_model
from agent_worker.service.carried_limits import cause_of
from agent_worker.service.found_workflow import FoundWorkflow
from agent_worker.service.instance_run import FORGOTTEN, take_up_instance
from agent_worker.service.look_ahead import unplayable_in
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.service.trust import approve, pending_approvals
from agent_worker.work import inbox
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.placeholder_values import MODEL, PARAMS, run_line
from agent_worker.workflows.quiet import QuietWatch
from agent_worker.workflows.start import Start
from agent_worker.workflows.summary import Summary
from agent_worker.workspaces import member_rows, workspace_rows, workspace_state
from agent_worker.workspaces.documents import first_document


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    state: str  #: idle | running | waiting | stopped | error | paused
    status: str  #: what it says it does
    waiting: Waiting | None = None  #: for what, if it has work and waits


@dataclass(frozen=True, slots=True)
class Running:
    """An instance of a workflow."""

    id: str
    name: str  #: workflow, or workflow:tag
    state: str  #: running | paused | left | stopped
    reason: str
    messages: int
    directory: str
    members: list[Member] = field(default_factory=list)
    document_owner: str = ""  #: the one member who writes documents; '' when everybody does
    coordinator: str = ""
    desk: str = ""  #: who gets what a person says without calling on anybody
    document: str = ""  #: the one that is meant where none is named
    waiting: list[Waiting] = field(default_factory=list)  #: for the person's word
    overlaps: list[str] = field(default_factory=list)  #: members who changed the same paths, each in its own copy


@dataclass(frozen=True, slots=True)
class Workflow:
    name: str
    file: str
    members: list[str]
    params: list[dict[str, Any]]
    command: str = ""  #: that runs it, with an example for each parameter it needs


@dataclass(frozen=True, slots=True)
class WorkflowRequest:
    """A workflow to start, as somebody asks for it. Its fields are arguments of the operations that start one."""

    workflow: str  #: its name, its file, or where it is fetched from
    project: str | None = None
    tag: str = MAIN
    params: dict[str, str] = field(default_factory=dict)
    message: str | None = None
    cause: str | None = None  #: the run of an agent that asks by a command: the limits of what it works on go on


@operation("GET", "/workflows")
async def workflows_list(service: Service, project: str | None = None, file: str | None = None) -> list[Workflow]:
    """The workflows of a project, and one in a file elsewhere if it is named."""
    loaded = await service.project(project)
    names = [*loaded.project.workflows, *([file] if file else [])]
    return [_workflow(await service.workflow(loaded, name)) for name in names]


@operation("GET", "/instances")
async def instances_list(service: Service, project: str | None = None) -> list[Running]:
    """The instances of a project's workflows that run or are kept."""
    loaded = await service.project(project)
    return await service.read(loaded, _instances, await service.waits(loaded))


@operation("GET", "/workflows/{instance}", tool="workflow_status")
async def workflow_status(service: Service, instance: str, project: str | None = None) -> Running:
    """One instance: its members, what each is doing, how much was said."""
    loaded = await service.project(project)
    row = await service.read(loaded, workspace_rows.find, await service.workspace_name(loaded, instance))
    found = await service.read(loaded, _running, row, await service.waits(loaded))
    live = service.running(found.id)
    return replace(found, overlaps=live.working_copies.overlaps()) if live and live.working_copies else found


@operation("POST", "/workflows")
async def workflow_start(
    service: Service,
    request: Flat[WorkflowRequest],
    trust: bool = False,
    model: ModelName | None = None,
) -> Running:
    """Start a workflow and keep it alive until it is stopped. `model` takes the place of its members' models."""
    running = await begin(service, request, trust=trust, model=model)
    return await _instance(service, running)


@operation("POST", "/workflows/run")
async def workflow_run(service: Service, request: Flat[WorkflowRequest]) -> Summary:
    """Run a workflow until nobody has anything left to do, or a limit pauses it, and return the result."""
    return await service.finish_or_rest(await begin(service, request, ends="quiet"))


@operation("DELETE", "/workflows/{instance}")
async def workflow_stop(service: Service, instance: str, project: str | None = None) -> Summary:
    """Stop an instance now: cancels what is queued or running in it."""
    loaded = await service.project(project)
    return await service.stop_named(loaded, instance)


@operation("POST", "/workflows/{instance}/{action}")
async def workflow_set(
    service: Service, instance: str, action: Literal["pause", "resume"], project: str | None = None
) -> Running:
    """Pause an instance, or let it continue, with a new allowance if a limit stopped it."""
    loaded = await service.project(project)
    row = await service.running_row(loaded, instance)
    if action == "pause":
        await service.write(loaded, workspace_state.pause, row["id"], "paused by a person")
    else:
        await service.write(loaded, commands.resume_workspace, row["id"], now=service.now())
    row = await service.read(loaded, workspace_rows.get, row["id"])
    return await service.read(loaded, _running, row, await service.waits(loaded))


@operation("POST", "/workflows/{instance}/restart")
async def workflow_restart(
    service: Service, instance: str, project: str | None = None, cause: str | None = None
) -> Running:
    """Start an instance again as it was started, with its params and its model; one that runs is stopped first."""
    loaded = await service.project(project)
    row = await service.read(loaded, workspace_rows.find, await service.workspace_name(loaded, instance))
    workflow = row["workflow"] if row["workflow"] in loaded.project.workflows else row["file"] or row["workflow"]
    found = await service.workflow(loaded, workflow)
    waiting = await pending_approvals(service, loaded, found)
    if any(each.kind not in ("limits", "keys") for each in waiting):
        told = f"{row['workflow']} wants to do things that you have not approved"
        raise Untrusted(told, hint=f"agent-worker trust {row['workflow']}")
    if row["state"] == "running":
        await service.stop_named(loaded, instance)
    given = json.loads(row["given"])
    still_known = (param.name for param in found.definition.params)
    params = {name: value for name in still_known if (value := given.get(f"{PARAMS}{name}"))}
    request = WorkflowRequest(workflow, str(loaded.project.root), row["tag"], params, cause=cause)
    return await _instance(service, await begin(service, request, model=given.get(MODEL) or None))


@operation("POST", "/workflows/{instance}/wait")
async def workflow_wait(service: Service, instance: str, project: str | None = None) -> str:
    """Wait until nobody in an instance has anything to do. Empty, or why it is paused."""
    loaded = await service.project(project)
    row = await service.running_row(loaded, instance)
    if (running := service.running(row["id"])) is not None:
        return await running.quiet()
    moment = service.runtime.registry.settings_of(loaded.id).quiet_moment
    runtime = service.runtime
    watch = QuietWatch(service.database(loaded), runtime.bus, runtime.clock, row["id"], moment=moment)
    try:
        return await watch.quiet()
    finally:
        watch.close()


@operation("POST", "/workflows/{instance}/finish")
async def workflow_finish(service: Service, instance: str, project: str | None = None) -> Summary:
    """Work until nobody in a running instance has anything left to do, then end it; or until a limit pauses it."""
    loaded = await service.project(project)
    row = await service.running_row(loaded, instance)
    if (running := service.running(row["id"])) is not None:
        return await service.finish_or_rest(running)
    await service.write(loaded, workspace_state.end_when_quiet, row["id"])
    followed = await take_up_instance(service, loaded, row["id"])
    try:
        async for _ in followed:
            pass
    finally:
        await followed.close()
    summary = followed.result().summary
    if summary is None:
        raise NotRunning(FORGOTTEN, hint="agent-worker ls")
    is_over = await service.read(loaded, workspace_rows.is_over, row["id"])
    return summary if is_over else replace(summary, resume=f"agent-worker resume @{workspace_rows.name_of(row)}")


async def _instance(service: Service, running: Instance) -> Running:
    row = await running.database.read(workspace_rows.get, running.id)
    return await running.database.read(_running, row, await service.waits(running.loaded))


async def begin(
    service: Service,
    request: WorkflowRequest,
    *,
    ends: str = "stop",
    trust: bool = False,
    model: str | None = None,
    material: str = "",
) -> Instance:
    """Start a workflow. `trust` approves all that it could execute, as it is now; `model` is used by all members that
    use one.

    `material` is somebody else's words, said last.
    """
    loaded = await service.project(request.project)
    if wrong := loaded.project.wrong_with_workflow(request.workflow):
        raise DefinitionError(wrong)  # what it was before is not what stands there now
    if trust:
        await approve(service, loaded, request.workflow)
    found = await service.workflow(loaded, request.workflow)
    if wrong := await asyncio.to_thread(unplayable_in, found.definition, Path(found.file), loaded.project):
        raise DefinitionError(wrong)
    wanted = Start(
        found.definition if model is None else with_model(found.definition, loaded.project.agents, model),
        tag=request.tag,
        params=request.params,
        message=request.message,
        material=material,
        file=_kept_as(found.file, loaded.project.root),
        ends=ends,
        fetched=found.fetched,
        model=model or "",
        cause=await cause_of(service, loaded, request.cause) if request.cause else None,
    )
    return await service.start(loaded, wanted)


def _kept_as(file: str, root: Path) -> str:
    """How a workflow's file is found again, on every host that has the project."""
    return os.path.relpath(file, root) if os.path.isabs(file) and Path(file).is_relative_to(root) else file


def _workflow(found: FoundWorkflow) -> Workflow:
    params = [param.model_dump(mode="json") for param in found.definition.params]
    file = str(found.fetched.remote) if found.fetched else found.file
    return Workflow(found.definition.name, file, list(found.definition.agents), params, run_line(found.definition))


def _instances(tx: Transaction, waits: Mapping[str, Waiting]) -> list[Running]:
    return [_running(tx, row, waits) for row in workspace_rows.of_project(tx)]


def _running(tx: Transaction, row: Row, waits: Mapping[str, Waiting]) -> Running:
    members = [_member(member, waits) for member in member_rows.members(tx, row["id"])]
    name = str(workspace_rows.name_of(row))
    state = "paused" if row["paused"] and row["state"] == "running" else row["state"]
    desk = workspace_rows.at_desk(row, [member.name for member in members])
    services = row["document_owner"], row["coordinator"], desk
    first = first_document(row)
    asked = [for_person(item) for item in inbox.waiting_in(tx, row["id"])]
    about = row["paused"], row["seq"], workspace_rows.directory_of(row), members
    return Running(row["id"], name, state, *about, *services, first, asked)


def _member(row: Row, waits: Mapping[str, Waiting]) -> Member:
    state, wait = state_of(row, waits.get(row["agent"]))
    return Member(row["name"], state, row["status"], wait)
