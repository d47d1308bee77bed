"""What waits for the person, and their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Literal

from agent_worker.agents import commands
from agent_worker.core.errors import BadInput, NotFound, NotRunning
from agent_worker.core.later import dataclass
from agent_worker.core.text import one
from agent_worker.database.database import Row, Transaction
from agent_worker.memory import claims
from agent_worker.proposals import lifecycle, store
from agent_worker.proposals.request import OPTION, PERSON, option_named
from agent_worker.schedules import schedule
from agent_worker.service.held_files import take_over_files
from agent_worker.service.operation import operation
from agent_worker.service.rounds import still_holds
from agent_worker.service.runs import said_in
from agent_worker.service.service import Service
from agent_worker.service.soul import decide
from agent_worker.work import agent_rows, hook_deliveries, inbox, project_rows, steps
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
    number: int = 0  #: what people call it, in its project
    project: str = ""  #: its directory
    question: str = ""  #: of a question or a vote, without who asks and what can be answered
    options: list[str] = field(default_factory=list)  #: to choose from; with none, any answer will do
    tool: str = ""  #: that an approval is about
    arguments: dict[str, str] = field(default_factory=dict)  #: of that call, as text
    count: int = 1  #: how many failures are shown as this one: they say the same
    run: str = ""  #: that asks, of a question or an approval
    reason: str = ""  #: what the agent said as it asked
    remedy: str = ""  #: what mends it, of a failure (as that of its run) or a missing key
    limit: str = ""  #: the one that was reached, as files call it: turns or usd of a workflow, usd_per_day of an agent
    allowed: float = 0  #: by that limit


@dataclass(frozen=True, slots=True)
class AllowedCall:
    """A tool call that is not asked about any more."""

    digest: str
    what: str


Action = Literal["approve", "deny", "answer", "retry", "dismiss"]
#: An approval holds for this call, for all calls of this tool in the same work, or for just this call for good.
Scope = Literal["once", "run", "always"]
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
    "soul": ["approve", "deny"],
    "drift": ["dismiss"],
    "dispute": ["approve", "deny"],
    "sharing": ["dismiss"],
    "check": ["approve", "deny"],
    "held": ["approve", "dismiss"],
    "judge": ["dismiss"],
    "test": ["dismiss"],
}


NO_ANSWER = "(the person gave no answer: decide yourself, or do without)"


@operation("GET", "/inbox", tool="inbox_list")
async def inbox_list(service: Service, project: str | None = None) -> list[Item]:
    """Everything that waits for the person: questions, approvals, failures, limits, mentions."""
    loaded = await service.project(project)
    items = await service.read(loaded, _items)
    return [replace(item, project=str(loaded.project.root)) for item in items]


@operation("GET", "/inbox/{item}")
async def inbox_show(service: Service, item: str) -> Item:
    """One item that waits for the person."""
    database, item = await service.holding(item, "inbox_item")
    return await database.read(open_item, item)


@operation("POST", "/inbox/{item}", tool="inbox_answer")
async def inbox_answer(
    service: Service, item: str, action: Action, text: str = "", scope: Scope = "once", other: bool = False
) -> str:
    """Answer one item: approve or deny a tool call or a new claim, answer a question, retry or dismiss a failure.

    Where there are options, the answer is one of them, or its number; anything else needs `other`. An approval may
    hold for the whole run, or always for exactly this call.
    """
    database, item = await service.holding(item, "inbox_item")
    row = await database.read(inbox.get, item)
    if row["kind"] == "soul":
        return await _decide_about_soul(service, await database.read(open_item, item), row, action, text)
    if row["kind"] in ("dispute", "check") and action in CAN[row["kind"]]:
        await _settle(service, row, yes=action == "approve")
    if row["kind"] == "held" and action == "approve":
        await take_over_files(service, *row["ref"].split("/", 1))
        return "done; your version is in place"
    told = await database.write(act, item, action, PersonsReply(text, scope, other), now=service.now())
    if row["kind"] == "approval" and action == "approve" and scope == "always":
        digest, what = await database.read(_call_of, item)
        loaded = await service.project_of(database)
        await asyncio.to_thread(service.runtime.gate.allow_call, loaded.project.root, digest, what)
    if service.runtime.loader.ticker:
        service.runtime.loader.ticker.look_again()  # it may be a workflow that was not started
    return told


async def _settle(service: Service, row: Row, *, yes: bool) -> None:
    """Do what an answer means in the agent's files, first: answered again after a crash, nothing is left to do
    there."""
    agent, _, key = row["ref"].partition("/")
    await service.see_files(agent)
    home = service.runtime.registry.worker(agent).home
    now = service.runtime.clock.now()
    if home is not None and row["kind"] == "check":
        await asyncio.to_thread(still_holds, home, key, yes=yes, now=now)
    elif home is not None:
        await asyncio.to_thread(claims.settle, home, key, take=yes, now=now)
    await service.runtime.public.publish(service.runtime.registry.worker(agent))


async def _decide_about_soul(service: Service, item: Item, asked: Row, action: Action, text: str) -> str:
    """Decide on a change that was proposed for an agent's soul, if it still is what the person was shown."""
    _check_action(asked, action)
    proposal = json.loads(asked["details"])["proposal"]
    verdict: Literal["approve", "reject"] = "approve" if action == "approve" else "reject"
    made = await decide(service, item.agent, proposal, verdict, text, item.project, digest=asked["digest"])
    return f"done; {made.told}"


