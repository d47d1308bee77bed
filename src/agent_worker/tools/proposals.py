"""Tools to decide together. Who votes is the one who calls; no argument says otherwise."""

from __future__ import annotations

from agent_worker.core.signature import Flat
from agent_worker.database.database import Transaction
from agent_worker.proposals import lifecycle, store, wording
from agent_worker.proposals.request import Cause, ProposalRequest, Voter
from agent_worker.proposals.store import Proposal
from agent_worker.tools.tool import ToolContext, tool
from agent_worker.work import run_rows
from agent_worker.workspaces import workspace_rows


@tool
def team_proposal_create(tx: Transaction, context: ToolContext, request: Flat[ProposalRequest]) -> str:
    """Put a question to the vote. Every voter is called on, and you are told when it is decided; do not wait for it.

    `vote` is your own vote. Kinds: `decision` (default yes/no), `election` (of a member; `role` makes the winner
    document_owner or coordinator, and everybody votes), `assignment` (the winner gets the question as a task),
    `approval` (approve/reject; with `turns` or `usd` it sets the team's limits, for which the user must vote too).
    Voters: all members unless named, `user` is the person. `resolution`: plurality, majority (over half of the votes)
    or unanimous. `fallback` is the option that takes effect when none is chosen in time. With `veto` the outcome waits
    for the user.
    """
    identity = context.identity
    assert identity.workspace
    made = lifecycle.propose(
        tx,
        workspace_rows.get(tx, identity.workspace),
        request,
        by=_me(context),
        cause=Cause(identity.root, identity.hop + 1, identity.run),
        now=context.clock.micros(),
    )
    run_rows.note_produced(tx, identity.run)
    return f"Proposal {made.number} was made. {_stands(tx, context, made)}"


@tool
def team_vote(tx: Transaction, context: ToolContext, proposal: int, choice: str, reason: str = "") -> str:
    """Vote on a proposal, by its number. `choice` is one of its options. Voting again replaces your vote."""
    assert context.identity.workspace
    now = context.clock.micros()
    voted = lifecycle.cast(tx, context.identity.workspace, proposal, choice, by=_me(context), reason=reason, now=now)
    run_rows.note_produced(tx, context.identity.run)
    return f"Your vote counts. {_stands(tx, context, voted)}"


@tool
def team_proposal_status(tx: Transaction, context: ToolContext, proposal: int | None = None) -> str:
    """How a proposal stands or how it ended; without a number, all that are open."""
    assert context.identity.workspace
    if proposal is not None:
        return wording.described(tx, store.find(tx, context.identity.workspace, proposal))
    found = store.open_in(tx, context.identity.workspace)
    return "\n\n".join(wording.described(tx, each) for each in found) or "No proposal is open."


@tool
def team_proposal_cancel(tx: Transaction, context: ToolContext, proposal: int, reason: str = "") -> str:
    """Take back a proposal that you made and that is not decided yet."""
    assert context.identity.workspace
    now = context.clock.micros()
    lifecycle.cancel(tx, context.identity.workspace, proposal, by=_me(context), reason=reason, now=now)
    run_rows.note_produced(tx, context.identity.run)
    return f"Proposal {proposal} is cancelled."


def _me(context: ToolContext) -> Voter:
    return Voter(context.identity.name, context.identity.agent)


def _stands(tx: Transaction, context: ToolContext, proposal: Proposal) -> str:
    if proposal.state != "open":
        return f"It is decided: {wording.result(tx, proposal)}"
    mine = context.identity.name in proposal.electorate and context.identity.name not in store.choices(tx, proposal.id)
    return f"{wording.described(tx, proposal)}{' You have a vote, too: team_vote.' if mine else ''}"
