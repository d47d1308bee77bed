"""How proposals are spoken of: their announcement, how they stand, how they ended."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agent_worker.core.clock import from_micros
from agent_worker.database.database import Transaction
from agent_worker.proposals import store
from agent_worker.proposals.store import Proposal, Role
from agent_worker.proposals.voting import missing, tally

ROLES: dict[Role, str] = {"document_owner": "owns the documents", "coordinator": "coordinates the team"}


def announcement(proposal: Proposal) -> str:
    rules = proposal.rules
    options = "\n".join(f"- {option}" for option in rules.options)
    until = from_micros(proposal.expires_at)
    return (
        f"[PROPOSAL] {proposal.number}: {proposal.question}\n{options}\n"
        f"{proposal.kind.capitalize()} by {rules.resolution}, {meaning(proposal)}. "
        f"Open until {until:%Y-%m-%d %H:%M} UTC. Voters: {', '.join(rules.voters)}; {rules.quorum} must vote.\n"
        f"To vote: team_vote(proposal={proposal.number}, choice={json.dumps(rules.options[0], ensure_ascii=False)}) "
        "or another option."
    )


def meaning(proposal: Proposal) -> str:
    effect = proposal.effect
    if not proposal.binding:
        return "advisory"
    if effect.role:
        return f"binding: whoever wins {ROLES[effect.role]}"
    if effect.limits:
        return f"binding: if approved, the limits are {shown_limits(effect.limits)}"
    return "binding: whoever wins gets the task" if proposal.kind == "assignment" else "binding"


def described(tx: Transaction, proposal: Proposal) -> str:
    """A proposal for a model: what is asked, how it stands, who has not voted."""
    if proposal.state != "open":
        return f"{proposal.number}: {proposal.question}\n{result(tx, proposal)}"
    votes = store.choices(tx, proposal.id)
    counts = ", ".join(f"{option} {count}" for option, count in tally(proposal.rules, votes).items())
    late = missing(proposal.rules, votes)
    waits = f"Not voted: {', '.join(late)}." if late else "It waits for the user, who may veto it."
    until = from_micros(proposal.expires_at)
    return (
        f"{proposal.number}: {proposal.question}\n{proposal.kind} by {proposal.rules.resolution}, {meaning(proposal)}, "
        f"open until {until:%Y-%m-%d %H:%M} UTC. Votes: {counts}. {waits}"
    )


def result(tx: Transaction, proposal: Proposal) -> str:
    """How it ended and with how many votes, in one sentence."""
    counts = tally(proposal.rules, store.choices(tx, proposal.id))
    votes = ", ".join(f"{option}: {count}" for option, count in counts.items() if count) or "no votes"
    return f"{ending(proposal)} ({votes})."


def ending(proposal: Proposal) -> str:
    reason = f": {proposal.reason}" if proposal.reason else ""
    match proposal.state:
        case "open":
            return "open"
        case "cancelled" | "vetoed":
            return f"{proposal.state}{reason}"
        case _ if not proposal.outcome:
            return f"nothing was decided{reason}"
        case _ if proposal.reason:
            return f"→ {proposal.outcome}, the fallback{reason}"
        case _:
            return f"→ {proposal.outcome}"


def shown_limits(limits: Mapping[str, float]) -> str:
    return ", ".join(f"{value:g} {'USD' if name == 'usd' else name}" for name, value in limits.items())
