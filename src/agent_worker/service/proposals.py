"""Proposals of a workspace, for people: what is put to the vote, how it stands, and their own word in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agent_worker.core.later import dataclass
from agent_worker.core.signature import Flat
from agent_worker.database.database import Transaction
from agent_worker.proposals import lifecycle, store, wording
from agent_worker.proposals.request import PERSON, ProposalRequest
from agent_worker.proposals.store import Proposal, Vote
from agent_worker.proposals.voting import missing, tally
from agent_worker.service.operation import operation
from agent_worker.service.service import Service
from agent_worker.workspaces import workspace_rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposal as it stands."""

    number: int
    state: str  #: open | resolved | expired | cancelled | vetoed
    kind: str
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
async def proposals_list(
    service: Service, at: str, open: bool = False, project: str | None = None
) -> list[ProposalView]:
    """The proposals of a workspace, the oldest first; with `open`, only those that can be voted on."""
    found = await _in_workspace(service, at, project, _all)
    return [each for each in found if each.state == "open" or not open]


@operation("POST", "/proposals")
async def proposal_create(
    service: Service, at: str, request: Flat[ProposalRequest], project: str | None = None
) -> ProposalView:
    """Have a team vote on a question. All members vote unless you name the voters; `user` is you."""

    def make(tx: Transaction, workspace: str) -> Proposal:
        return lifecycle.propose(tx, workspace_rows.get(tx, workspace), request, by=PERSON, now=service.now())

    return await _change(service, at, project, make)


@operation("GET", "/proposals/{number}")
async def proposal_show(service: Service, at: str, number: int, project: str | None = None) -> ProposalView:
    """One proposal with its votes."""
    return await _in_workspace(service, at, project, lambda tx, workspace: _view(tx, store.find(tx, workspace, number)))


@operation("POST", "/proposals/{number}/votes")
async def proposal_vote(
    service: Service, at: str, number: int, choice: str, reason: str = "", project: str | None = None
) -> ProposalView:
    """Your vote; a later one replaces it."""
    return await _change(
        service,
        at,
        project,
        lambda tx, workspace: lifecycle.cast(
            tx, workspace, number, choice, by=PERSON, reason=reason, now=service.now()
        ),
    )


@operation("POST", "/proposals/{number}/approval")
async def proposal_approve(service: Service, at: str, number: int, project: str | None = None) -> ProposalView:
    """Let the outcome of a proposal that you may veto stand."""
    return await _change(
        service, at, project, lambda tx, workspace: lifecycle.consent(tx, workspace, number, now=service.now())
    )


@operation("POST", "/proposals/{number}/veto")
async def proposal_veto(
    service: Service, at: str, number: int, reason: str = "", project: str | None = None
) -> ProposalView:
    """Veto a proposal that gives you a veto."""
    return await _change(
        service,
        at,
        project,
        lambda tx, workspace: lifecycle.veto(tx, workspace, number, reason=reason, now=service.now()),
    )


@operation("DELETE", "/proposals/{number}")
async def proposal_cancel(
    service: Service, at: str, number: int, reason: str = "", project: str | None = None
) -> ProposalView:
    """Take a proposal back, whoever made it."""
    return await _change(
        service,
        at,
        project,
        lambda tx, workspace: lifecycle.cancel(tx, workspace, number, by=PERSON, reason=reason, now=service.now()),
    )


async def _in_workspace(service: Service, at: str, project: str | None, look: Callable[[Transaction, str], T]) -> T:
    loaded = await service.project(project)
    name = await service.workspace_name(loaded, at)

    def find(tx: Transaction) -> T:
        return look(tx, workspace_rows.find(tx, name)["id"])

    return await service.read(loaded, find)


async def _change(
    service: Service, at: str, project: str | None, change: Callable[[Transaction, str], Proposal]
) -> ProposalView:
    loaded = await service.project(project)
    name = await service.workspace_name(loaded, at)

    def make(tx: Transaction) -> ProposalView:
        workspace = workspace_rows.find_running(tx, name)
        return _view(tx, change(tx, workspace["id"]))

    return await service.write(loaded, make)


def _all(tx: Transaction, workspace: str) -> list[ProposalView]:
    return [_view(tx, each) for each in store.of_workspace(tx, workspace)]


def _view(tx: Transaction, proposal: Proposal) -> ProposalView:
    votes, rules = store.choices(tx, proposal.id), proposal.rules
    return ProposalView(
        number=proposal.number,
        state=proposal.state,
        kind=proposal.kind,
        question=proposal.question,
        creator=proposal.creator,
        tally=tally(rules, votes),
        votes=store.votes(tx, proposal.id),
        missing=missing(rules, votes),
        outcome=proposal.outcome,
        result=wording.ending(proposal),
        resolution=rules.resolution,
        quorum=rules.quorum,
        tie_break=rules.tie_break,
        fallback=proposal.fallback,
        binding=proposal.binding,
        veto=proposal.veto,
        meaning=wording.meaning(proposal),
        created_at=proposal.created_at,
        expires_at=proposal.expires_at,
        ended_at=proposal.ended_at,
    )
