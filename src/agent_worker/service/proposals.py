"""Proposals of a workspace, for people: what is put to the vote, how it stands, and their own word in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from agent_worker.decisions import deciding, words
from agent_worker.decisions.wish import MINUTES, PERSON, Wish
from agent_worker.service.office import Office
from agent_worker.service.operation import operation
from agent_worker.storage.database import Transaction
from agent_worker.workspaces import proposals, workspace
from agent_worker.workspaces.proposals import Proposal, Role, Type, Vote
from agent_worker.workspaces.voting import Resolution, TieBreak, missing, tally

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Motion:
    """A proposal as it stands."""

    number: int
    state: str  #: open | resolved | expired | cancelled | vetoed
    type: str
    question: str
    creator: str
    tally: dict[str, int]  #: votes by option
    votes: list[Vote]
    missing: list[str]  #: who has not voted
    outcome: str  #: the option that takes effect; '' for none
    result: str  #: how it ended, as a sentence
    resolution: str
    quorum: int
    tie_break: str
    fallback: str
    binding: bool
    veto: bool
    meaning: str  #: what a binding outcome changes
    created_at: int
    expires_at: int
    ended_at: int | None


@operation("GET", "/proposals")
async def proposals_list(office: Office, at: str, open: bool = False, project: str | None = None) -> list[Motion]:
    """The proposals of a workspace, the oldest first; with `open`, only those that can be voted on."""
    found = await _in_room(office, at, project, _all)
    return [each for each in found if each.state == "open" or not open]


@operation("POST", "/proposals")
async def proposal_create(
    office: Office,
    at: str,
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
    project: str | None = None,
) -> Motion:
    """Put a question to the vote. Voters are all members unless named; `user` is you."""
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

    def make(tx: Transaction, room: str) -> Proposal:
        return deciding.propose(tx, workspace.get(tx, room), wish, by=PERSON, vote=vote, now=office.now())

    return await _change(office, at, project, make)


@operation("GET", "/proposals/{number}")
async def proposal_show(office: Office, at: str, number: int, project: str | None = None) -> Motion:
    """One proposal with its votes."""
    return await _in_room(office, at, project, lambda tx, room: _motion(tx, proposals.find(tx, room, number)))


@operation("POST", "/proposals/{number}/votes")
async def proposal_vote(
    office: Office, at: str, number: int, choice: str, reason: str = "", project: str | None = None
) -> Motion:
    """Your vote; a later one replaces it."""
    return await _change(
        office,
        at,
        project,
        lambda tx, room: deciding.cast(tx, room, number, choice, by=PERSON, reason=reason, now=office.now()),
    )


@operation("POST", "/proposals/{number}/approval")
async def proposal_approve(office: Office, at: str, number: int, project: str | None = None) -> Motion:
    """Let the outcome of a proposal stand that you may veto."""
    return await _change(office, at, project, lambda tx, room: deciding.consent(tx, room, number, now=office.now()))


@operation("POST", "/proposals/{number}/veto")
async def proposal_veto(office: Office, at: str, number: int, reason: str = "", project: str | None = None) -> Motion:
    """Stop a proposal that gives you a veto."""
    return await _change(
        office, at, project, lambda tx, room: deciding.veto(tx, room, number, reason=reason, now=office.now())
    )


@operation("DELETE", "/proposals/{number}")
async def proposal_cancel(office: Office, at: str, number: int, reason: str = "", project: str | None = None) -> Motion:
    """Take a proposal back, whoever made it."""
    return await _change(
        office,
        at,
        project,
        lambda tx, room: deciding.cancel(tx, room, number, by=PERSON, reason=reason, now=office.now()),
    )


async def _in_room(office: Office, at: str, project: str | None, look: Callable[[Transaction, str], T]) -> T:
    admitted = await office.project(project)
    workflow, _, tag = at.removeprefix("@").partition(":")

    def find(tx: Transaction) -> T:
        return look(tx, workspace.find(tx, project=admitted.id, workflow=workflow, tag=tag or "main")["id"])

    return await office.stage.database.read(find)


async def _change(
    office: Office, at: str, project: str | None, change: Callable[[Transaction, str], Proposal]
) -> Motion:
    admitted = await office.project(project)
    workflow, _, tag = at.removeprefix("@").partition(":")

    def make(tx: Transaction) -> Motion:
        room = workspace.find_running(tx, project=admitted.id, workflow=workflow, tag=tag or "main")
        return _motion(tx, change(tx, room["id"]))

    return await office.stage.database.write(make)


def _all(tx: Transaction, room: str) -> list[Motion]:
    return [_motion(tx, each) for each in proposals.of_room(tx, room)]


def _motion(tx: Transaction, proposal: Proposal) -> Motion:
    votes, rules = proposals.choices(tx, proposal.id), proposal.rules
    return Motion(
        number=proposal.number,
        state=proposal.state,
        type=proposal.type,
        question=proposal.question,
        creator=proposal.creator,
        tally=tally(rules, votes),
        votes=proposals.votes(tx, proposal.id),
        missing=missing(rules, votes),
        outcome=proposal.outcome,
        result=words.ending(proposal),
        resolution=rules.resolution,
        quorum=rules.quorum,
        tie_break=rules.tie_break,
        fallback=proposal.fallback,
        binding=proposal.binding,
        veto=proposal.veto,
        meaning=words.meaning(proposal),
        created_at=proposal.created_at,
        expires_at=proposal.expires_at,
        ended_at=proposal.ended_at,
    )
