"""A workflow put to work: set up, its workspace opened, its members added, kicked off. What runs then: instance.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace
from datetime import timedelta
from functools import partial

from agent_worker.agents import commands
from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import MAIN, check_no_secret, check_tag
from agent_worker.core.clock import from_micros
from agent_worker.core.errors import NotNow, Refused, StorageFault, trouble_of
from agent_worker.core.failpoints import failpoint
from agent_worker.core.later import dataclass
from agent_worker.core.remote import Fetched
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.definitions.workflow import RefMember, WorkflowDefinition
from agent_worker.trust.powers import Power, powers_of
from agent_worker.workflows import archive
from agent_worker.workflows.instance import Instance
from agent_worker.workflows.instance_files import (
    copies_for,
    folder_of,
    go_on_after,
    keep_files,
    make_places,
    new_workspace,
    set_aside_others,
    tidy,
)
from agent_worker.workflows.interpolation import interpolate
from agent_worker.workflows.kickoff import kick_off, refuse_nobody
from agent_worker.workflows.placeholder_values import CAUSE, values_of
from agent_worker.workflows.quiet import QuietWatch
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.setup import run_setup
from agent_worker.workflows.working_copies import WorkingCopies
from agent_worker.workspaces import member_rows, workspace_rows, workspace_state
from agent_worker.workspaces.carried_root import CarriedRoot
from agent_worker.workspaces.workspace_state import NewWorkspace


@dataclass(frozen=True, slots=True)
class Start:
    """How to start a workflow."""

    workflow: WorkflowDefinition
    tag: str = MAIN
    params: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None  #: said after the kickoff
    material: str = ""  #: said after that, as somebody else's words: a mention in it calls on nobody
    file: str = ""  #: where the workflow stands; read again after a restart
    ends: str = "stop"  #: when told to, or when `quiet`
    fetched: Fetched | None = None  #: where it comes from, when that is elsewhere
    model: str = ""  #: that its members were given in place of theirs
    cause: CarriedRoot | None = None  #: the request of an agent that started it by a command


async def start(runtime: Runtime, loaded: LoadedProject, wanted: Start) -> Instance:
    """Set up, open the workspace, add the members, post the kickoff."""
    check_no_secret(check_tag(wanted.tag), runtime.database.redact, of="an instance")
    root = loaded.project.root
    powers = await asyncio.to_thread(_approved_powers, runtime, loaded, wanted)
    source = wanted.fetched.root if wanted.fetched else root
    values = values_of(wanted.workflow, wanted.tag, wanted.params, source=source, model=wanted.model)
    values |= {CAUSE: str(wanted.cause)} if wanted.cause else {}
    for setup in (power for power in powers if power.kind == "setup"):
        check = partial(runtime.gate.still_approved, root, setup)
        values |= await run_setup(wanted.workflow.setup, values, root=root, check=check)
    if wanted.ends == "quiet":
        database = runtime.database.of(loaded.id)
        await refuse_nobody(database, wanted.workflow, wanted.tag, values, wanted.message)
    async with _undone_on_failure(
        runtime, loaded, workspace_state.close_workspace, now=runtime.clock.micros()
    ) as opening:
        instance = await _open(runtime, loaded, wanted, values, opening)
        await kick_off(instance, wanted.workflow, values, wanted.message, wanted.material)
    return instance


def _approved_powers(runtime: Runtime, loaded: LoadedProject, wanted: Start) -> tuple[Power, ...]:
    """What the workflow may do. Raises Untrusted when a person has to approve some of it. Blocks."""
    powers = powers_of(loaded.project, wanted.workflow, wanted.fetched)
    runtime.gate.require(loaded.project.root, powers)
    return powers


async def reopen(runtime: Runtime, loaded: LoadedProject, workflow: WorkflowDefinition, workspace: Row) -> Instance:
    """Go on with an instance whose host died: set-up and kickoff are not done again."""
    wanted = Start(workflow, tag=workspace["tag"], file=workspace["file"], ends=workspace["ends"])
    values = json.loads(workspace["given"])
    async with _undone_on_failure(runtime, loaded, workspace_state.leave) as opening:
        instance = await _open(runtime, loaded, wanted, values, opening)
        await kick_off(instance, workflow, values, None)  # in case it was not reached; the same key says it once
    return instance


async def join(runtime: Runtime, loaded: LoadedProject, workflow: WorkflowDefinition, workspace: Row) -> None:
    """Let the members of an instance that another host has open work here too. It stays that host's to end."""
    values = json.loads(workspace["given"])
    same = new_workspace(loaded, workflow, workspace["tag"], values, shared=True)
    copies = {name: copy.files for name, copy in copies_for(loaded, workflow, same).items()}
    notes, id = _notes(workflow, values), workspace["id"]
    members = await runtime.loader.add_members(loaded, workflow, id, same.name, notes, copies)
    if same.directory:
        files = folder_of(loaded, same)
        await set_aside_others(runtime, runtime.database.of(loaded.id), workspace, files)
        await keep_files(runtime, workspace, files, members)


