"""What waits for the person, and their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_worker.agents import commands
from agent_worker.core.errors import BadInput, NotRunning
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import lifecycle, store
from agent_worker.proposals.request import PERSON
from agent_worker.schedules import schedule
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.work import agent_rows, inbox
from agent_worker.workspaces import routing, workspace_rows


@dataclass(frozen=True, slots=True)
class Item:
    id: str
    kind: str
    text: str
    agent: str
    workspace: str
    at: int
    answers: list[str]  #: what can be done about it


Action = Literal["approve", "deny", "answer", "retry", "dismiss"]
CAN: dict[str, list[str]] = {
    "approval": ["approve", "deny"],
    "question": ["answer", "dismiss"],
    "vote": ["answer"],
    "veto": ["approve", "deny"],
    "failure": ["retry", "dismiss"],
    "dead": ["retry", "dismiss"],
    "limit": ["retry", "dismiss"],
    "key": ["dismiss"],
    "mention": ["answer", "dismiss"],
    "conflict": ["dismiss"],
    "space": ["dismiss"],
    "control": ["dismiss"],
    "feedback": ["dismiss"],
}


NO_ANSWER = "(the person gave no answer: decide yourself, or do without)"


@operation("GET", "/inbox", tool="inbox_list")
async def inbox_list(service: Service, project: str | None = None) -> list[Item]:
    """Everything that waits for the person: questions, approvals, failures, limits, mentions."""
    loaded = await service.project(project)
    return await service.read(loaded, _items)


@operation("POST", "/inbox/{item}", tool="inbox_answer")
async def inbox_answer(service: Service, item: str, action: Action, text: str = "") -> str:
    """Answer one item: approve or deny a tool call, answer a question, retry or dismiss a failure."""
    told = await (await service.holding("inbox_item", item)).write(_act, item, action, text, now=service.now())
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()  # it may be a workflow that was not started
    return told


def _items(tx: Transaction) -> list[Item]:
    return [_item(tx, row) for row in inbox.open_items(tx)]


def _item(tx: Transaction, row: Row) -> Item:
    agent = agent_rows.identity(tx, row["agent"])["name"] if row["agent"] else ""
    workspace = tx.one("select workflow, tag from workspace where project = :project and id = :id", id=row["workspace"])
    place = "" if workspace is None else str(workspace_rows.name_of(workspace))
    return Item(row["id"], row["kind"], row["text"], agent, place, row["at"], CAN[row["kind"]])


def _act(tx: Transaction, item: str, action: Action, text: str, *, now: int) -> str:
    row = inbox.get(tx, item)
    if action not in CAN[row["kind"]]:
        raise BadInput(
            f"a {row['kind']} cannot be answered with {action}", hint=f"it takes: {', '.join(CAN[row['kind']])}"
        )
    if row["kind"] in ("vote", "veto"):
        return _decide(tx, row, action, text, now=now)
    match action:
        case "approve":
            commands.answer(tx, item, inbox.YES, now=now)
        case "deny":
            commands.answer(tx, item, f"{inbox.NO} {text}".strip(), now=now)
        case "answer":
            if not text.strip():
                raise BadInput("an answer needs a text")
            if row["kind"] == "mention":
                _reply(tx, row, text, now=now)
            else:
                commands.answer(tx, item, text, now=now)
        case "retry":
            return _retry(tx, row, now=now)
        case "dismiss" if row["kind"] == "question":
            commands.answer(tx, item, NO_ANSWER, now=now)
        case "dismiss":
            inbox.close(tx, item, state="dismissed")
    return "done"


def _decide(tx: Transaction, row: Row, action: Action, text: str, *, now: int) -> str:
    proposal = store.get(tx, row["ref"])
    match action:
        case "approve":
            proposal = lifecycle.consent(tx, proposal.workspace, proposal.number, now=now)
        case "deny":
            proposal = lifecycle.veto(tx, proposal.workspace, proposal.number, reason=text, now=now)
        case _:
            proposal = lifecycle.cast(tx, proposal.workspace, proposal.number, text, by=PERSON, now=now)
    return f"done; proposal {proposal.number} is {proposal.state}"


def _retry(tx: Transaction, row: Row, *, now: int) -> str:
    waits = _check_workspace(tx, row)
    if row["kind"] == "limit":
        commands.lift_limit(tx, row, now=now)
        return waits or "it goes on, with a new allowance"
    if row["ref"] == row["agent"]:
        commands.start_agent(tx, row["agent"])
    elif schedule.again(tx, row["ref"], now=now):
        inbox.close(tx, row["id"], state="answered")
    else:
        commands.continue_work(tx, row["ref"], now=now)
    return waits or "it is being retried"


def _check_workspace(tx: Transaction, row: Row) -> str:
    """Empty when it can go on at once; what it waits for, where work is kept for the next start. Raises NotRunning."""
    workspace = tx.one(
        "select workflow, tag, state, bound from workspace where project = :project and id = :id", id=row["workspace"]
    )
    if workspace is None or workspace["state"] == "running":
        return ""
    start = workspace_rows.start_command(workspace_rows.name_of(workspace))
    if workspace["state"] == "archived" or not workspace["bound"]:
        raise NotRunning(
            f'workflow "{workspace["workflow"]}" has ended: there is nothing left to go on with', hint=start
        )
    return f"it goes on when the workflow is started again: {start}"


def _reply(tx: Transaction, row: Row, text: str, *, now: int) -> None:
    """To a member who called on the person: said in the channel, and an instruction for that member."""
    asker = agent_rows.identity(tx, row["agent"])["name"]
    workspace = workspace_rows.get(tx, row["workspace"])
    workspace_rows.find_running(tx, workspace_rows.name_of(workspace))
    routing.say(tx, routing.OutgoingMessage(workspace["id"], "user", f"@{asker} {text}"), now=now)
    inbox.close(tx, row["id"], state="answered", answer=text)
