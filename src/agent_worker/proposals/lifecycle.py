"""A question the team votes on, from the asking to what comes of it.

Each change is one transaction with all that it causes: a proposal with its announcement and the work of its voters, a
vote with the end that it makes certain, an end (by an outcome, by time, by whoever may stop it) with its effect. Who
votes is told by who acts, never by an argument; who may change what an outcome binds is looked at when it takes effect.

Below: proposals/voting.py counts, proposals/store.py keeps. Time-outs are called by proposals/timer.py.
"""

from __future__ import annotations

from dataclasses import replace

from agent_worker.core.errors import Refused
from agent_worker.core.events import Decided, Ended, Proposed, Voted
from agent_worker.core.item_kinds import Kind
from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import minutes, store
from agent_worker.proposals.request import (
    APPROVE,
    PERSON,
    QUESTION,
    Cause,
    ProposalRequest,
    Said,
    Voter,
    checked,
    may_name_owner,
    option_named,
)
from agent_worker.proposals.store import USER, End, Proposal
from agent_worker.proposals.voting import Outcome, Won, certain, outcome
from agent_worker.proposals.wording import ROLES, announcement, ending, result, shown_limits
from agent_worker.work import inbox, open_work, queue
from agent_worker.workspaces import deliveries, member_rows, routing, workspace_rows, workspace_state


def take_effect(tx: Transaction, workspace: Row, proposal: Proposal, *, now: int) -> str:
    """Do what a binding outcome changes; returns a sentence about it, to be added to the announcement."""
    winner = proposal.outcome
    if not proposal.binding or not winner:
        return ""
    if proposal.kind == "approval":
        return _set_limits(tx, proposal) if winner == APPROVE and proposal.effect.limits else ""
    if proposal.kind != "assignment" and not proposal.effect.role:
        return ""
    if winner not in member_rows.members_in(tx, workspace["id"]):
        return f" {winner} is no longer a member, so nothing changes."
    if proposal.kind == "assignment":
        return _assign(tx, proposal, now=now)
    return _give_role(tx, workspace, proposal)


def _give_role(tx: Transaction, workspace: Row, proposal: Proposal) -> str:
    if proposal.effect.role == "coordinator":
        workspace_state.set_coordinator(tx, workspace["id"], proposal.outcome)
    elif may_name_owner(workspace, Voter(proposal.creator)):
        workspace_state.set_document_owner(tx, workspace["id"], proposal.outcome)
    else:
        return f" The workflow names {workspace['document_owner']} as owner of the documents, so nothing changes."
    assert proposal.effect.role
    return f" {proposal.outcome} {ROLES[proposal.effect.role]} now."


def _assign(tx: Transaction, proposal: Proposal, *, now: int) -> str:
    speech = routing.OutgoingMessage(
        workspace=proposal.workspace,
        sender=proposal.creator,
        text=f"@{proposal.outcome} {proposal.question}",
        calls=(proposal.outcome,),
        root=proposal.root,
        hop=proposal.hop + 1,
    )
    receipt = routing.say(tx, speech, now=now)
    return f" {proposal.outcome} was given the task (#{receipt.seq})."


def _set_limits(tx: Transaction, proposal: Proposal) -> str:
    """Set the limits that a proposal asked for. Only a person can raise them: by asking, or by a vote of their own."""
    if proposal.creator != USER and store.choices(tx, proposal.id).get(USER) != APPROVE:
        return " The user has not approved it, so the limits stay as they are."
    workspace_state.grant(tx, proposal.workspace, proposal.effect.limits)
    return f" The limits are {shown_limits(proposal.effect.limits)} now."


SYSTEM = "system"


def expire(tx: Transaction, id: str, *, now: int) -> None:
    """End a proposal whose time is up: by its votes if the quorum is met, else by the fallback."""
    proposal = store.get(tx, id)
    running = workspace_rows.get(tx, proposal.workspace)["state"] == "running"
    if running and proposal.state == "open" and proposal.expires_at <= now:
        _close_vote(tx, proposal, outcome(proposal.rules, store.choices(tx, id)), "expired", now=now)


def cancel_all(tx: Transaction, workspace: str, reason: str, *, now: int) -> None:
    """Cancel all open proposals of a workspace that closes: nobody will vote any more, and nothing follows."""
    for proposal in store.open_in(tx, workspace):
        end(tx, proposal, "cancelled", "", reason, by=Voter(proposal.creator), closing=True, now=now)


def end_if_certain(tx: Transaction, proposal: Proposal, *, by: Voter, now: int) -> Proposal:
    found = certain(proposal.rules, store.choices(tx, proposal.id))
    if found is None or (isinstance(found, Won) and proposal.veto and not proposal.consented):
        return proposal
    return _close_vote(tx, proposal, found, "resolved", by=by, now=now)