@operation("GET", "/allowed")
async def allowed_list(service: Service, project: str | None = None) -> list[AllowedCall]:
    """Tool calls of a project that no longer need your approval."""
    root = (await service.project(project)).project.root
    calls = await asyncio.to_thread(service.runtime.gate.allowed_calls, root)
    return [AllowedCall(digest, what) for digest, what in calls.items()]


@operation("DELETE", "/allowed/{digest}")
async def allowed_revoke(service: Service, digest: str, project: str | None = None) -> AllowedCall:
    """Ask about a tool call again."""
    root = (await service.project(project)).project.root
    calls = await asyncio.to_thread(service.runtime.gate.allowed_calls, root)
    if digest not in calls:
        raise NotFound("no such call is always allowed", hint="agent-worker inbox allowed")
    await asyncio.to_thread(service.runtime.gate.revoke_call, root, digest)
    return AllowedCall(digest, calls[digest])


@dataclass(frozen=True, slots=True)
class PersonsReply:
    """What the person says to an item."""

    text: str = ""
    scope: Scope = "once"
    other: bool = False  #: none of the options, on purpose


def _items(tx: Transaction) -> list[Item]:
    folded: dict[tuple[str, ...], Item] = {}
    for row in inbox.open_items(tx):
        known = folded.get(inbox.likeness(row))
        folded[inbox.likeness(row)] = replace(known, count=known.count + 1) if known else _item(tx, row)
    return list(folded.values())


def open_item(tx: Transaction, id: str) -> Item:
    return replace(_item(tx, inbox.get(tx, id)), project=project_rows.root_here(tx))


def _item(tx: Transaction, row: Row) -> Item:
    agent = agent_rows.identity(tx, row["agent"])["name"] if row["agent"] else ""
    workspace = tx.one("select workflow, tag from workspace where project = :project and id = :id", id=row["workspace"])
    place = "" if workspace is None else str(workspace_rows.name_of(workspace))
    details = json.loads(row["details"])
    item = Item(
        id=row["id"],
        kind=row["kind"],
        text=row["text"],
        agent=agent,
        workspace=place,
        at=row["at"],
        answers=_can(tx, row),
        number=row["n"],
        question=details.get("question", ""),
        options=details.get("options", []),
        tool=details.get("tool", ""),
        arguments=details.get("arguments", {}),
        remedy=f"key {row['ref']}" if row["kind"] == "key" else details.get("remedy", ""),
        limit=details.get("limit", ""),
        allowed=details.get("number", 0),
    )
    if row["kind"] in ("question", "approval"):
        return _with_reason(tx, row, item)
    if row["kind"] not in ("vote", "veto"):
        return item
    proposal = store.get(tx, row["ref"])
    options = list(proposal.rules.options) if row["kind"] == "vote" else []
    return replace(item, question=proposal.question, options=options)


def _with_reason(tx: Transaction, row: Row, item: Item) -> Item:
    """The item with the run that asks, and what its model said in the step in which it asked."""
    work, n, _ = row["ref"].split("/", 2)
    step = steps.step_at(tx, work, int(n))
    if step is None:
        return item
    return replace(item, run=step["run"], reason=said_in(step))


def _can(tx: Transaction, row: Row) -> list[str]:
    """The answers that an item takes: where its workflow has ended for good, only to dismiss it."""
    if "retry" not in CAN[row["kind"]]:
        return CAN[row["kind"]]
    try:
        _check_workspace(tx, row)
    except NotRunning:
        return ["dismiss"]
    return CAN[row["kind"]]


def _call_of(tx: Transaction, item: str) -> tuple[str, str]:
    """Digest and description of the call that an approval was about."""
    row = tx.one("select digest, text from inbox_item where project = :project and id = :item", item=item)
    assert row
    return row["digest"], row["text"].replace(" wants to use ", ": ", 1)


def act(tx: Transaction, item: str, action: Action, reply: PersonsReply, *, now: int) -> str:
    """Do what the person says to an item; what is to be told of it."""
    row = inbox.get(tx, item)
    _check_action(row, action)
    if row["kind"] in ("vote", "veto"):
        return _decide(tx, row, action, reply.text, now=now)
    if row["kind"] == "dispute":
        inbox.close(tx, item, state="answered", answer=action)
        return "done; it remembers the new one" if action == "approve" else "done; what it knew stays"
    if row["kind"] == "held":
        inbox.close(tx, item, state="answered", answer=action)
        return "done; it stays as it is"
    if row["kind"] == "check":
        inbox.close(tx, item, state="answered", answer=action)
        return "done; it holds" if action == "approve" else "done; it is in the archive"
    match action:
        case "approve":
            return _approve(tx, row, reply.scope, now=now)
        case "deny":
            commands.answer(tx, item, f"{inbox.NO} {reply.text}".strip(), now=now)
        case "answer":
            _answer(tx, row, reply, now=now)
        case "retry":
            return [_retry(tx, each, now=now) for each in inbox.equal_failures(tx, row)][-1]
        case "dismiss" if row["kind"] == "question":
            commands.answer(tx, item, NO_ANSWER, now=now)
        case "dismiss":
            for each in inbox.equal_failures(tx, row):
                inbox.close(tx, each["id"], state="dismissed")
    return "done"


