"""The person's inbox: everything that waits for one. The one writer of table `inbox_item`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from agent_worker.core.errors import NotFound
from agent_worker.core.events import InboxItemAdded, InboxItemSettled
from agent_worker.core.ids import new_id
from agent_worker.core.item_kinds import Kind
from agent_worker.database.database import Row, Transaction
from agent_worker.work import outbox


def ask(
    tx: Transaction,
    kind: Kind,
    *,
    ref: str,
    text: str,
    now: int,
    workspace: str | None = None,
    agent: str | None = None,
    details: Mapping[str, Any] | None = None,
    digest: str = "",
) -> str:
    """Put something before the person, once: the same thing about the same matter is not repeated."""
    known = tx.one(
        "select id from inbox_item where project = :project and state = 'open' and kind = :kind and ref = :ref",
        kind=kind,
        ref=ref,
    )
    if known:
        return str(known["id"])
    id = new_id("t")
    tx.run(
        """insert into inbox_item(project, id, workspace, agent, kind, ref, text, n, details, digest, at)
           values (:project, :id, :workspace, :agent, :kind, :ref, :text, :n, :details, :digest, :now)""",
        id=id,
        n=_next(tx),
        details=json.dumps(details or {}),
        digest=digest,
        workspace=workspace,
        agent=agent,
        kind=kind,
        ref=ref,
        text=text,
        now=now,
    )
    outbox.put(tx, id, now=now)
    tx.tell(InboxItemAdded(workspace=workspace, id=id, kind=kind, text=text))
    return id


def _next(tx: Transaction) -> int:
    last = tx.one("select n from inbox_item where project = :project order by n desc limit 1")
    return int(last["n"]) + 1 if last else 1


def about(tx: Transaction, kind: Kind, workspace: str, *, since: int) -> str:
    """The text of the first open item of this kind in a workspace; empty when there is none."""
    row = tx.one(
        """select text from inbox_item
            where project = :project and state = 'open' and kind = :kind and workspace = :workspace and at >= :since
            order by at, n limit 1""",
        kind=kind,
        workspace=workspace,
        since=since,
    )
    return str(row["text"]) if row else ""


def held_at_limit(tx: Transaction, workspace: str) -> str:
    """The text of the open item about a limit that holds up a member here; empty when there is none."""
    row = tx.one(
        """select t.text from inbox_item t join agent a on a.project = :project and a.id = t.agent
            where t.project = :project and t.state = 'open' and t.kind = 'limit' and t.workspace = :workspace
              and a.paused <> '' order by t.at, t.n limit 1""",
        workspace=workspace,
    )
    return str(row["text"]) if row else ""


def open_items(tx: Transaction) -> list[Row]:
    return tx.all("select * from inbox_item where project = :project and state = 'open' order by at, n")


def get(tx: Transaction, id: str) -> Row:
    row = tx.one("select * from inbox_item where project = :project and id = :id and state = 'open'", id=id)
    if row is None:
        raise NotFound(f"nothing is waiting under {id}", hint="agent-worker inbox")
    return row


def close(tx: Transaction, id: str, *, state: Literal["answered", "dismissed"], answer: str = "") -> Row:
    row = tx.one(
        """update inbox_item set state = :state, answer = :answer
            where project = :project and id = :id and state = 'open' returning *""",
        id=id,
        state=state,
        answer=answer,
    )
    if row is None:
        raise NotFound(f"nothing is waiting under {id}", hint="agent-worker inbox")
    _tell_settled(tx, [row])
    return row


YES, NO = "yes", "no"  # answers to an approval; a reason may follow the no
YES_TO_ALL = "yes, for this run"  # to every further call of this tool in the same work


def allowed(tx: Transaction, work: str, tool: str) -> bool:
    """Whether the person has said yes to all calls of a tool in this work."""
    rows = tx.all(
        """select details from inbox_item
            where project = :project and kind = 'approval' and answer = :yes
              and ref >= :prefix and substr(ref, 1, :length) = :prefix""",
        yes=YES_TO_ALL,
        length=len(work) + 1,
        prefix=f"{work}/",
    )
    return any(json.loads(row["details"]).get("tool") == tool for row in rows)


def equal_failures(tx: Transaction, item: Row) -> list[Row]:
    """This item, and open ones that say the same of the same agent in the same place."""
    return [row for row in open_items(tx) if row["id"] == item["id"] or likeness(row) == likeness(item)]


def likeness(item: Row) -> tuple[str, ...]:
    """A key that is equal for items shown as one: failures by the same cause. All others stand alone."""
    if item["kind"] not in ("failure", "dead"):
        return (item["id"],)
    return item["kind"], item["agent"] or "", item["workspace"] or "", item["text"]


def answer_about(tx: Transaction, kind: Kind, ref: str) -> str | None:
    """What the person answered; None while they have not."""
    row = tx.one(
        """select answer from inbox_item
            where project = :project and kind = :kind and ref = :ref and state in ('answered', 'dismissed')""",
        kind=kind,
        ref=ref,
    )
    return str(row["answer"]) if row else None


def last_asked(tx: Transaction, kind: Kind, ref: str) -> int | None:
    """When this was last put before the person, whatever became of it."""
    row = tx.one(
        "select max(at) as at from inbox_item where project = :project and kind = :kind and ref = :ref",
        kind=kind,
        ref=ref,
    )
    return int(row["at"]) if row and row["at"] is not None else None


def waits_for(tx: Transaction, work: str) -> bool:
    """Whether a question or an approval of this work is unanswered."""
    row = tx.one(
        """select 1 as open from inbox_item
            where project = :project and state = 'open' and kind in ('question', 'approval')
              and substr(ref, 1, :length) = :prefix""",
        length=len(work) + 1,
        prefix=f"{work}/",
    )
    return row is not None


def asked_by_work(tx: Transaction, work: str) -> list[Row]:
    """The unanswered questions and approvals of this work."""
    return [
        row
        for row in open_items(tx)
        if row["kind"] in ("question", "approval") and row["ref"].partition("/")[0] == work
    ]


def asked_in(tx: Transaction, workspace: str) -> list[Row]:
    """What the person is asked in this workspace and has not answered: questions, approvals, votes, vetoes."""
    kinds = ("question", "approval", "vote", "veto")
    return [row for row in open_items(tx) if row["kind"] in kinds and row["workspace"] == workspace]


def waiting_in(tx: Transaction, workspace: str) -> list[Row]:
    """What a team waits for: unanswered questions, approvals, votes, and keys that are missing."""
    kinds = ("question", "approval", "vote", "veto", "key")
    return [row for row in open_items(tx) if row["kind"] in kinds and row["workspace"] == workspace]


def command_for(item: Row) -> str:
    """What the person types about an item that waits for their word."""
    match item["kind"]:
        case "approval" | "veto":
            return f"agent-worker inbox approve {item['n']} (or deny)"
        case "question" | "vote" | "mention":
            return f'agent-worker inbox answer {item["n"]} "…"'
        case "key":
            return f"agent-worker key set {item['ref']}"
    return "agent-worker inbox"


def asked_by_agents(tx: Transaction) -> dict[str, Row]:
    """The oldest unanswered question or approval of each agent, by the agent's id."""
    asked = [row for row in open_items(tx) if row["kind"] in ("question", "approval") and row["agent"]]
    return {row["agent"]: row for row in reversed(asked)}


