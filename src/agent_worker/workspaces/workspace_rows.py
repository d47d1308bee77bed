"""Workspaces of workflow instances: which there are, what they are called, where their files are. Read only."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

from agent_worker.core.address import MAIN, WorkspaceName
from agent_worker.core.errors import NotFound, NotRunning
from agent_worker.core.suggestion import slip_of
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.files.root import Root

#: With the project's directory here, which is the one that is trusted on the way to its files (`files_of`).
_WORKSPACE = """
select workspace.*, coalesce(checkout.root, '') as root from workspace
  left join checkout on checkout.project = workspace.project and checkout.host = :here
 where workspace.project = :project"""


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


def workspaces_of(tx: Transaction, agent: str) -> list[Row]:
    """Where this agent is, or was, a member: the name it has there, and where the files are in the project."""
    return tx.all(
        """select m.name, w.directory from member m join workspace w on w.project = :project and w.id = m.workspace
            where m.project = :project and m.agent = :agent and w.directory <> ''""",
        agent=agent,
    )


def get(tx: Transaction, workspace: str) -> Row:
    row = tx.one(f"{_WORKSPACE} and workspace.id = :workspace", workspace=workspace)
    if row is None:
        raise NotFound(f"there is no workspace {workspace}")
    return row


def directory_of(workspace: Row) -> str:
    """Where the files of a workspace are on this host, as people read it; '' when it has none here."""
    has_files = workspace["directory"] and workspace["root"]
    return os.path.join(workspace["root"], workspace["directory"]) if has_files else ""


def is_over(tx: Transaction, workspace: str) -> bool:
    return get(tx, workspace)["state"] not in ("running", "left")


def files_of(workspace: Row) -> Root:
    """The folder of a workspace, walked from the project's directory: a link on the way is not followed."""
    if not workspace["root"]:
        told = f"the files of {name_of(workspace)} are not on this host: it has no checkout of the project"
        raise NotFound(told, hint="agent-worker status")
    return Root(Path(workspace["root"])).beneath(workspace["directory"])


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
    """The workspaces that were replaced by the next of their name, ended before this time, and are not erased yet."""
    return tx.all("select id from workspace where project = :project and state = 'archived' and ended_at < :at", at=at)


def left(tx: WholeTransaction) -> list[Row]:
    """Workspaces of all projects whose host died: someone must start them again."""
    return tx.all("select * from workspace where state = 'left' order by started_at")


def running_elsewhere(tx: Transaction, host: str) -> list[Row]:
    """Workspaces of the project that another host has open."""
    return tx.all(
        """select * from workspace where project = :project and state = 'running' and owner is not null
              and owner <> :host order by started_at""",
        host=host,
    )


def kept_ids(tx: WholeTransaction) -> set[str]:
    """The ids of all workspaces, in all projects, that can still be looked at."""
    return {row["id"] for row in tx.all("select id from workspace where state <> 'archived'")}


def of_project(tx: Transaction) -> list[Row]:
    return tx.all(f"{_WORKSPACE} and state <> 'archived' order by workflow, tag")


def coordinator_of(tx: Transaction, workflow: str, tag: str) -> str:
    """The coordinator of the team that goes on when this instance is opened; '' when it has none, or begins anew."""
    row = tx.one(
        """select coordinator from workspace
            where project = :project and workflow = :workflow and tag = :tag and bound = 1 and state <> 'archived'""",
        workflow=workflow,
        tag=tag,
    )
    return row["coordinator"] if row else ""


def at_desk(row: Row, members: Collection[str]) -> str:
    """The member that answers a person who calls on nobody: by the file, else the coordinator, else the only one.

    '' when nobody does.
    """
    return row["desk"] or row["coordinator"] or (next(iter(members)) if len(members) == 1 else "")


def granted(tx: Transaction, workspace: str) -> dict[str, float]:
    row = tx.one("select granted from workspace where project = :project and id = :workspace", workspace=workspace)
    found: dict[str, float] = json.loads(row["granted"]) if row else {}
    return found
