"""The workspace of one workflow instance: when it is open, who is in it. The one writer of `workspace` and `member`."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

from agent_worker.core.address import MAIN, WorkspaceName
from agent_worker.core.errors import NotFound, NotRunning, Refused
from agent_worker.core.events import WorkspaceChanged
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.core.suggestion import slip_of
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.files.root import Root


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """How to open a workspace."""

    workflow: str
    tag: str = MAIN
    provider: str = "file"  #: file | sqlite | memory
    documents: str = "file"  #: file | sqlite
    directory: str = ""  #: where its files are; '' when it has none
    bound: bool = False  #: kept across runs
    file: str = ""  #: the workflow's file
    given: str = "{}"  #: JSON: the values it was started with
    ends: str = "stop"  #: when told to, or when `quiet`
    document_owner: str = ""  #: the one member who writes documents, when the file names one
    smart_send: int = 4 * 1024  #: bytes; a longer message becomes a resource
    desk: str = ""  #: the member who answers a person that calls on nobody, when the file names one

    @property
    def name(self) -> str:
        return str(WorkspaceName(self.workflow, self.tag))


def kept(tx: Transaction, workspace: NewWorkspace) -> Row | None:
    """The one that opening this would go on with. Refuses one that runs, and a directory that another uses."""
    known = tx.one(
        """select * from workspace
            where project = :project and workflow = :workflow and tag = :tag and state <> 'archived'""",
        workflow=workspace.workflow,
        tag=workspace.tag,
    )
    if known and known["state"] == "running":
        raise Refused(
            f'workflow "{workspace.name}" is already running',
            hint=f'talk to it: agent-worker send @{workspace.name} "…"',
        )
    _check_directory(tx, workspace)
    return known if known and (workspace.bound or known["state"] == "left") else None


def _check_directory(tx: Transaction, workspace: NewWorkspace) -> None:
    """Two that write the same files would take each other's for their own, or away."""
    if not workspace.directory:
        return
    for other in tx.all("select workflow, tag, directory from workspace where state = 'running' and directory <> ''"):
        if _overlap(other["directory"], workspace.directory):
            name = name_of(other)
            raise Refused(
                f"{workspace.name} would keep its files in {workspace.directory}, "
                f"and {name}, which runs, has its files there",
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
        id = str(known["id"])
        tx.run(
            """update workspace
                  set state = 'left', ended_at = null, directory = :directory, provider = :provider,
                      documents = :documents, file = :file, given = :given, ends = :ends,
                      document_owner = case when :owner <> '' then :owner when owner_named = 1 then ''
                                            else document_owner end,
                      owner_named = :named, smart_send = :smart_send, desk = :desk,
                      paused = case when state = 'left' then paused else '' end,
                      started_at = case when state = 'left' then started_at else :now end
                where project = :project and id = :id""",
            id=id,
            now=now,
            directory=workspace.directory,
            provider=workspace.provider,
            documents=workspace.documents,
            file=workspace.file,
            given=workspace.given,
            ends=workspace.ends,
            owner=workspace.document_owner,
            named=int(workspace.document_owner != ""),
            smart_send=workspace.smart_send,
            desk=workspace.desk,
        )
        tx.run("update member set fruitless = 0 where project = :project and workspace = :id", id=id)
    else:
        for row in tx.all(
            """update workspace set state = 'archived'
                where project = :project and workflow = :workflow and tag = :tag and state <> 'archived'
               returning id""",
            workflow=workspace.workflow,
            tag=workspace.tag,
        ):
            tx.tell(WorkspaceChanged(workspace=row["id"], state="archived"))
        id = new_id("w")
        tx.run(
            """insert into workspace(project, id, workflow, tag, provider, documents, directory, bound, file, given,
                                     ends, document_owner, owner_named, smart_send, desk, state, started_at)
               values (:project, :id, :workflow, :tag, :provider, :documents, :directory, :bound, :file, :given,
                       :ends, :owner, :named, :smart_send, :desk, 'left', :now)""",
            owner=workspace.document_owner,
            named=int(workspace.document_owner != ""),
            smart_send=workspace.smart_send,
            desk=workspace.desk,
            file=workspace.file,
            given=workspace.given,
            ends=workspace.ends,
            id=id,
            workflow=workspace.workflow,
            tag=workspace.tag,
            provider=workspace.provider,
            documents=workspace.documents,
            directory=workspace.directory,
            bound=int(workspace.bound),
            now=now,
        )
    return id


def let_in(tx: Transaction, workspace: str) -> None:
    """Its files are in order and everybody is a member: it takes messages, and its members work."""
    tx.run("update workspace set state = 'running' where project = :project and id = :workspace", workspace=workspace)
    tx.tell(WorkspaceChanged(workspace=workspace, state="running"))


def add_members(tx: Transaction, workspace: str, agents: Mapping[str, str]) -> None:
    """Name → agent id: exactly these take part. One who was here before keeps what it has seen."""
    for row in tx.all(
        "select agent, name from member where project = :project and workspace = :workspace", workspace=workspace
    ):
        if agents.get(row["name"]) != row["agent"]:
            tx.run(
                "delete from member where project = :project and workspace = :workspace and agent = :agent",
                workspace=workspace,
                agent=row["agent"],
            )
    for name, agent in agents.items():
        tx.run(
            """insert into member(project, workspace, agent, name) values (:project, :workspace, :agent, :name)
               on conflict (project, workspace, agent) do update set name = excluded.name""",
            workspace=workspace,
            agent=agent,
            name=name,
        )
    _vacate(tx, workspace, alone=len(agents) == 1)


def _vacate(tx: Transaction, workspace: str, *, alone: bool) -> None:
    """Who is gone holds no role, and who is alone has nobody to keep from writing."""
    for role in ("document_owner", "coordinator"):
        tx.run(
            f"""update workspace set {role} = ''
                 where project = :project and id = :workspace and {role} <> '' and (:alone = 1 or not exists (
                   select 1 from member m
                   where m.project = :project and m.workspace = workspace.id and m.name = workspace.{role}))""",
            workspace=workspace,
            alone=int(alone),
        )


def members(tx: Transaction, workspace: str) -> list[Row]:
    """Name, agent id, status and state of everyone here, by name."""
    return tx.all(
        """select m.*, a.state, a.paused from member m join agent a on a.project = :project and a.id = m.agent
            where m.project = :project and m.workspace = :workspace order by m.name""",
        workspace=workspace,
    )


def member_called(tx: Transaction, workspace: str, name: str) -> Row:
    """One member by its name, with the state and the kind of its agent."""
    row = tx.one(
        """select m.*, a.state, a.paused, a.kind from member m join agent a on a.project = :project and a.id = m.agent
            where m.project = :project and m.workspace = :workspace and lower(m.name) = lower(:name)""",
        workspace=workspace,
        name=name,
    )
    if row is None:
        names = ", ".join(members_in(tx, workspace))
        raise NotFound(f"{name} is not a member of @{name_of(get(tx, workspace))}", hint=f"its members are: {names}")
    return row


def member_row(tx: Transaction, workspace: str, agent: str) -> Row | None:
    return tx.one(
        "select * from member where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
    )


def set_away(tx: Transaction, workspace: str, agent: str, away: Literal["", "paused", "stopped"]) -> None:
    """Let the work of one member wait here, or go on; elsewhere it works as before."""
    tx.run(
        "update member set away = :away where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
        away=away,
    )
    reason = get(tx, workspace)["paused"]
    tx.tell(WorkspaceChanged(workspace=workspace, state="paused" if reason else "running", reason=reason))


def members_in(tx: Transaction, workspace: str) -> dict[str, str]:
    """Name → agent id of everyone here, by name."""
    rows = tx.all(
        "select name, agent from member where project = :project and workspace = :workspace order by name",
        workspace=workspace,
    )
    return {row["name"]: row["agent"] for row in rows}


@dataclass(frozen=True, slots=True)
class Others:
    """Whom a member has around it: the first by name, and how many more."""

    names: tuple[str, ...]
    more: int


def others(tx: Transaction, workspace: str, agent: str, *, limit: int) -> Others:
    rows = tx.all(
        """select name, (select count(*) from member o
                          where o.project = :project and o.workspace = :workspace and o.agent <> :agent) as n
             from member
            where project = :project and workspace = :workspace and agent <> :agent order by name limit :limit""",
        workspace=workspace,
        agent=agent,
        limit=limit,
    )
    return Others(tuple(row["name"] for row in rows), rows[0]["n"] - len(rows) if rows else 0)


def seen(tx: Transaction, workspace: str, agent: str) -> int:
    """The last message that this member was shown."""
    row = tx.one(
        "select seen from member where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
    )
    return int(row["seen"]) if row else 0


def name_of(workspace: Row) -> WorkspaceName:
    """The name of a workspace as people say it."""
    return WorkspaceName(workspace["workflow"], workspace["tag"])


def start_command(name: WorkspaceName) -> str:
    """What a person types to start a workspace of this name."""
    return f"agent-worker start {name.workflow}" + ("" if name.tag == MAIN else f" --tag {name.tag}")


def at_work_with(tx: Transaction, agent: str) -> list[Row]:
    """Workspaces in which this agent takes part now, or will once their host is back."""
    return tx.all(
        """select w.* from member m join workspace w on w.project = :project and w.id = m.workspace
            where m.project = :project and m.agent = :agent and w.state in ('running', 'left')
            order by w.workflow, w.tag""",
        agent=agent,
    )


def unseat(tx: Transaction, agent: str) -> None:
    """The agent is gone. A role that a team gave it is vacant: the next one of its name was not elected."""
    for role, chosen in (("document_owner", "and owner_named = 0"), ("coordinator", "")):
        tx.run(
            f"""update workspace set {role} = ''
                 where project = :project and {role} <> '' {chosen} and exists (
                   select 1 from member m
                    where m.project = :project and m.workspace = workspace.id and m.agent = :agent
                      and m.name = workspace.{role})""",
            agent=agent,
        )
    tx.run("delete from member where project = :project and agent = :agent", agent=agent)


def workspaces_of(tx: Transaction, agent: str) -> list[Row]:
    """Where this agent is, or was, a member: the name it has there, and where the files are."""
    return tx.all(
        """select m.name, w.directory from member m join workspace w on w.project = :project and w.id = m.workspace
            where m.project = :project and m.agent = :agent and w.directory <> ''""",
        agent=agent,
    )


def name_in(tx: Transaction, workspace: str, agent: str) -> str:
    """What a member is called here; '' for one that is not a member."""
    row = tx.one(
        "select name from member where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
    )
    return str(row["name"]) if row else ""


def get(tx: Transaction, workspace: str) -> Row:
    row = tx.one(f"{_WORKSPACE} and workspace.id = :workspace", workspace=workspace)
    if row is None:
        raise NotFound(f"there is no workspace {workspace}")
    return row


#: With the project's directory, which is the one that is trusted on the way to its files (`files_of`).
_WORKSPACE = """
select workspace.*, project.root from workspace join project on project.id = workspace.project
 where workspace.project = :project"""


def files_of(workspace: Row) -> Root:
    """Where its files are, walked from the project's directory: a link on the way leads nowhere."""
    return Root(Path(workspace["root"])).beneath(os.path.relpath(workspace["directory"], workspace["root"]))


def find(tx: Transaction, name: WorkspaceName) -> Row:
    """A workspace by its name, running or not, as long as it is kept."""
    row = tx.one(
        f"{_WORKSPACE} and workflow = :workflow and tag = :tag and state <> 'archived'",
        workflow=name.workflow,
        tag=name.tag,
    )
    return row or find_running(tx, name)


def find_running(tx: Transaction, name: WorkspaceName) -> Row:
    row = tx.one(
        f"{_WORKSPACE} and workflow = :workflow and tag = :tag and state = 'running'",
        workflow=name.workflow,
        tag=name.tag,
    )
    if row is None:
        raise _not_running(tx, name)
    return row


def _not_running(tx: Transaction, name: WorkspaceName) -> NotRunning:
    start = start_command(name)
    rows = tx.all("select distinct workflow from workspace where project = :project")
    known = [row["workflow"] for row in rows]
    slip = slip_of(name.workflow, known) if name.workflow not in known else None
    told = f'workflow "{name}" is not running. Start it with: {start}'
    return NotRunning(told, hint=f"did you mean @{slip.meant}?" if slip else start, slip=slip)


def was_here(tx: Transaction, workflow: str) -> bool:
    """Whether a workflow of this name runs, or ever ran: it need not be one of the project's own."""
    return (
        tx.one("select 1 as one from workspace where project = :project and workflow = :name", name=workflow)
        is not None
    )


def running_with_tag(tx: Transaction, tag: str) -> list[WorkspaceName]:
    """The running ones with this tag; none if a workflow of that name is, or was, here."""
    rows = tx.all(
        """select w.workflow, w.tag from workspace w
            where w.project = :project and w.state = 'running' and lower(w.tag) = lower(:tag) and not exists (
              select 1 from workspace o
               where o.project = :project and o.state <> 'archived' and lower(o.workflow) = lower(:tag))
            order by w.workflow""",
        tag=tag,
    )
    return [name_of(row) for row in rows]


def archived_before(tx: Transaction, at: int) -> list[Row]:
    """Those that were replaced by the next of their name, ended before this, and are not erased yet."""
    return tx.all("select id from workspace where project = :project and state = 'archived' and ended_at < :at", at=at)


def next_seq(tx: Transaction, workspace: str) -> int | None:
    """The number of the next message; None when the workspace is closed."""
    row = tx.one(
        """update workspace set seq = seq + 1
            where project = :project and id = :workspace and state = 'running' returning seq""",
        workspace=workspace,
    )
    return row["seq"] if row else None


def begin_at(tx: Transaction, workspace: str, seq: int) -> None:
    """Its directory came from elsewhere with a channel of its own: go on counting after it."""
    tx.run(
        "update workspace set seq = :seq where project = :project and id = :workspace and seq < :seq",
        workspace=workspace,
        seq=seq,
    )


def left(tx: WholeTransaction) -> list[Row]:
    """Workspaces of all projects whose host died: someone must start them again."""
    return tx.all("select * from workspace where state = 'left' order by started_at")


def kept_ids(tx: WholeTransaction) -> set[str]:
    """Those of all projects that can still be looked at."""
    return {row["id"] for row in tx.all("select id from workspace where state <> 'archived'")}


def of_project(tx: Transaction) -> list[Row]:
    return tx.all("select * from workspace where project = :project and state <> 'archived' order by workflow, tag")


def close_workspace(tx: Transaction, workspace: str, *, reason: str = "", now: int) -> None:
    """Close a workspace: no message is accepted any more. A bound one can be opened again."""
    tx.run(
        """update workspace set state = 'stopped', ended_at = :now
            where project = :project and id = :id and state in ('running', 'left')""",
        id=workspace,
        now=now,
    )
    tx.tell(WorkspaceChanged(workspace=workspace, state="stopped", reason=reason))


def leave_all(tx: Transaction) -> None:
    """Their host is gone: they take no message, and their work waits, until someone starts them again."""
    tx.run("update workspace set state = 'left' where project = :project and state = 'running'")


def leave(tx: Transaction, workspace: str) -> None:
    """Leave a workspace that could not be opened again as if its host were still gone."""
    tx.run(
        "update workspace set state = 'left' where project = :project and id = :id and state = 'running'", id=workspace
    )


def erase(tx: Transaction, workspace: str) -> None:
    """Nobody is a member any more, and the workspace is archived. What others keep of it: workflows/archive.py."""
    tx.run("delete from member where project = :project and workspace = :workspace", workspace=workspace)
    tx.run(
        """update workspace set state = 'archived', given = '{}', ended_at = null
            where project = :project and id = :workspace""",
        workspace=workspace,
    )
    # Not only for whoever looks on: the last event tells the next start how far the database must go.
    tx.tell(WorkspaceChanged(workspace=workspace, state="archived"))


def pause(tx: Transaction, workspace: str, reason: str) -> bool:
    """Let the work of a workspace wait. True if it was not paused before."""
    changed = tx.run(
        "update workspace set paused = :reason where project = :project and id = :workspace and paused = ''",
        workspace=workspace,
        reason=reason,
    )
    if changed:
        tx.tell(WorkspaceChanged(workspace=workspace, state="paused", reason=reason))
    return bool(changed)


def resume(tx: Transaction, workspace: str) -> None:
    tx.run("update workspace set paused = '' where project = :project and id = :workspace", workspace=workspace)
    tx.run("update member set fruitless = 0 where project = :project and workspace = :workspace", workspace=workspace)
    tx.tell(WorkspaceChanged(workspace=workspace, state="running"))


def set_document_owner(tx: Transaction, workspace: str, name: str) -> None:
    """Let only this member write documents from now on; people always may."""
    tx.run(
        "update workspace set document_owner = :name where project = :project and id = :workspace",
        workspace=workspace,
        name=name,
    )


def coordinator_of(tx: Transaction, workflow: str, tag: str) -> str:
    """Who coordinates the team that goes on when this instance is opened; '' when nobody does, or it begins anew."""
    row = tx.one(
        """select coordinator from workspace
            where project = :project and workflow = :workflow and tag = :tag and bound = 1 and state <> 'archived'""",
        workflow=workflow,
        tag=tag,
    )
    return row["coordinator"] if row else ""


def at_desk(row: Row, members: Collection[str]) -> str:
    """Who answers a person that calls on nobody: whom the file names, else the coordinator, else the only member.

    '' when nobody does.
    """
    return row["desk"] or row["coordinator"] or (next(iter(members)) if len(members) == 1 else "")


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


def granted(tx: Transaction, workspace: str) -> dict[str, float]:
    row = tx.one("select granted from workspace where project = :project and id = :workspace", workspace=workspace)
    found: dict[str, float] = json.loads(row["granted"]) if row else {}
    return found


def set_status(tx: Transaction, workspace: str, agent: str, status: str) -> None:
    tx.run(
        "update member set status = :status where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
        status=status,
    )


def clear(tx: Transaction, workspace: str) -> None:
    """What was said so far is put aside: no digest shows it, and who reads the channel begins after it."""
    tx.run("update workspace set cleared = seq where project = :project and id = :workspace", workspace=workspace)
    tx.run(
        """update member set seen = (select seq from workspace w where w.project = :project and w.id = :workspace)
            where project = :project and workspace = :workspace""",
        workspace=workspace,
    )


def mark_seen(tx: Transaction, workspace: str, agent: str, seq: int) -> None:
    tx.run(
        """update member set seen = :seq
            where project = :project and workspace = :workspace and agent = :agent and seen < :seq""",
        workspace=workspace,
        agent=agent,
        seq=seq,
    )


def count_fruitless(tx: Transaction, workspace: str, agent: str, *, fruitful: bool) -> int:
    """How many runs in a row this member has had here without producing anything new."""
    row = tx.one(
        """update member set fruitless = case when :fruitful = 1 then 0 else fruitless + 1 end
            where project = :project and workspace = :workspace and agent = :agent returning fruitless""",
        workspace=workspace,
        agent=agent,
        fruitful=int(fruitful),
    )
    return int(row["fruitless"]) if row else 0