def asked_for_keys(tx: Transaction) -> list[str]:
    """The keys that the person is asked for: providers and variables."""
    return [row["ref"] for row in open_items(tx) if row["kind"] == "key"]


def drop_work(tx: Transaction, work: str) -> None:
    """Drop all questions about work that is over: nobody needs to be asked about it any more."""
    rows = tx.all(
        """update inbox_item set state = 'dismissed'
            where project = :project and state = 'open' and kind in ('question', 'approval')
              and substr(ref, 1, :length) = :prefix
           returning id, workspace""",
        length=len(work) + 1,
        prefix=f"{work}/",
    )
    _tell_settled(tx, rows)


def close_about(tx: Transaction, kind: Kind, ref: str) -> None:
    """Close items about something that has been settled another way."""
    rows = tx.all(
        """update inbox_item set state = 'answered'
            where project = :project and state = 'open' and kind = :kind and ref = :ref
           returning id, workspace""",
        kind=kind,
        ref=ref,
    )
    _tell_settled(tx, rows)


def settle(tx: Transaction, agent: str, is_settled: Callable[[str], bool]) -> None:
    """Close items about an agent's work that failed or met a limit, where `is_settled` says so of their `ref`."""
    for row in open_items(tx):
        if row["agent"] == agent and row["kind"] in ("failure", "dead", "limit") and is_settled(row["ref"]):
            close(tx, row["id"], state="answered")


def close_limits(tx: Transaction, workspace: str) -> None:
    """Close the items about limits in a workspace that has ended: nothing goes on there."""
    for row in open_items(tx):
        if row["kind"] == "limit" and row["workspace"] == workspace:
            close(tx, row["id"], state="dismissed")


def close_mentions(tx: Transaction, workspace: str, agents: Iterable[str]) -> None:
    """Close the items by which these members called on the person: the person has spoken to them."""
    spoken_to = set(agents)
    for row in open_items(tx):
        if row["kind"] == "mention" and row["workspace"] == workspace and row["agent"] in spoken_to:
            close(tx, row["id"], state="answered")


def _tell_settled(tx: Transaction, rows: Iterable[Row]) -> None:
    for row in rows:
        outbox.drop(tx, row["id"])
        tx.tell(InboxItemSettled(workspace=row["workspace"], id=row["id"]))


def forget(tx: Transaction, agent: str) -> list[str]:
    """Forget what an agent that is gone had asked; returns the ids of those items."""
    rows = tx.all(
        "select id, workspace from inbox_item where project = :project and agent = :agent and state = 'open'",
        agent=agent,
    )
    _tell_settled(tx, rows)
    gone = tx.all("delete from inbox_item where project = :project and agent = :agent returning id", agent=agent)
    return [str(row["id"]) for row in gone]


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run("delete from inbox_item where project = :project and workspace = :workspace", workspace=workspace)
