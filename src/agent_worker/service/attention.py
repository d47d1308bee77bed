"""What waits for the person, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_worker import attention, identities
from agent_worker.agents import rescue
from agent_worker.errors import BadInput
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Row, Transaction


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    sort: str
    text: str
    agent: str
    workspace: str
    at: int
    answers: list[str]  #: what can be done about it


Action = Literal["approve", "deny", "answer", "retry", "drop"]
CAN: dict[str, list[str]] = {
    "approval": ["approve", "deny"],
    "question": ["answer"],
    "failure": ["retry", "drop"],
    "dead": ["retry", "drop"],
    "limit": ["retry", "drop"],
    "mention": ["drop"],
    "conflict": ["drop"],
}


@operation("GET", "/attention", tool="attention_list")
async def attention_list(office: Office, project: str | None = None) -> list[Item]:
    """Everything that waits for the person: questions, approvals, failures, limits, mentions."""
    admitted = await office.project(project)
    return await office.stage.database.read(_items, admitted.id)


@operation("POST", "/attention/{item}", tool="attention_answer")
async def attention_answer(office: Office, item: str, action: Action, text: str = "") -> str:
    """Answer one item: approve or deny a tool, answer a question, retry or drop a failure."""
    return await office.stage.database.write(_act, item, action, text, now=office.now())


def _items(tx: Transaction, project: str) -> list[Item]:
    return [_item(tx, row) for row in attention.open_items(tx, project)]


def _item(tx: Transaction, row: Row) -> Item:
    agent = identities.identity(tx, row["agent"])["name"] if row["agent"] else ""
    room = tx.one("select workflow, tag from workspace where id = :id", id=row["workspace"])
    place = "" if room is None else room["workflow"] + ("" if room["tag"] == "main" else f":{room['tag']}")
    return Item(row["id"], row["sort"], row["text"], agent, place, row["at"], CAN[row["sort"]])


def _act(tx: Transaction, item: str, action: Action, text: str, *, now: int) -> str:
    row = attention.get(tx, item)
    if action not in CAN[row["sort"]]:
        raise BadInput(
            f"a {row['sort']} cannot be answered with {action}", hint=f"it takes: {', '.join(CAN[row['sort']])}"
        )
    match action:
        case "approve":
            rescue.answer(tx, item, attention.YES, now=now)
        case "deny":
            rescue.answer(tx, item, f"{attention.NO} {text}".strip(), now=now)
        case "answer":
            if not text.strip():
                raise BadInput("an answer needs a text")
            rescue.answer(tx, item, text, now=now)
        case "retry":
            return _retry(tx, row, now=now)
        case "drop":
            attention.close(tx, item, state="dropped")
    return "done"


def _retry(tx: Transaction, row: Row, *, now: int) -> str:
    if row["sort"] == "limit":
        rescue.lift_limit(tx, row, now=now)
        return "goes on, with a new allowance"
    if row["ref"] == row["agent"]:
        rescue.start_agent(tx, row["agent"])
    else:
        rescue.continue_work(tx, row["ref"], now=now)
    return "is tried again"
