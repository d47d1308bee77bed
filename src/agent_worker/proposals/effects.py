"""What a binding outcome changes. Who may change it is looked at here and now, not when it was asked for."""

from __future__ import annotations

from agent_worker.database.database import Row, Transaction
from agent_worker.proposals import store
from agent_worker.proposals.request import APPROVE, Voter, may_name_owner
from agent_worker.proposals.store import USER, Proposal
from agent_worker.proposals.wording import ROLES, shown_limits
from agent_worker.workspaces import routing, workspace_rows


def take_effect(tx: Transaction, workspace: Row, proposal: Proposal, *, now: int) -> str:
    """A sentence about it, to be added to the announcement of the outcome."""
    winner = proposal.outcome
    if not proposal.binding or not winner:
        return ""
    if proposal.kind == "approval":
        return _set_limits(tx, proposal) if winner == APPROVE and proposal.effect.limits else ""
    if proposal.kind != "assignment" and not proposal.effect.role:
        return ""
    if winner not in workspace_rows.members_in(tx, workspace["id"]):
        return f" {winner} is not a member any more, so nothing changes."
    if proposal.kind == "assignment":
        return _assign(tx, proposal, now=now)
    return _give_role(tx, workspace, proposal)


def _give_role(tx: Transaction, workspace: Row, proposal: Proposal) -> str:
    if proposal.effect.role == "coordinator":
        workspace_rows.set_coordinator(tx, workspace["id"], proposal.outcome)
    elif may_name_owner(workspace, Voter(proposal.creator)):
        workspace_rows.set_document_owner(tx, workspace["id"], proposal.outcome)
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
    """Only a person gives more: by asking, or by a vote of their own."""
    if proposal.creator != USER and store.choices(tx, proposal.id).get(USER) != APPROVE:
        return " The user has not approved it, so the limits stay as they are."
    workspace_rows.grant(tx, proposal.workspace, proposal.effect.limits)
    return f" The limits are {shown_limits(proposal.effect.limits)} now."
