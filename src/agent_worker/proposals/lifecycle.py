"""A question the team votes on, from the asking to what comes of it.

Each change is one transaction with all that it causes: a proposal with its announcement and the work of its voters, a
vote with the end that it makes certain, an end with its effect. Who votes is told by who acts, never by an argument.

Below: proposals/voting.py counts, proposals/store.py keeps. Time-outs are called by proposals/timer.py.
"""

from __future__ import annotations

from dataclasses import replace

from agent_worker.core.errors import Refused
from agent_worker.core.events import Proposed, Voted
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import store
from agent_worker.proposals.ending import end, end_if_certain, spare
from agent_worker.proposals.request import PERSON, QUESTION, Cause, ProposalRequest, Said, Voter, checked, option_named
from agent_worker.proposals.store import USER, Proposal
from agent_worker.proposals.wording import announcement, ending
from agent_worker.work import inbox
from agent_worker.workspaces import routing, workspace_rows

OPEN_AT_ONCE = 10  # in one workspace
PER_ROOT = 50  # that one request may lead to


def propose(
    tx: Transaction,
    workspace: Row,
    request: ProposalRequest,
    *,
    by: Voter,
    cause: Cause | None = None,
    then: Said = (),
    now: int,
) -> Proposal:
    """Put a question to the vote: every voter is called on. `then` is said afterwards."""
    cause = cause or Cause()
    _within_bounds(tx, workspace["id"], cause.root)
    request = _as_stored(tx, request)
    draft = checked(
        workspace, workspace_rows.members_in(tx, workspace["id"]), request, by=by, cause=cause, then=then, now=now
    )
    own = request.vote and option_named(draft.options, request.vote)
    proposal = store.add(tx, draft, now=now)
    called = tuple(name for name, agent in draft.electorate.items() if agent and not (own and name == by.name))
    speech = routing.OutgoingMessage(
        workspace=proposal.workspace,
        sender=by.name,
        text=announcement(proposal),
        calls=called,
        kind="proposal",
        proposal=proposal.number,
        root=cause.root,
        hop=cause.hop,
        run=cause.run,
    )
    receipt = routing.say(tx, speech, now=now)
    proposal = store.announce(tx, proposal.id, message=receipt.id, root=cause.root or receipt.id)
    _ask_person(tx, workspace, proposal, now=now)
    tx.tell(
        Proposed(
            workspace=proposal.workspace,
            id=proposal.id,
            proposal=proposal.number,
            text=proposal.question,
            creator=by.name,
            voters=proposal.rules.voters,
            expires_at=proposal.expires_at,
        )
    )
    return cast(tx, workspace["id"], proposal.number, own, by=by, now=now) if own else proposal


def _as_stored(tx: Transaction, request: ProposalRequest) -> ProposalRequest:
    """Its options without secrets, before they are compared: votes are compared with what is stored."""
    options = None if request.options is None else [tx.redact(option) for option in request.options]
    return replace(
        request,
        options=options,
        vote=request.vote and tx.redact(request.vote),
        fallback=request.fallback and tx.redact(request.fallback),
    )


def cast(
    tx: Transaction, workspace: str, number: int, choice: str, *, by: Voter, reason: str = "", now: int
) -> Proposal:
    """Vote, or vote again: the later one counts. It ends the proposal if it makes the outcome certain."""
    proposal = _still_open(tx, workspace, number, now=now)
    if proposal.electorate.get(by.name) != by.agent:
        voters = ", ".join(proposal.rules.voters)
        raise Refused(f"{by.name} has no vote on proposal {number}", hint=f"its voters: {voters}")
    option = option_named(proposal.rules.options, tx.redact(choice))
    store.put_vote(tx, proposal, by.name, option, reason=reason[:QUESTION], now=now)
    votes = store.choices(tx, proposal.id)
    tx.tell(
        Voted(
            workspace=workspace,
            id=proposal.id,
            proposal=number,
            voter=by.name,
            text=option,
            cast=len(votes),
            voters=len(proposal.rules.voters),
        )
    )
    if by == PERSON:
        inbox.close_about(tx, "vote", proposal.id)
        inbox.close_about(tx, "veto", proposal.id)
        proposal = store.consent(tx, proposal.id)
    else:
        spare(tx, proposal, by, "has voted", now=now)
    return end_if_certain(tx, proposal, by=by, now=now)


def consent(tx: Transaction, workspace: str, number: int, *, now: int) -> Proposal:
    """The person, who may veto the outcome of a proposal, lets it stand."""
    proposal = store.consent(tx, _with_veto(tx, workspace, number, now=now).id)
    inbox.close_about(tx, "veto", proposal.id)
    return end_if_certain(tx, proposal, by=PERSON, now=now)


def veto(tx: Transaction, workspace: str, number: int, *, reason: str = "", now: int) -> Proposal:
    """The person stops a proposal: nothing comes of it."""
    return end(tx, _with_veto(tx, workspace, number, now=now), "vetoed", "", reason, by=PERSON, now=now)


def cancel(tx: Transaction, workspace: str, number: int, *, by: Voter, reason: str = "", now: int) -> Proposal:
    """Its creator, or the person, takes a proposal back."""
    proposal = _still_open(tx, workspace, number, now=now)
    if by != PERSON and proposal.creator != by.name:
        raise Refused(f"only {proposal.creator} or the user can cancel proposal {number}")
    return end(tx, proposal, "cancelled", "", reason or f"by {by.name}", by=by, now=now)


def _within_bounds(tx: Transaction, workspace: str, root: str) -> None:
    if len(store.open_in(tx, workspace)) >= OPEN_AT_ONCE:
        raise Refused(f"{OPEN_AT_ONCE} proposals are open here", hint="wait for one to end, or cancel one")
    if root and store.made_for(tx, root) >= PER_ROOT:
        raise Refused(f"this request has led to {PER_ROOT} proposals: that is the limit")


def _ask_person(tx: Transaction, workspace: Row, proposal: Proposal, *, now: int) -> None:
    about = f"proposal {proposal.number} by {proposal.creator}: {proposal.question}"
    options = " / ".join(proposal.rules.options)
    asked: dict[inbox.Kind, str] = {}
    if USER in proposal.electorate:
        asked["vote"] = f"{about}\nyour vote: {options}"
    if proposal.veto:
        asked["veto"] = f"{about} ({options})\nits outcome waits for you: approve lets it stand, deny vetoes it"
    for kind, text in asked.items():
        inbox.ask(tx, kind, workspace=workspace["id"], ref=proposal.id, text=text, now=now)


def _still_open(tx: Transaction, workspace: str, number: int, *, now: int) -> Proposal:
    proposal = store.find(tx, workspace, number)
    if proposal.state != "open":
        raise Refused(f"proposal {number} is over: {ending(proposal)}")
    if proposal.expires_at <= now:
        raise Refused(f"the time of proposal {number} is up")
    return proposal


def _with_veto(tx: Transaction, workspace: str, number: int, *, now: int) -> Proposal:
    proposal = _still_open(tx, workspace, number, now=now)
    if not proposal.veto:
        raise Refused(f"proposal {number} gives nobody a veto", hint="vote on it, or cancel it")
    return proposal
