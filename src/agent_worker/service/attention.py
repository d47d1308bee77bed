"""What waits for the person, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_worker import attention, identities, routing
from agent_worker.agents import rescue, schedule
from agent_worker.decisions import deciding
from agent_worker.decisions.wish import PERSON
from agent_worker.errors import BadInput, NotRunning
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Row, Transaction
from agent_worker.workspaces import proposals, workspace


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
    "question": ["answer", "drop"],
    "vote": ["answer"],
    "veto": ["approve", "deny"],
    "failure": ["retry", "drop"],
    "dead": ["retry", "drop"],
    "limit": ["retry", "drop"],
    "mention": ["answer", "drop"],
    "conflict": ["drop"],
    "space": ["drop"],
    "control": ["drop"],
}


NO_ANSWER = "(the person gave no answer: decide yourself, or do without)"


@operation("GET", "/attention", tool="attention_list")
async def attention_list(office: Office, project: str | None = None) -> list[Item]:
    """Everything that waits for the person: questions, approvals, failures, limits, mentions."""
    admitted = await office.project(project)
    return await office.stage.database.read(_items, admitted.id)


@operation("POST", "/attention/{item}", tool="attention_answer")
async def attention_answer(office: Office, item: str, action: Action, text: str = "") -> str:
    """Answer one item: approve or deny a tool, answer a question, retry or drop a failure."""
    told = await office.stage.database.write(_act, item, action, text, now=office.now())
    if office.stage.roster.ticker:
        office.stage.roster.ticker.look_again()  # it may be a workflow that was not started
    return told


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
    if row["sort"] in ("vote", "veto"):
        return _decide(tx, row, action, text, now=now)
    match action:
        case "approve":
            rescue.answer(tx, item, attention.YES, now=now)
        case "deny":
            rescue.answer(tx, item, f"{attention.NO} {text}".strip(), now=now)
        case "answer":
            if not text.strip():
                raise BadInput("an answer needs a text")
            if row["sort"] == "mention":
                _reply(tx, row, text, now=now)
            else:
                rescue.answer(tx, item, text, now=now)
        case "retry":
            return _retry(tx, row, now=now)
        case "drop" if row["sort"] == "question":
            rescue.answer(tx, item, NO_ANSWER, now=now)
        case "drop":
            attention.close(tx, item, state="dropped")
    return "done"


def _decide(tx: Transaction, row: Row, action: Action, text: str, *, now: int) -> str:
    proposal = proposals.get(tx, row["ref"])
    match action:
        case "approve":
            proposal = deciding.consent(tx, proposal.workspace, proposal.number, now=now)
        case "deny":
            proposal = deciding.veto(tx, proposal.workspace, proposal.number, reason=text, now=now)
        case _:
            proposal = deciding.cast(tx, proposal.workspace, proposal.number, text, by=PERSON, now=now)
    return f"done; proposal {proposal.number} is {proposal.state}"


def _retry(tx: Transaction, row: Row, *, now: int) -> str:
    waits = _check_room(tx, row)
    if row["sort"] == "limit":
        rescue.lift_limit(tx, row, now=now)
        return waits or "goes on, with a new allowance"
    if row["ref"] == row["agent"]:
        rescue.start_agent(tx, row["agent"])
    elif schedule.again(tx, row["ref"], now=now):
        attention.close(tx, row["id"], state="answered")
    else:
        rescue.continue_work(tx, row["ref"], now=now)
    return waits or "is tried again"


def _check_room(tx: Transaction, row: Row) -> str:
    """Empty when it can go on at once; what it waits for, where work is kept for the next start. Raises NotRunning."""
    room = tx.one("select workflow, tag, state, bound from workspace where id = :id", id=row["workspace"])
    if room is None or room["state"] == "running":
        return ""
    start = f"agent-worker start {room['workflow']}" + ("" if room["tag"] == "main" else f" --tag {room['tag']}")
    if room["state"] == "archived" or not room["bound"]:
        raise NotRunning(f'workflow "{room["workflow"]}" has ended, and what was left of it with it', hint=start)
    return f"goes on when the workflow is started again: {start}"


def _reply(tx: Transaction, row: Row, text: str, *, now: int) -> None:
    """To a member who called on the person: said in the channel, and an instruction for that member."""
    asker = identities.identity(tx, row["agent"])["name"]
    room = workspace.get(tx, row["workspace"])
    workspace.find_running(tx, project=room["project"], workflow=room["workflow"], tag=room["tag"])
    routing.say(tx, routing.Speech(room["id"], "user", f"@{asker} {text}"), now=now)
    attention.close(tx, row["id"], state="answered", answer=text)
