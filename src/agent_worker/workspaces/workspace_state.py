"""What becomes of a workspace: it is opened, paused, closed; its roles and limits. The one writer of `workspace`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from agent_worker.core.address import MAIN, WorkspaceName
from agent_worker.core.errors import Refused
from agent_worker.core.events import WorkspaceChanged
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction
from agent_worker.work import project_rows
from agent_worker.workspaces import member_rows
from agent_worker.workspaces.workspace_rows import directory_of, granted, name_of


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """How to open a workspace."""

    workflow: str
    tag: str = MAIN
    provider: str = "file"  #: file | sqlite | memory
    documents: str = "file"  #: file | sqlite | copied
    directory: str = ""  #: where its files are in the project; '' when it has none
    bound: bool = False  #: kept across runs
    file: str = ""  #: the workflow's file
    given: str = "{}"  #: JSON: the values it was started with
    ends: str = "stop"  #: when told to, or when `quiet`
    document_owner: str = ""  #: the one member who writes documents, when the file names one
    smart_send: int = 4 * 1024  #: bytes; a longer message becomes a resource
    desk: str = ""  #: the member who answers a person that calls on nobody, when the file names one
    host: str | None = None  #: which opens it, of several that share the database

    @property
    def name(self) -> str:
        return str(WorkspaceName(self.workflow, self.tag))


def kept(tx: Transaction, workspace: NewWorkspace) -> Row | None:
    """The workspace that opening this would go on with. Refuses one that runs, and a directory that
    another one uses.
    """
    known = tx.one(
        """select * from workspace
            where project = :project and workflow = :workflow and tag = :tag and state <> 'archived'""",
        workflow=workspace.workflow,
        tag=workspace.tag,
    )
    if known and known["state"] == "running" and known["paused"]:
        raise Refused(
            f'workflow "{workspace.name}" is paused: {known["paused"]}',
            hint=f"to go on: agent-worker resume @{workspace.name}; to end it: agent-worker stop @{workspace.name}",
        )
    if known and known["state"] == "running":
        raise Refused(
            f'workflow "{workspace.name}" is already running',
            hint=f'talk to it: agent-worker send @{workspace.name} "…"',
        )
    _check_directory(tx, workspace)
    return known if known and (workspace.bound or known["state"] == "left") else None


def _check_directory(tx: Transaction, workspace: NewWorkspace) -> None:
    """Refuse a directory in which another running workspace has its files: each would take the other's for its own."""
    if not workspace.directory:
        return
    wanted = os.path.join(project_rows.root_here(tx), workspace.directory)
    for other in tx.all(
        """select w.workflow, w.tag, w.directory, c.root from workspace w
             join checkout c on c.project = w.project and c.host = :here
            where w.state = 'running' and w.directory <> ''"""
    ):
        if _overlap(directory_of(other), wanted):
            name = name_of(other)
            raise Refused(
                f"{workspace.name} would keep its files in {wanted}, and {name}, which runs, has its files there",
                hint=f"give it another directory, or end the other one: agent-worker stop @{name}",
            )


