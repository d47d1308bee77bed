"""How proposals end: with an outcome, by time, by whoever may stop them. The end and all that follows is one change."""

from __future__ import annotations

from agent_worker.core.events import Decided, Ended
from agent_worker.database.database import Transaction
from agent_worker.proposals import minutes, store
from agent_worker.proposals.effects import take_effect
from agent_worker.proposals.request import Voter
from agent_worker.proposals.store import USER, End, Proposal
from agent_worker.proposals.voting import Outcome, Won, certain, outcome
from agent_worker.proposals.wording import result
from agent_worker.work import inbox, queue
from agent_worker.workspaces import deliveries, routing, workspace_rows

SYSTEM = "system"


def expire(tx: Transaction, id: str, *, now: int) -> None:
    """Its time is up: what the votes say counts if the quorum is met, else the fallback."""
    proposal = store.get(tx, id)
    running = workspace_rows.get(tx, proposal.workspace)["state"] == "running"
    if running and proposal.state == "open" and proposal.expires_at <= now:
        _close_vote(tx, proposal, outcome(proposal.rules, store.choices(tx, id)), "expired", now=now)


def cancel_all(tx: Transaction, workspace: str, reason: str, *, now: int) -> None:
    """The workspace closes: nobody will vote any more, and nothing follows."""
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
    """`otherwise` is how it ends when no option was chosen."""
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
    """Do not wake it for a vote that is not needed any more."""
    if not voter.agent:
        return
    for row in queue.queued_for(tx, voter.agent, proposal.message):
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
    """Everybody reads it; the asker, who waits for it, is called on unless it knows."""
    asker = proposal.creator
    knows = asker == by.name or asker not in workspace_rows.members_in(tx, proposal.workspace)
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
    """What waited for the end of it, whatever that was: the kickoff of a team that elects first."""
    for text, quoted in proposal.effect.then:
        spans = [(start, end) for start, end in quoted]
        routing.say(
            tx, routing.OutgoingMessage(workspace=proposal.workspace, sender=USER, text=text, quoted=spans), now=now
        )