def _check_action(row: Row, action: Action) -> None:
    can = CAN[row["kind"]]
    if action not in can:
        takes = "; or ".join(f"agent-worker inbox {each} {row['id']}" for each in can)
        if row["kind"] == "key":
            raise BadInput("this continues once its key is set", hint=f"agent-worker key list; or {takes}")
        raise BadInput(f"this is {one(row['kind'])}, and {action} does not settle it", hint=takes)


def _approve(tx: Transaction, row: Row, scope: Scope, *, now: int) -> str:
    if scope != "run":
        commands.answer(tx, row["id"], inbox.YES, now=now)
        return "done" if scope == "once" else "done; you will not be asked about exactly this call again"
    work, tool = row["ref"].partition("/")[0], json.loads(row["details"]).get("tool")
    for each in inbox.open_items(tx):
        same_work = each["kind"] == "approval" and each["ref"].partition("/")[0] == work
        if same_work and json.loads(each["details"]).get("tool") == tool:
            commands.answer(tx, each["id"], inbox.YES_TO_ALL, now=now)
    return f"done; {tool} needs no further approval in this run"


def _answer(tx: Transaction, row: Row, reply: PersonsReply, *, now: int) -> None:
    if not reply.text.strip():
        raise BadInput("an answer needs a text")
    if row["kind"] == "mention":
        return _reply(tx, row, reply.text, now=now)
    options = json.loads(row["details"]).get("options", [])
    text = reply.text if reply.other or not options else _chosen(row, options, reply.text)
    commands.answer(tx, row["id"], text, now=now)


def _chosen(row: Row, options: Sequence[str], text: str) -> str:
    """An option by its words, or by its number. Raises BadInput, which lists them."""
    with suppress(BadInput):
        return option_named(options, text)
    if text.strip().isdecimal() and 1 <= int(text) <= len(options):
        return options[int(text) - 1]
    numbered = ", ".join(f"{n} {option}" for n, option in enumerate(options, 1))
    own = "; your own words: --other" if row["kind"] == "question" else ""
    hint = f"agent-worker inbox answer {row['id']} 1 (options: {numbered}{own})"
    raise BadInput(f"{text[:OPTION]!r} is not an option", hint=hint)


def _decide(tx: Transaction, row: Row, action: Action, text: str, *, now: int) -> str:
    proposal = store.get(tx, row["ref"])
    match action:
        case "approve":
            proposal = lifecycle.consent(tx, proposal.workspace, proposal.number, now=now)
        case "deny":
            proposal = lifecycle.veto(tx, proposal.workspace, proposal.number, reason=text, now=now)
        case _:
            choice = _chosen(row, proposal.rules.options, text)
            proposal = lifecycle.cast(tx, proposal.workspace, proposal.number, choice, by=PERSON, now=now)
    return f"done; proposal {proposal.number} is {proposal.state}"


def _retry(tx: Transaction, row: Row, *, now: int) -> str:
    waits = _check_workspace(tx, row)
    if row["kind"] == "limit":
        commands.lift_limit(tx, row, now=now)
        return waits or "it continues, with a new allowance"
    if row["ref"] == row["agent"]:
        commands.start_agent(tx, row["agent"])
    elif schedule.again(tx, row["ref"], now=now) or hook_deliveries.again(tx, row["ref"]):
        inbox.close(tx, row["id"], state="answered")
    else:
        commands.continue_work(tx, row["ref"], now=now)
    return waits or "it is being retried"


def _check_workspace(tx: Transaction, row: Row) -> str:
    """What work waits for that goes on with the next start of its workflow; '' when it can go on at once. Raises
    NotRunning.
    """
    workspace = tx.one(
        "select workflow, tag, state, bound from workspace where project = :project and id = :id", id=row["workspace"]
    )
    if workspace is None or workspace["state"] == "running":
        return ""
    start = workspace_rows.start_command(workspace_rows.name_of(workspace))
    if workspace["state"] == "archived" or not workspace["bound"]:
        raise NotRunning(f'workflow "{workspace["workflow"]}" has ended: there is nothing left to continue', hint=start)
    return f"it continues when the workflow is started again: {start}"


def _reply(tx: Transaction, row: Row, text: str, *, now: int) -> None:
    """Answer a member who called on the person: in the channel, and with an instruction for that member."""
    asker = agent_rows.identity(tx, row["agent"])["name"]
    workspace = workspace_rows.get(tx, row["workspace"])
    workspace_rows.find_running(tx, workspace_rows.name_of(workspace))
    inbox.close(tx, row["id"], state="answered", answer=text)
    routing.say(tx, routing.OutgoingMessage(workspace["id"], "user", f"@{asker} {text}"), now=now)
