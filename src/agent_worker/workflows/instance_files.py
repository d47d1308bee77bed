"""The files of an instance, ready before anybody works: folders, logs, working copies, what a crash left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from agent_worker.agents.loader import LoadedProject
from agent_worker.core.address import canonical
from agent_worker.database.database import ProjectDatabase, Row, Transaction
from agent_worker.definitions.agent import Isolation
from agent_worker.definitions.paths import plain
from agent_worker.definitions.workflow import InlineMember, RefMember, WorkflowDefinition
from agent_worker.definitions.workspace import WorkspaceSettings
from agent_worker.files.root import Root
from agent_worker.proposals import minutes
from agent_worker.work import inbox, threads
from agent_worker.workflows import archive
from agent_worker.workflows.interpolation import interpolate
from agent_worker.workflows.runtime import Runtime
from agent_worker.workflows.working_copy import FOLDER, WorkingCopy
from agent_worker.workspaces import workspace_rows, workspace_state
from agent_worker.workspaces.document_copies import is_of
from agent_worker.workspaces.documents import COPIED, Documents
from agent_worker.workspaces.log_files import HISTORY, Target, last_seq
from agent_worker.workspaces.workspace_state import NewWorkspace


def make_places(root: Path, workspace: NewWorkspace, copies: Mapping[str, WorkingCopy]) -> None:
    copied = (os.path.relpath(copy.place, root) for copy in copies.values())
    for place in filter(None, (workspace.directory, *copied)):
        Root(root).make_dirs(place)


async def go_on_after(
    runtime: Runtime, database: ProjectDatabase, id: str, root: Root, members: Mapping[str, str]
) -> None:
    """Go on counting after what the files hold, where they know more than the database (it is new, or was restored)."""
    if not root.is_there:
        return
    said, talked = await asyncio.to_thread(_ends_in, root, members)
    workspace, known = await database.read(_ends_stored, id, members)
    if workspace["seq"] < said:
        await database.write(workspace_state.begin_at, id, said)
        if workspace["seq"]:  # it knew this workspace: it has gone back, and nobody shall learn that by chance
            text = (
                f"{workspace['workflow']}: the database knows its messages up to {workspace['seq']}, and its "
                f"channel file up to {said}. What is missing can be read in {root.location(archive.CHANNEL)}"
            )
            ref = f"{id}/{workspace['seq']}-{said}"
            await database.write(inbox.ask, "failure", workspace=id, ref=ref, text=text, now=runtime.clock.micros())
    for name, agent in members.items():
        if known[name] < talked[name]:
            await database.write(threads.restore, agent, id, (), seq=talked[name])


def _ends_in(root: Root, members: Iterable[str]) -> tuple[int, dict[str, int]]:
    """How far the files go: of the channel, and of each member's history. Blocks."""
    talked = {name: last_seq(root, f"{HISTORY}/{name}.jsonl", dated=False) for name in members}
    return last_seq(root, archive.CHANNEL, dated=False), talked


def _ends_stored(tx: Transaction, id: str, members: Mapping[str, str]) -> tuple[Row, dict[str, int]]:
    """The workspace, and how far the history of each member goes in the database."""
    return workspace_rows.get(tx, id), {name: threads.last_seq(tx, agent, id) for name, agent in members.items()}


async def tidy(runtime: Runtime, database: ProjectDatabase, workspace: Row, files: Root) -> None:
    """Make good what a crash left in the files, before anybody writes there."""
    id = workspace["id"]
    for kept in await asyncio.to_thread(_swept, files):
        text = f"a file was edited while we wrote it; the other version is {kept}"
        await database.write(inbox.ask, "conflict", workspace=id, ref=kept, text=text, now=runtime.clock.micros())
    await Documents(database, runtime.clock, workspace).file_pending()
    await minutes.file_pending(database, runtime.clock, id)


def _swept(files: Root) -> tuple[str, ...]:
    files.make_dirs()
    return files.sweep()


