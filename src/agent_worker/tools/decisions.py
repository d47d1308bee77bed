"""Tools to decide together. Who votes is the one who calls; no argument says otherwise."""

from __future__ import annotations

from agent_worker import instructions
from agent_worker.clock import micros
from agent_worker.decisions import deciding, words
from agent_worker.decisions.wish import MINUTES, Cause, Voter, Wish
from agent_worker.storage.database import Transaction
from agent_worker.tools.tool import Desk, tool
from agent_worker.workspaces import proposals, workspace
from agent_worker.workspaces.proposals import Proposal, Role, Type
from agent_worker.workspaces.voting import Resolution, TieBreak


@tool
def team_proposal_create(
    tx: Transaction,
    desk: Desk,
    question: str,
    options: list[str] | None = None,
    type: Type = "decision",
    vote: str | None = None,
    voters: list[str] | None = None,
    resolution: Resolution | None = None,
    quorum: int | None = None,
    tie_break: TieBreak = "first",
    minutes: float = MINUTES,
    fallback: str | None = None,
    binding: bool = True,
    veto: bool = False,
    role: Role | None = None,
    turns: int | None = None,
    usd: float | None = None,
) -> str:
    """Put a question to the vote. Every voter is called on, and you are told when it is decided; do not wait for it.

    `vote` is your own vote. Types: `decision` (default yes/no), `election` (of a member; `role` makes the winner
    document_owner or coordinator, and everybody votes), `assignment` (the winner gets the question as a task),
    `approval` (approve/reject; with `turns` or `usd` it sets the team's limits, for which the user must vote too).
    Voters: all members unless named, `user` is the person. `resolution`: plurality, majority (over half of the votes)
    or unanimous. `fallback` is the option that takes effect when none is chosen in time. With `veto` the outcome waits
    for the user.
    """
    seat = desk.seat
    assert seat.workspace
    wish = Wish(
        question=question,
        type=type,
        options=options,
        voters=voters,
        resolution=resolution,
        quorum=quorum,
        tie_break=tie_break,
        minutes=minutes,
        fallback=fallback,
        binding=binding,
        veto=veto,
        role=role,
        turns=turns,
        usd=usd,
    )
    made = deciding.propose(
        tx,
        workspace.get(tx, seat.workspace),
        wish,
        by=_me(desk),
        cause=Cause(seat.root, seat.hop + 1, seat.run),
        vote=vote,
        now=micros(desk.clock.now()),
    )
    instructions.note_produced(tx, seat.run)
    return f"Proposal {made.number} was made. {_stands(tx, desk, made)}"


@tool
def team_vote(tx: Transaction, desk: Desk, proposal: int, choice: str, reason: str = "") -> str:
    """Vote on a proposal, by its number. `choice` is one of its options. Voting again replaces your vote."""
    assert desk.seat.workspace
    now = micros(desk.clock.now())
    voted = deciding.cast(tx, desk.seat.workspace, proposal, choice, by=_me(desk), reason=reason, now=now)
    instructions.note_produced(tx, desk.seat.run)
    return f"Your vote counts. {_stands(tx, desk, voted)}"


@tool
def team_proposal_status(tx: Transaction, desk: Desk, proposal: int | None = None) -> str:
    """How a proposal stands or how it ended; without a number, all that are open."""
    assert desk.seat.workspace
    if proposal is not None:
        return words.described(tx, proposals.find(tx, desk.seat.workspace, proposal))
    found = proposals.open_in(tx, desk.seat.workspace)
    return "\n\n".join(words.described(tx, each) for each in found) or "No proposal is open."


@tool
def team_proposal_cancel(tx: Transaction, desk: Desk, proposal: int, reason: str = "") -> str:
    """Take back a proposal that you made and that is not decided yet."""
    assert desk.seat.workspace
    now = micros(desk.clock.now())
    deciding.cancel(tx, desk.seat.workspace, proposal, by=_me(desk), reason=reason, now=now)
    instructions.note_produced(tx, desk.seat.run)
    return f"Proposal {proposal} is cancelled."


def _me(desk: Desk) -> Voter:
    return Voter(desk.seat.name, desk.seat.agent)


def _stands(tx: Transaction, desk: Desk, proposal: Proposal) -> str:
    if proposal.state != "open":
        return f"It is decided: {words.result(tx, proposal)}"
    mine = desk.seat.name in proposal.electorate and desk.seat.name not in proposals.choices(tx, proposal.id)
    return f"{words.described(tx, proposal)}{' You have a vote, too: team_vote.' if mine else ''}"