def _notes(workflow: WorkflowDefinition, values: Mapping[str, str]) -> dict[str, str]:
    return {name: interpolate(m.append, values) for name, m in workflow.agents.items() if isinstance(m, RefMember)}


@dataclass(slots=True)
class _Opening:
    """How far the opening of a workspace came."""

    workspaces: list[str] = field(default_factory=list)
    instance: Instance | None = None


@asynccontextmanager
async def _undone_on_failure(
    runtime: Runtime, loaded: LoadedProject, undo: Callable[..., None], **how: int
) -> AsyncIterator[_Opening]:
    """Close a workspace again that was opened and could not be made ready: nobody would ever work in it."""
    opening = _Opening()
    try:
        yield opening
    except BaseException as error:
        if opening.instance:
            opening.instance.leave()
        database = runtime.database.of(loaded.id)

        def undoing() -> asyncio.Future[None]:
            return database.write(_undo_workspaces, opening, undo, **how)

        if isinstance(error, NotNow):
            runtime.undoings.add(undoing, runtime.clock)
        else:
            with suppress(StorageFault):  # then the next process goes on with it
                await undoing()
        for id in opening.workspaces:
            runtime.registry.detach(id)
        if isinstance(error, OSError) and trouble_of(error) is None:
            raise Refused(f"{error.filename or 'the workspace'} cannot be used: {error.strerror or error}") from error
        raise


async def _open(
    runtime: Runtime, loaded: LoadedProject, wanted: Start, values: Mapping[str, str], opening: _Opening
) -> Instance:
    """Open a workspace: files in order, members added, and only then is anybody let in. Nothing is tidied under those
    who work.
    """
    workspace = new_workspace(loaded, wanted.workflow, wanted.tag, values, shared=runtime.documents is not None)
    workspace = replace(workspace, file=wanted.file, ends=wanted.ends)
    workspace = replace(workspace, given=json.dumps(values), host=runtime.supervisor.host)
    async with runtime.opening:
        await runtime.undoings.finish()
        instance = opening.instance = await _prepare(runtime, loaded, wanted.workflow, workspace, values, opening)
        members = await instance.database.write(_let_in, instance.id)
    for agent in members.values():
        await runtime.public.publish(runtime.registry.worker(agent, instance.id))
    await runtime.supervisor.wake_all()  # what was queued before everybody was a member
    return instance


