"""A workflow put to work: set up, its members added, kicked off, and ended with a summary."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent_worker.agents import rescue
from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical, check_tag
from agent_worker.core.clock import from_micros
from agent_worker.core.errors import Refused, StorageFault, trouble_of
from agent_worker.core.failpoints import failpoint
from agent_worker.core.remote import Fetched
from agent_worker.database.database import Row, Transaction
from agent_worker.definitions.agent import Isolation
from agent_worker.definitions.paths import plain
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition, WorkspaceSettings
from agent_worker.files.root import Root
from agent_worker.proposals import lifecycle, minutes
from agent_worker.proposals.ending import SYSTEM, cancel_all
from agent_worker.proposals.request import ProposalRequest, Said, Voter
from agent_worker.schedules import schedule
from agent_worker.trust.powers import powers_of
from agent_worker.work import inbox, threads
from agent_worker.workflows import archive
from agent_worker.workflows.interpolation import interpolate, interpolate_marked
from agent_worker.workflows.quiet import QuietWatch, close_if_quiet
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.setup import run_setup
from agent_worker.workflows.summary import Summary, summarise
from agent_worker.workflows.values import values_of
from agent_worker.workflows.working_copies import WorkingCopies
from agent_worker.workflows.working_copy import FOLDER, WorkingCopy
from agent_worker.workspaces import routing, workspace_rows
from agent_worker.workspaces.documents import Documents
from agent_worker.workspaces.log_files import HISTORY, Target, last_seq
from agent_worker.workspaces.workspace_rows import NewWorkspace

ELECT = "elect"  # instead of the name of a document owner


@dataclass(frozen=True, slots=True)
class Instance:
    """A running workflow. Made by `start`."""

    id: str
    name: str  #: workflow or workflow:tag
    loaded: LoadedProject
    members: Mapping[str, str]  #: name → agent id
    directory: Path | None
    started_at: int
    runtime: Runtime
    watch: QuietWatch = field(repr=False)
    inline: tuple[str, ...] = ()  #: agent ids that end with it
    alarm: asyncio.Task[None] | None = field(default=None, repr=False)  #: pauses it when its time is up
    working_copies: WorkingCopies | None = field(default=None, repr=False)  #: of members that work in a copy

    async def quiet(self) -> str:
        """Wait until nobody has anything to do. Empty, or why work that is left does not go on."""
        return await self.watch.quiet()

    async def run(self) -> Summary:
        """Work until quiet, then end. Nothing that came in the last moment is left behind."""
        while True:
            await self.quiet()
            if self.working_copies:
                await self.working_copies.settle()
            now = self.runtime.clock.micros()
            if await self.runtime.database.write(close_if_quiet, self.id, now=now):
                return await self._wind_up("")

    async def stop(self, *, reason: str = "stopped") -> Summary:
        """End now: what is queued or running here is cancelled."""
        if self.working_copies:
            await self.working_copies.settle()
        await self.runtime.database.write(_cancel_all, self.id, reason, now=self.runtime.clock.micros())
        return await self._wind_up(reason)

    def leave(self) -> None:
        """Its host ends before it does: nothing of it goes on here. It is opened again later."""
        self.watch.close()
        if self.alarm:
            self.alarm.cancel()
        if self.working_copies:
            self.working_copies.leave()

    async def _wind_up(self, reason: str) -> Summary:
        await minutes.file_pending(self.runtime.database, self.runtime.clock, self.id)
        summary = await self.runtime.database.read(summarise, self.id, self.started_at, reason)
        self.watch.close()
        if self.alarm:
            self.alarm.cancel()
        await self.runtime.log_files.flush()
        failpoint("detach")
        for agent in self.inline:
            await self.runtime.supervisor.dismiss(agent)
        if self.working_copies:
            workspace = await self.runtime.database.read(workspace_rows.get, self.id)
            await self.working_copies.close(remove=not workspace["bound"])
        self.runtime.registry.detach(self.id)
        for target in (Target(self.id, None), *(Target(self.id, agent) for agent in self.members.values())):
            self.runtime.log_files.forget(target)
        await self.runtime.database.write(_leave_no_trace, self.id)
        await self.runtime.database.write(schedule.clear_workspace, self.id)
        return summary


@dataclass(frozen=True, slots=True)
class Start:
    """How to start a workflow."""

    workflow: WorkflowDefinition
    tag: str = "main"
    params: Mapping[str, str] = field(default_factory=dict)
    message: str | None = None  #: said after the kickoff
    file: str = ""  #: where the workflow stands; read again after a restart
    ends: str = "stop"  #: when told to, or when `quiet`
    fetched: Fetched | None = None  #: where it comes from, when that is elsewhere
    model: str = ""  #: that its members were given in place of theirs


async def start(runtime: Runtime, loaded: LoadedProject, wanted: Start) -> Instance:
    """Set up, open the workspace, add the members, post the kickoff."""
    check_tag(wanted.tag)
    root = loaded.project.root
    powers = await asyncio.to_thread(powers_of, loaded.project, wanted.workflow, wanted.fetched)
    await asyncio.to_thread(runtime.gate.require, root, powers)
    source = wanted.fetched.root if wanted.fetched else root
    values = values_of(wanted.workflow, wanted.tag, wanted.params, source=source, model=wanted.model)
    for setup in (power for power in powers if power.kind == "setup"):
        check = partial(runtime.gate.still_approved, root, setup)
        values |= await run_setup(wanted.workflow.setup, values, root=root, check=check)
    async with _undone_on_failure(runtime, workspace_rows.close_workspace, now=runtime.clock.micros()) as opening:
        instance = await _open(runtime, loaded, wanted, values, opening)
        await _kick_off(instance, wanted.workflow, values, wanted.message)
    return instance


async def reopen(runtime: Runtime, loaded: LoadedProject, workflow: WorkflowDefinition, workspace: Row) -> Instance:
    """Go on with an instance whose host died: set-up and kickoff are not done again."""
    wanted = Start(workflow, tag=workspace["tag"], file=workspace["file"], ends=workspace["ends"])
    values = json.loads(workspace["given"])
    async with _undone_on_failure(runtime, workspace_rows.leave) as opening:
        instance = await _open(runtime, loaded, wanted, values, opening)
        await _kick_off(instance, workflow, values, None)  # in case it was not reached; the same key says it once
    return instance


@dataclass(slots=True)
class _Opening:
    """How far it came."""

    workspaces: list[str] = field(default_factory=list)
    instance: Instance | None = None


@asynccontextmanager
async def _undone_on_failure(runtime: Runtime, undo: Callable[..., None], **how: int) -> AsyncIterator[_Opening]:
    """A workspace that was opened and could not be made ready is not left open: nobody would ever work in it."""
    opening = _Opening()
    try:
        yield opening
    except BaseException as error:
        if opening.instance:
            opening.instance.leave()
        with suppress(StorageFault):  # then it is left open, and whoever starts it next goes on with it
            await runtime.database.write(_undo_workspaces, opening, undo, **how)
        for id in opening.workspaces:
            runtime.registry.detach(id)
        if isinstance(error, OSError) and trouble_of(error) is None:
            raise Refused(f"{error.filename or 'the workspace'} cannot be used: {error.strerror or error}") from error
        raise


async def _open(
    runtime: Runtime, loaded: LoadedProject, wanted: Start, values: Mapping[str, str], opening: _Opening
) -> Instance:
    """Files in order, everybody added, and only then is anybody let in: nothing is tidied under those who work."""
    workspace = replace(_workspace(loaded, wanted.workflow, wanted.tag, values), file=wanted.file, ends=wanted.ends)
    workspace = replace(workspace, given=json.dumps(values))
    async with runtime.opening:
        instance = opening.instance = await _prepare(runtime, loaded, wanted.workflow, workspace, values, opening)
        await runtime.database.write(workspace_rows.let_in, instance.id)
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
    directory = Path(workspace.directory) if workspace.directory else None
    copies = _copies(loaded, workflow, workspace)
    # Before anything is stored: a link on the way to its files is refused, and none of ours.
    await asyncio.to_thread(_make_places, loaded.project.root, workspace, copies)
    known = await runtime.database.read(workspace_rows.kept, workspace)
    used_before = directory if known is None and not workspace.bound else None
    if used_before:  # what the last one left there is set aside before this one has anything
        await asyncio.to_thread(archive.set_aside, used_before, now=runtime.clock.now())
    id = await runtime.database.write(_open_workspace, workspace, opening, now=runtime.clock.micros())
    failpoint("attach")
    if used_before:
        await runtime.database.write(archive.forget_old, now=runtime.clock.micros())
    notes = {name: interpolate(m.append, values) for name, m in workflow.agents.items() if isinstance(m, RefMember)}
    working_copies = {name: copy.files for name, copy in copies.items()}
    members = await runtime.loader.add_members(loaded, workflow, id, workspace.name, notes, working_copies)
    await runtime.database.write(workspace_rows.add_members, id, members)
    opened = await runtime.database.read(workspace_rows.get, id)
    began = opened["started_at"]  # earlier, if its host died since
    if directory is not None:
        files = workspace_rows.files_of(opened)
        await _go_on_after(runtime, id, files, members)
        await _tidy(runtime, id, files)
        if workspace.provider == "file":
            _keep_logs(runtime, id, files, members)
    own = WorkingCopies(runtime.database, runtime.bus, runtime.clock, runtime.supervisor.leaves)
    await own.open(id, workspace.name, {members[name]: copy for name, copy in copies.items()}, began=began)
    return Instance(
        id=id,
        name=workspace.name,
        loaded=loaded,
        members=members,
        directory=directory,
        started_at=began,
        runtime=runtime,
        watch=QuietWatch(runtime.database, runtime.bus, runtime.clock, id, moment=runtime.moment),
        inline=tuple(members[n] for n, m in workflow.agents.items() if not isinstance(m, RefMember)),
        alarm=_set_alarm(runtime, id, began, workflow),
        working_copies=own,
    )


def _set_alarm(runtime: Runtime, id: str, began: int, workflow: WorkflowDefinition) -> asyncio.Task[None] | None:
    minutes = workflow.limits.minutes
    if minutes is None or minutes == "off":
        return None

    async def ring() -> None:
        used = (runtime.clock.now() - from_micros(began)).total_seconds()
        await runtime.clock.sleep(max(0.0, minutes * 60 - used))
        reason = f"limit reached: it has been running for {minutes:g} minutes"
        await runtime.database.write(rescue.pause_workspace, id, reason, now=runtime.clock.micros())

    return asyncio.create_task(ring(), name=f"alarm of {id}")


async def _kick_off(
    instance: Instance, workflow: WorkflowDefinition, values: Mapping[str, str], message: str | None
) -> None:
    filled = [interpolate_marked(workflow.kickoff, values)] if workflow.kickoff else []
    said: list[tuple[str, Sequence[tuple[int, int]]]] = [(each.text.strip("\n"), each.inserted) for each in filled]
    if message:
        said.append((message, ()))
    settings = workflow.workspace or WorkspaceSettings()
    elects = settings.document_owner == ELECT and len(instance.members) > 1
    # Once, also when the host dies right now and the instance is gone on with.
    key = f"{routing.KICKOFF}{instance.id}/{instance.started_at}"
    now = instance.runtime.clock.micros()
    await instance.runtime.database.write(
        _begin, instance.id, said, list(workflow.agents) if elects else [], key, now=now
    )


async def kick_again(instance: Instance, workflow: WorkflowDefinition, text: str | None, *, key: str) -> None:
    """In one that is kept alive: say the kickoff once more, or this text instead; the same key says it once."""
    runtime = instance.runtime
    if text is None:
        given = json.loads((await runtime.database.read(workspace_rows.get, instance.id))["given"])
        filled = interpolate_marked(workflow.kickoff or "", given)
        speech = routing.OutgoingMessage(instance.id, "user", filled.text.strip("\n"), quoted=filled.inserted)
    else:
        speech = routing.OutgoingMessage(instance.id, "user", text)
    await runtime.database.write(routing.say, speech, now=runtime.clock.micros(), key=key)


def _make_places(root: Path, workspace: NewWorkspace, copies: Mapping[str, WorkingCopy]) -> None:
    for place in filter(None, (workspace.directory, *(str(copy.place) for copy in copies.values()))):
        Root(root).make_dirs(os.path.relpath(place, root))


async def _go_on_after(runtime: Runtime, id: str, root: Root, members: Mapping[str, str]) -> None:
    """Where the files know more than the database (it is new, or was restored), go on counting after what they hold."""
    if not root.is_there:
        return
    said = await asyncio.to_thread(last_seq, root, archive.CHANNEL, dated=False)
    workspace = await runtime.database.read(workspace_rows.get, id)
    if workspace["seq"] < said:
        await runtime.database.write(workspace_rows.begin_at, id, said)
        if workspace["seq"]:  # it knew this workspace: it has gone back, and nobody shall learn that by chance
            text = (
                f"{workspace['workflow']}: the database knows its messages up to {workspace['seq']}, and its "
                f"channel file up to {said}. What is missing can be read in {root.location(archive.CHANNEL)}"
            )
            await _tell_person(runtime, workspace, "failure", f"{id}/{workspace['seq']}-{said}", text)
    for name, agent in members.items():
        talked = await asyncio.to_thread(last_seq, root, f"{HISTORY}/{name}.jsonl", dated=False)
        if await runtime.database.read(threads.last_seq, agent, id) < talked:
            await runtime.database.write(threads.restore, agent, id, (), seq=talked)


async def _tidy(runtime: Runtime, id: str, files: Root) -> None:
    """Make good what a crash left in the files, before anybody writes there."""
    await asyncio.to_thread(files.make_dirs)
    conflicts = await asyncio.to_thread(files.sweep)
    workspace = await runtime.database.read(workspace_rows.get, id)
    for kept in conflicts:
        text = f"a file was edited while we wrote it; the other version is {kept}"
        await _tell_person(runtime, workspace, "conflict", kept, text)
    await Documents(runtime.database, runtime.clock, workspace).file_pending()
    await minutes.file_pending(runtime.database, runtime.clock, id)


async def _tell_person(runtime: Runtime, workspace: Row, kind: inbox.Kind, ref: str, text: str) -> None:
    now = runtime.clock.micros()
    await runtime.database.write(
        inbox.ask, kind, project=workspace["project"], workspace=workspace["id"], ref=ref, text=text, now=now
    )


def _keep_logs(runtime: Runtime, id: str, files: Root, members: Mapping[str, str]) -> None:
    runtime.log_files.watch(Target(id, None), files, archive.CHANNEL)
    for name, agent in members.items():
        runtime.log_files.watch(Target(id, agent), files, f"{HISTORY}/{name}.jsonl")


def _workspace(
    loaded: LoadedProject, workflow: WorkflowDefinition, tag: str, values: Mapping[str, str]
) -> NewWorkspace:
    settings = workflow.workspace or WorkspaceSettings(provider="memory")
    root = loaded.project.root
    directory = ""
    if settings.provider == "file" or settings.document_store == "file":
        chosen = settings.bind or settings.dir
        base = f"{loaded.project.definition.workspace.base}/{workflow.name}/{tag}"
        directory = str(Root(root).location(plain(interpolate(chosen, values)) if chosen else base))
    return NewWorkspace(
        project=loaded.id,
        workflow=workflow.name,
        tag=tag,
        provider=settings.provider,
        documents=settings.document_store,
        directory=directory,
        bound=settings.bind is not None,
        document_owner=_named_owner(workflow, settings),
    )


def _copies(loaded: LoadedProject, workflow: WorkflowDefinition, workspace: NewWorkspace) -> dict[str, WorkingCopy]:
    """Of the members that are to have a checkout of their own, by name."""
    root, base = loaded.project.root, loaded.project.definition.workspace.base
    place = (
        Path(workspace.directory)
        if workspace.directory
        else Root(root).location(f"{base}/{workspace.workflow}/{workspace.tag}")
    )
    return {
        name: WorkingCopy(name, root, place / FOLDER)
        for name, member in workflow.agents.items()
        if _isolation(loaded, member) == "worktree"
    }


def _isolation(loaded: LoadedProject, member: RefMember | InlineMember) -> Isolation | None:
    if isinstance(member, RefMember):
        return member.applied_to(loaded.definition(loaded.named(member.ref))).isolate
    return member.isolate


def _named_owner(workflow: WorkflowDefinition, settings: WorkspaceSettings) -> str:
    """The member that the file says owns the documents; one agent alone needs none."""
    if settings.document_owner in (None, ELECT) or len(workflow.agents) == 1:
        return ""
    return canonical(settings.document_owner or "", workflow.agents) or ""


# --- transactions -------------------------------------------------------------------------------------


def _open_workspace(tx: Transaction, workspace: NewWorkspace, opening: _Opening, *, now: int) -> str:
    id = workspace_rows.open_workspace(tx, workspace, now=now)
    opening.workspaces.append(id)  # here: it is stored even if whoever asked for it does not wait for the answer
    return id


def _undo_workspaces(tx: Transaction, /, opening: _Opening, undo: Callable[..., None], **how: int) -> None:
    """After everything that was written before: only now is it sure what was opened."""
    for id in opening.workspaces:
        undo(tx, id, **how)


def _begin(tx: Transaction, workspace: str, said: Said, candidates: Sequence[str], key: str, *, now: int) -> None:
    """Say how it starts; where an owner of the documents is to be elected, that comes first."""
    if routing.accepted(tx, key):
        return
    row = workspace_rows.get(tx, workspace)
    if candidates and not row["document_owner"]:
        question = "Who owns the documents of this workspace? Only the owner writes them; the others suggest."
        request = ProposalRequest(
            question, type="election", options=candidates, role="document_owner", fallback=candidates[0]
        )
        lifecycle.propose(tx, row, request, by=Voter(SYSTEM), then=said, now=now)
    else:
        for text, quoted in said:
            routing.say(
                tx, routing.OutgoingMessage(workspace=workspace, sender="user", text=text, quoted=quoted), now=now
            )
    routing.accept(tx, key, workspace, now=now)


def _cancel_all(tx: Transaction, workspace: str, reason: str, *, now: int) -> None:
    for row in tx.all(
        "select id from instruction where workspace = :workspace and state in ('queued', 'running', 'waiting')",
        workspace=workspace,
    ):
        rescue.cancel(tx, row["id"], reason=reason, now=now)
    cancel_all(tx, workspace, reason, now=now)
    workspace_rows.close_workspace(tx, workspace, reason=reason, now=now)


def _leave_no_trace(tx: Transaction, workspace: str) -> None:
    """Inline agents end with the instance; provider `memory` keeps nothing at all."""
    if workspace_rows.get(tx, workspace)["provider"] == "memory":
        workspace_rows.erase(tx, workspace)