def _close_vote(
    tx: Transaction, proposal: Proposal, found: Outcome, otherwise: End, *, by: Voter | None = None, now: int
) -> Proposal:
    """End a proposal by its votes. `otherwise` is how it ends when no option was chosen."""
    by = by or Voter(SYSTEM)
    if isinstance(found, Won):
        return end(tx, proposal, "resolved", found.option, "", by=by, now=now)
    return end(tx, proposal, otherwise, proposal.fallback, found.reason, by=by, now=now)


def end(
    tx: Transaction,
    proposal: Proposal,
    state: End,
    option: str,
    reason: str,
    *,
    by: Voter,
    closing: bool = False,
    now: int,
) -> Proposal:
    recorded = state == "cancelled"  # nothing was decided
    proposal = store.end(tx, proposal.id, state, outcome=option, reason=reason, recorded=recorded, now=now)
    for kind in ("vote", "veto"):
        inbox.close_about(tx, kind, proposal.id)
    for name, agent in proposal.electorate.items():
        spare(tx, proposal, Voter(name, agent), "is decided", now=now)
    workspace = workspace_rows.get(tx, proposal.workspace)
    _tell(tx, proposal, take_effect(tx, workspace, proposal, now=now), by=by, now=now)
    if not recorded:
        minutes.record(tx, workspace, proposal, now=now)
    if not closing:
        _go_on(tx, proposal, now=now)
    tx.tell(
        Decided(
            workspace=proposal.workspace,
            id=proposal.id,
            proposal=proposal.number,
            state=state,
            text=option,
            reason=reason,
        )
    )
    return proposal


def spare(tx: Transaction, proposal: Proposal, voter: Voter, why: str, *, now: int) -> None:
    """Take a voter's instruction out of the queue, because its vote is not needed any more."""
    if not voter.agent:
        return
    for row in open_work.queued_for(tx, voter.agent, proposal.message):
        queue.end_one(tx, row["id"], "done", reason=f"proposal {proposal.number} {why}", now=now)
        deliveries.close_one(tx, proposal.message, voter.agent, "acked")
        tx.tell(
            Ended(
                workspace=proposal.workspace,
                agent=voter.agent,
                name=voter.name,
                run="",
                instruction=row["id"],
                state="done",
            )
        )


def _tell(tx: Transaction, proposal: Proposal, effect: str, *, by: Voter, now: int) -> None:
    """Announce the end of a proposal in the channel; its creator is called on, unless the creator ended it."""
    asker = proposal.creator
    knows = asker == by.name or asker not in member_rows.members_in(tx, proposal.workspace)
    speech = routing.OutgoingMessage(
        workspace=proposal.workspace,
        sender=SYSTEM,
        text=f"[{proposal.state.upper()}] {proposal.number}: {proposal.question}\n{result(tx, proposal)}{effect}",
        calls=() if knows else (asker,),
        kind="decision",
        proposal=proposal.number,
        root=proposal.root,
        hop=proposal.hop + 1,
    )
    routing.say(tx, speech, now=now)


def _go_on(tx: Transaction, proposal: Proposal, *, now: int) -> None:
    """Say what waited for the end of a proposal, however it ended: the kickoff of a team that elects first."""
    for text, quoted in proposal.effect.then:
        spans = [(start, end) for start, end in quoted]
        root = proposal.root if proposal.hop else ""  # an agent started the team: it goes on from what that works on
        speech = routing.OutgoingMessage(
            proposal.workspace, USER, text, quoted=spans, root=root, hop=proposal.hop if root else 0
        )
        routing.say(tx, speech, now=now)


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
        workspace, member_rows.members_in(tx, workspace["id"]), request, by=by, cause=cause, then=then, now=now
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
    """A proposal with its options as they are stored, without secrets: votes are compared with those."""
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
    """Take a proposal back; its creator and the person may."""
    proposal = _still_open(tx, workspace, number, now=now)
    if by != PERSON and proposal.creator != by.name:
        raise Refused(f"only {proposal.creator} or the user can cancel proposal {number}")
    return end(tx, proposal, "cancelled", "", reason or f"by {by.name}", by=by, now=now)


def _within_bounds(tx: Transaction, workspace: str, root: str) -> None:
    if len(store.open_in(tx, workspace)) >= OPEN_AT_ONCE:
        raise Refused(f"{OPEN_AT_ONCE} proposals are open here", hint="wait until one ends, or cancel one")
    if root and store.made_for(tx, root) >= PER_ROOT:
        raise Refused(f"this request has led to {PER_ROOT} proposals: that is the limit")


def _ask_person(tx: Transaction, workspace: Row, proposal: Proposal, *, now: int) -> None:
    about = f"proposal {proposal.number} by {proposal.creator}: {proposal.question}"
    options = " / ".join(proposal.rules.options)
    asked: dict[Kind, str] = {}
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
        raise Refused(f"the time for proposal {number} is up")
    return proposal


def _with_veto(tx: Transaction, workspace: str, number: int, *, now: int) -> Proposal:
    proposal = _still_open(tx, workspace, number, now=now)
    if not proposal.veto:
        raise Refused(f"proposal {number} gives nobody a veto", hint="vote on it, or cancel it")
    return proposal