async def _prepare(
    runtime: Runtime,
    loaded: LoadedProject,
    workflow: WorkflowDefinition,
    workspace: NewWorkspace,
    values: Mapping[str, str],
    opening: _Opening,
) -> Instance:
    database = runtime.database.of(loaded.id)
    directory = loaded.project.root / workspace.directory if workspace.directory else None
    chosen = runtime.registry.settings_of(loaded.id)
    workspace, kept = replace(workspace, smart_send=chosen.smart_send), timedelta(seconds=chosen.keep_archive)
    copies = copies_for(loaded, workflow, workspace)
    # Before anything is stored: a link on the way to its files is refused, and none of ours.
    await asyncio.to_thread(make_places, loaded.project.root, workspace, copies)
    known = await database.read(workspace_state.kept, workspace)
    used_before = directory if known is None and not workspace.bound else None
    if used_before:  # what the last one left there is set aside before this one has anything
        await asyncio.to_thread(archive.set_aside, used_before, now=runtime.clock.now(), kept=kept)
    forgets = kept if used_before else None
    id = await database.write(_open_workspace, workspace, opening, forgets, now=runtime.clock.micros())
    failpoint("attach")
    notes = _notes(workflow, values)
    working_copies = {name: copy.files for name, copy in copies.items()}
    members = await runtime.loader.add_members(loaded, workflow, id, workspace.name, notes, working_copies)
    opened = await database.write(_add_members, id, members)
    began = opened["started_at"]  # earlier, if its host died since
    if directory is not None:
        files = workspace_rows.files_of(opened)
        await set_aside_others(runtime, database, opened, files)
        await go_on_after(runtime, database, id, files, members)
        await tidy(runtime, database, opened, files)
        await keep_files(runtime, opened, files, members)
    own = WorkingCopies(database, runtime.bus, runtime.clock, runtime.supervisor.leaves)
    await own.open(id, workspace.name, {members[name]: copy for name, copy in copies.items()}, began=began)
    return Instance(
        id=id,
        name=workspace.name,
        loaded=loaded,
        members=members,
        directory=directory,
        started_at=began,
        runtime=runtime,
        watch=QuietWatch(database, runtime.bus, runtime.clock, id, moment=chosen.quiet_moment),
        inline=tuple(members[n] for n, m in workflow.agents.items() if not isinstance(m, RefMember)),
        alarm=_set_alarm(runtime, database, id, began, workflow),
        working_copies=own,
    )


def _set_alarm(
    runtime: Runtime, database: ProjectDatabase, id: str, began: int, workflow: WorkflowDefinition
) -> asyncio.Task[None] | None:
    allowed = workflow.limits.minutes
    if allowed is None or allowed == "off":
        return None

    async def ring() -> None:
        used = (runtime.clock.now() - from_micros(began)).total_seconds()
        await runtime.clock.sleep(max(0.0, allowed * 60 - used))
        reason = f"limit reached: it has been running for {allowed:g} minute{'' if allowed == 1 else 's'}"
        await database.write(commands.pause_workspace, id, reason, now=runtime.clock.micros())

    return asyncio.create_task(ring(), name=f"alarm of {id}")


def _open_workspace(
    tx: Transaction, workspace: NewWorkspace, opening: _Opening, forgets: timedelta | None, *, now: int
) -> str:
    """Its id. `forgets`: how long earlier instances are kept, whose files were set aside just now."""
    id = workspace_state.open_workspace(tx, workspace, now=now)
    opening.workspaces.append(id)  # here: it is stored even if whoever asked for it does not wait for the answer
    if forgets is not None:
        archive.forget_old(tx, now=now, kept=forgets)
    return id


def _add_members(tx: Transaction, id: str, members: Mapping[str, str]) -> Row:
    workspace_state.add_members(tx, id, members)
    return workspace_rows.get(tx, id)


def _let_in(tx: Transaction, id: str) -> dict[str, str]:
    """Everybody who is a member now: name → id."""
    workspace_state.let_in(tx, id)
    return member_rows.members_in(tx, id)


def _undo_workspaces(tx: Transaction, /, opening: _Opening, undo: Callable[..., None], **how: int) -> None:
    """Undo what was opened, in a transaction after all earlier ones: only then is it sure which workspaces that are."""
    for id in opening.workspaces:
        undo(tx, id, **how)