def _overlap(one: str, other: str) -> bool:
    shorter, longer = sorted((f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"), key=len)
    return longer.startswith(shorter)


def open_workspace(tx: Transaction, workspace: NewWorkspace, *, now: int) -> str:
    """Create a workspace, open a bound one again with its history, or go on with one whose host died; returns its id.

    Nobody works in it before `let_in`: until then it is one that a host has left.
    """
    known = kept(tx, workspace)
    if known:
        _open_again(tx, str(known["id"]), workspace, now=now)
        return str(known["id"])
    for row in tx.all(
        """update workspace set state = 'archived'
            where project = :project and workflow = :workflow and tag = :tag and state <> 'archived'
           returning id""",
        workflow=workspace.workflow,
        tag=workspace.tag,
    ):
        tx.tell(WorkspaceChanged(workspace=row["id"], state="archived"))
    return _create(tx, workspace, now=now)


def _open_again(tx: Transaction, id: str, workspace: NewWorkspace, *, now: int) -> None:
    tx.run(
        """update workspace
              set state = 'left', owner = :host, ended_at = null, directory = :directory, provider = :provider,
                  documents = :documents, file = :file, given = :given, ends = :ends,
                  document_owner = case when :owner <> '' then :owner when owner_named = 1 then ''
                                        else document_owner end,
                  owner_named = :named, smart_send = :smart_send, desk = :desk,
                  paused = case when state = 'left' then paused else '' end,
                  started_at = case when state = 'left' then started_at else :now end
            where project = :project and id = :id""",
        id=id,
        now=now,
        **_columns(workspace),
    )
    member_rows.begin_anew(tx, id)


def _create(tx: Transaction, workspace: NewWorkspace, *, now: int) -> str:
    id = new_id("w")
    tx.run(
        """insert into workspace(project, id, workflow, tag, provider, documents, directory, bound, file, given,
                                 ends, document_owner, owner_named, smart_send, desk, owner, state, started_at)
           values (:project, :id, :workflow, :tag, :provider, :documents, :directory, :bound, :file, :given,
                   :ends, :owner, :named, :smart_send, :desk, :host, 'left', :now)""",
        id=id,
        workflow=workspace.workflow,
        tag=workspace.tag,
        bound=int(workspace.bound),
        now=now,
        **_columns(workspace),
    )
    return id


def _columns(workspace: NewWorkspace) -> dict[str, str | int | None]:
    """What is written anew each time a workspace is opened."""
    return {
        "provider": workspace.provider,
        "documents": workspace.documents,
        "directory": workspace.directory,
        "file": workspace.file,
        "given": workspace.given,
        "ends": workspace.ends,
        "owner": workspace.document_owner,
        "named": int(workspace.document_owner != ""),
        "smart_send": workspace.smart_send,
        "desk": workspace.desk,
        "host": workspace.host,
    }


def keep_documents(tx: Transaction, workspace: str, where: str) -> None:
    """Note where the documents of a workspace are kept from now on: `file` or `copied`."""
    tx.run(
        "update workspace set documents = :documents where project = :project and id = :workspace",
        workspace=workspace,
        documents=where,
    )


def let_in(tx: Transaction, workspace: str) -> None:
    """Open a workspace whose files are in order and whose members are known: it takes messages, and its members
    work."""
    tx.run("update workspace set state = 'running' where project = :project and id = :workspace", workspace=workspace)
    tx.tell(WorkspaceChanged(workspace=workspace, state="running"))


def add_members(tx: Transaction, workspace: str, agents: Mapping[str, str]) -> None:
    """Make exactly these (name → agent id) the members. One who was here before keeps what it has seen."""
    member_rows.replace(tx, workspace, agents)
    _vacate(tx, workspace, alone=len(agents) == 1)


def _vacate(tx: Transaction, workspace: str, *, alone: bool) -> None:
    """Take roles from members who are gone, and from one who is alone: it has nobody to keep from writing."""
    for role in ("document_owner", "coordinator"):
        tx.run(
            f"""update workspace set {role} = ''
                 where project = :project and id = :workspace and {role} <> '' and (:alone = 1 or not exists (
                   select 1 from member m
                   where m.project = :project and m.workspace = workspace.id and m.name = workspace.{role}))""",
            workspace=workspace,
            alone=int(alone),
        )


def unseat(tx: Transaction, agent: str) -> None:
    """Take the roles that teams gave to an agent that is gone: the next one of its name was not elected."""
    for role, chosen in (("document_owner", "and owner_named = 0"), ("coordinator", "")):
        tx.run(
            f"""update workspace set {role} = ''
                 where project = :project and {role} <> '' {chosen} and exists (
                   select 1 from member m
                    where m.project = :project and m.workspace = workspace.id and m.agent = :agent
                      and m.name = workspace.{role})""",
            agent=agent,
        )
    member_rows.remove_agent(tx, agent)


def next_seq(tx: Transaction, workspace: str) -> int | None:
    """The number of the next message; None when the workspace is closed."""
    row = tx.one(
        """update workspace set seq = seq + 1
            where project = :project and id = :workspace and state = 'running' returning seq""",
        workspace=workspace,
    )
    return row["seq"] if row else None


def begin_at(tx: Transaction, workspace: str, seq: int) -> None:
    """Count messages on after those of a directory that came from elsewhere with a channel of its own."""
    tx.run(
        "update workspace set seq = :seq where project = :project and id = :workspace and seq < :seq",
        workspace=workspace,
        seq=seq,
    )


def close_workspace(tx: Transaction, workspace: str, *, reason: str = "", now: int) -> None:
    """Close a workspace: no message is accepted any more. A bound one can be opened again."""
    tx.run(
        """update workspace set state = 'stopped', ended_at = :now
            where project = :project and id = :id and state in ('running', 'left')""",
        id=workspace,
        now=now,
    )
    tx.tell(WorkspaceChanged(workspace=workspace, state="stopped", reason=reason))


def leave_all(tx: Transaction, owner: str) -> None:
    """Close the workspaces whose host is gone: they take no message, and their work waits until someone starts them
    again."""
    tx.run(
        """update workspace set state = 'left', owner = null
            where project = :project and state = 'running' and coalesce(owner, '') <> :owner
              and not exists (select 1 from host h where h.id = workspace.owner)""",
        owner=owner,
    )


def take_up(tx: Transaction, workspace: str, host: str) -> bool:
    """Be the one that opens a workspace which a dead host has left. False: another one does."""
    taken = tx.changed(
        """update workspace set owner = :host
            where project = :project and id = :id and state = 'left' and (coalesce(owner, :host) = :host
                  or not exists (select 1 from host h where h.id = workspace.owner))""",
        id=workspace,
        host=host,
    )
    return bool(taken)


def leave(tx: Transaction, workspace: str) -> None:
    """Leave a workspace that could not be opened again as if its host were still gone."""
    tx.run(
        """update workspace set state = 'left', owner = null
            where project = :project and id = :id and state in ('running', 'left')""",
        id=workspace,
    )


def erase(tx: Transaction, workspace: str) -> None:
    """Archive a workspace and remove its members. What others keep of it: workflows/archive.py."""
    member_rows.remove_all(tx, workspace)
    tx.run(
        """update workspace set state = 'archived', given = '{}', ended_at = null
            where project = :project and id = :workspace""",
        workspace=workspace,
    )
    # Not only for whoever looks on: the last event tells the next start how far the database must go.
    tx.tell(WorkspaceChanged(workspace=workspace, state="archived"))


def end_when_quiet(tx: Transaction, workspace: str) -> None:
    """Let a running instance end when nobody has anything left to do: its host hears of it."""
    tx.run("update workspace set ends = 'quiet' where project = :project and id = :workspace", workspace=workspace)
    tx.tell(WorkspaceChanged(workspace=workspace, state="ending", reason="as soon as nobody has anything left to do"))


def pause(tx: Transaction, workspace: str, reason: str) -> bool:
    """Let the work of a workspace wait. True if it was not paused before."""
    changed = tx.changed(
        "update workspace set paused = :reason where project = :project and id = :workspace and paused = ''",
        workspace=workspace,
        reason=reason,
    )
    if changed:
        tx.tell(WorkspaceChanged(workspace=workspace, state="paused", reason=reason))
    return bool(changed)


def resume(tx: Transaction, workspace: str) -> None:
    tx.run("update workspace set paused = '' where project = :project and id = :workspace", workspace=workspace)
    member_rows.begin_anew(tx, workspace)
    tx.tell(WorkspaceChanged(workspace=workspace, state="running"))


def set_document_owner(tx: Transaction, workspace: str, name: str) -> None:
    """Let only this member write documents from now on; people always may."""
    tx.run(
        "update workspace set document_owner = :name where project = :project and id = :workspace",
        workspace=workspace,
        name=name,
    )


def set_coordinator(tx: Transaction, workspace: str, name: str) -> None:
    tx.run(
        "update workspace set coordinator = :name where project = :project and id = :workspace",
        workspace=workspace,
        name=name,
    )


def grant(tx: Transaction, workspace: str, limits: Mapping[str, float]) -> None:
    """Limits of this instance that stand above those of its file: `turns`, `usd`."""
    changed = {**granted(tx, workspace), **limits}
    tx.run(
        "update workspace set granted = :limits where project = :project and id = :workspace",
        workspace=workspace,
        limits=json.dumps(changed),
    )


def clear(tx: Transaction, workspace: str) -> None:
    """Put aside what was said so far: no digest shows it, and whoever reads the channel begins after it."""
    tx.run("update workspace set cleared = seq where project = :project and id = :workspace", workspace=workspace)
    member_rows.show_all(tx, workspace)