def folder_of(loaded: LoadedProject, workspace: NewWorkspace) -> Root:
    """The folder of a workspace, on this host."""
    return Root(loaded.project.root).beneath(workspace.directory)


async def set_aside_others(runtime: Runtime, database: ProjectDatabase, workspace: Row, files: Root) -> None:
    """Set aside what is left of an earlier instance, where several hosts work, each in a folder of its own."""
    if runtime.documents and not await is_of(database, workspace, files):
        kept = timedelta(seconds=runtime.registry.settings.keep_archive)
        await asyncio.to_thread(archive.set_aside, files.location(), now=runtime.clock.now(), kept=kept)
        await asyncio.to_thread(files.make_dirs)


async def keep_files(runtime: Runtime, workspace: Row, files: Root, members: Mapping[str, str]) -> None:
    """Let the files of a workspace follow what happens there, from now on."""
    if runtime.documents:
        await runtime.documents.keep(workspace, files)
    if workspace["provider"] == "file":
        keep_logs(runtime, workspace["project"], workspace["id"], files, members)


def forget_files(runtime: Runtime, project: str, id: str, members: Iterable[str]) -> None:
    """Stop writing the log files of a workspace in which nothing more is said."""
    for whose in (None, *members):
        runtime.log_files.forget(Target(project, id, whose))


def keep_logs(runtime: Runtime, project: str, id: str, files: Root, members: Mapping[str, str]) -> None:
    runtime.log_files.watch(Target(project, id, None), files, archive.CHANNEL)
    for name, agent in members.items():
        runtime.log_files.watch(Target(project, id, agent), files, f"{HISTORY}/{name}.jsonl")


def copies_for(loaded: LoadedProject, workflow: WorkflowDefinition, workspace: NewWorkspace) -> dict[str, WorkingCopy]:
    """Working copies of the members that are to have a checkout of their own, by name."""
    root, base = loaded.project.root, loaded.project.definition.workspace.base
    place = Root(root).location(workspace.directory or f"{base}/{workspace.workflow}/{workspace.tag}")
    return {
        name: WorkingCopy(name, root, place / FOLDER)
        for name, member in workflow.agents.items()
        if _isolation(loaded, member) == "worktree"
    }


def _isolation(loaded: LoadedProject, member: RefMember | InlineMember) -> Isolation | None:
    if isinstance(member, RefMember):
        return member.applied_to(loaded.definition(loaded.named(member.ref))).isolate
    return member.isolate


ELECT = "elect"  # instead of the name of a document owner


def new_workspace(
    loaded: LoadedProject, workflow: WorkflowDefinition, tag: str, values: Mapping[str, str], *, shared: bool
) -> NewWorkspace:
    """The workspace that a workflow wants, as its file and the project say. `shared`: several hosts may work there."""
    settings = workflow.workspace or WorkspaceSettings(provider="sqlite")
    root = loaded.project.root
    directory = ""
    if settings.provider == "file" or settings.document_store == "file":
        chosen = settings.directory
        base = f"{loaded.project.definition.workspace.base}/{workflow.name}/{tag}"
        place = Root(root).location(plain(interpolate(chosen, values)) if chosen else base)
        directory = os.path.relpath(place, root)
    return NewWorkspace(
        workflow=workflow.name,
        tag=tag,
        provider=settings.provider,
        documents=COPIED if shared and settings.document_store == "file" else settings.document_store,
        directory=directory,
        bound=settings.bind is not None,
        document_owner=_named_owner(workflow, settings),
        desk=canonical(workflow.desk or "", workflow.agents) or "",
    )


def _named_owner(workflow: WorkflowDefinition, settings: WorkspaceSettings) -> str:
    """The member that the file says owns the documents; one agent alone needs none."""
    if settings.document_owner in (None, ELECT) or len(workflow.agents) == 1:
        return ""
    return canonical(settings.document_owner or "", workflow.agents) or ""
