"""Who takes part in a workspace: what each was shown, what it says it does. The one writer of `member`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from agent_worker.core.errors import NotFound
from agent_worker.core.events import WorkspaceChanged
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Soon, Transaction
from agent_worker.workspaces.workspace_rows import get, name_of


def replace(tx: Transaction, workspace: str, agents: Mapping[str, str]) -> None:
    """Make exactly these (name → agent id) the members. One who was here before keeps what it has seen."""
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


def members_in(tx: Transaction, workspace: str, *, most: int = 2**31) -> dict[str, str]:
    """Name → agent id of everyone here, by name; of the first so many."""
    rows = tx.all(
        """select name, agent from member where project = :project and workspace = :workspace
            order by name limit :most""",
        workspace=workspace,
        most=most,
    )
    return {row["name"]: row["agent"] for row in rows}


@dataclass(frozen=True, slots=True)
class Others:
    """The colleagues of a member: the first by name, and how many more."""

    names: tuple[str, ...]
    more: int


def others_soon(tx: Transaction, workspace: str, agent: str, *, limit: int) -> Soon[Others]:
    asked = tx.all_soon(
        """select name, (select count(*) from member o
                          where o.project = :project and o.workspace = :workspace and o.agent <> :agent) as n
             from member
            where project = :project and workspace = :workspace and agent <> :agent order by name limit :limit""",
        workspace=workspace,
        agent=agent,
        limit=limit,
    )

    def found() -> Others:
        rows = asked()
        return Others(tuple(row["name"] for row in rows), rows[0]["n"] - len(rows) if rows else 0)

    return found


def seen(tx: Transaction, workspace: str, agent: str) -> int:
    """The last message that this member was shown."""
    row = tx.one(
        "select seen from member where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
    )
    return int(row["seen"]) if row else 0


def workspace_of_soon(tx: Transaction, workspace: str, agent: str) -> Soon[Row | None]:
    """The workspace of a member, with the last message that it was shown there."""
    return tx.one_soon(
        """select w.*, coalesce(m.seen, 0) as seen from workspace w
             left join member m on m.project = :project and m.workspace = w.id and m.agent = :agent
            where w.project = :project and w.id = :workspace""",
        workspace=workspace,
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


def set_status(tx: Transaction, workspace: str, agent: str, status: str) -> None:
    tx.run(
        "update member set status = :status where project = :project and workspace = :workspace and agent = :agent",
        workspace=workspace,
        agent=agent,
        status=status,
    )


def allowance(tx: Transaction, workspace: str, agent: str) -> tuple[int, dict[str, float]]:
    """How many runs in a row a member has had without anything new, and the limits that its instance was granted."""
    row = tx.one(
        """select w.granted, coalesce(m.fruitless, 0) as fruitless from workspace w
             left join member m on m.project = :project and m.workspace = w.id and m.agent = :agent
            where w.project = :project and w.id = :workspace""",
        workspace=workspace,
        agent=agent,
    )
    return (row["fruitless"], json.loads(row["granted"])) if row else (0, {})


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


def end_run(tx: Transaction, workspace: str, agent: str, *, seen: int, fruitful: bool) -> None:
    """Note what a member's run has seen, and whether it has produced anything new."""
    tx.run(
        """update member set seen = case when seen < :seen then :seen else seen end,
                  fruitless = case when :fruitful = 1 then 0 else fruitless + 1 end
            where project = :project and workspace = :workspace and agent = :agent""",
        workspace=workspace,
        agent=agent,
        seen=seen,
        fruitful=int(fruitful),
    )


def show_all(tx: Transaction, workspace: str) -> None:
    """Mark everything that was said so far as seen by every member."""
    tx.run(
        """update member set seen = (select seq from workspace w where w.project = :project and w.id = :workspace)
            where project = :project and workspace = :workspace""",
        workspace=workspace,
    )


def begin_anew(tx: Transaction, workspace: str) -> None:
    """Count runs in a row without anything new from zero again, for all members."""
    tx.run(
        "update member set fruitless = 0 where project = :project and workspace = :workspace and fruitless > 0",
        workspace=workspace,
    )


def remove_all(tx: Transaction, workspace: str) -> None:
    """Leave nobody in this workspace."""
    tx.run("delete from member where project = :project and workspace = :workspace", workspace=workspace)


def remove_agent(tx: Transaction, agent: str) -> None:
    """Take an agent out of every workspace."""
    tx.run("delete from member where project = :project and agent = :agent", agent=agent)
