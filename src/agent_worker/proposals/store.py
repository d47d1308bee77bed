"""Questions that a team votes on, as they are kept. The one writer of tables `proposal` and `vote`.

How votes are counted is in voting.py; what a proposal causes, from its announcement to its effect, is in
lifecycle.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Literal

from agent_worker.core.errors import NotFound
from agent_worker.core.ids import new_id
from agent_worker.core.later import dataclass
from agent_worker.database.database import Row, Transaction, WholeTransaction
from agent_worker.proposals.voting import Resolution, TieBreak, VotingRules

ProposalKind = Literal["election", "decision", "approval", "assignment"]
Role = Literal["document_owner", "coordinator"]
End = Literal["resolved", "expired", "cancelled", "vetoed"]

USER = "user"  # the person, as a voter


@dataclass(frozen=True, slots=True)
class Effect:
    """What a binding outcome changes, besides being known."""

    role: Role | None = None  #: what the winner of an election becomes
    limits: Mapping[str, float] = field(default_factory=dict)  #: of the instance, once approved: turns, usd
    then: Sequence[tuple[str, Sequence[tuple[int, int]]]] = ()  #: said by the person after its end: text, quoted spans


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question put to the vote. Never changes; a later look at the row is another value."""

    id: str
    project: str
    workspace: str
    number: int  #: in its workspace; what everybody calls it
    kind: ProposalKind
    question: str
    rules: VotingRules
    electorate: Mapping[str, str]  #: name → agent id, '' for the person; fixed when it was made
    fallback: str
    binding: bool
    veto: bool
    consented: bool
    effect: Effect
    message: str  #: id of its announcement
    root: str
    hop: int
    state: str  #: open | resolved | expired | cancelled | vetoed
    outcome: str  #: the option that takes effect; '' for none
    reason: str
    created_at: int
    expires_at: int
    ended_at: int | None

    @property
    def creator(self) -> str:
        return self.rules.creator

    @classmethod
    def of(cls, row: Row) -> Proposal:
        electorate: dict[str, str] = json.loads(row["electorate"])
        return cls(
            id=row["id"],
            project=row["project"],
            workspace=row["workspace"],
            number=row["n"],
            kind=row["kind"],
            question=row["question"],
            rules=VotingRules(
                options=tuple(json.loads(row["options"])),
                voters=tuple(electorate),
                quorum=row["quorum"],
                resolution=row["resolution"],
                tie_break=row["tie_break"],
                creator=row["creator"],
                seed=row["id"],
            ),
            electorate=electorate,
            fallback=row["fallback"],
            binding=bool(row["binding"]),
            veto=bool(row["veto"]),
            consented=bool(row["consented"]),
            effect=Effect(**json.loads(row["effect"])),
            message=row["message"],
            root=row["root"],
            hop=row["hop"],
            state=row["state"],
            outcome=row["outcome"],
            reason=row["reason"],
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            ended_at=row["ended_at"],
        )


@dataclass(frozen=True, slots=True)
class Vote:
    voter: str
    choice: str
    reason: str
    at: int


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A proposal before it has its number; everything in it has been checked."""

    workspace: str
    kind: ProposalKind
    question: str
    options: tuple[str, ...]
    electorate: Mapping[str, str]
    creator: str
    resolution: Resolution
    quorum: int
    tie_break: TieBreak
    fallback: str
    binding: bool
    veto: bool
    effect: Effect
    root: str
    hop: int
    expires_at: int


def add(tx: Transaction, draft: NewProposal, *, now: int) -> Proposal:
    row = tx.one(
        """insert into proposal(project, id, workspace, n, kind, question, options, electorate, resolution, quorum,
                                tie_break, fallback, binding, veto, effect, creator, root, hop, state, created_at,
                                expires_at)
           values (:project, :id, :workspace,
                   (select coalesce(max(n), 0) + 1 from proposal where project = :project and workspace = :workspace),
                   :kind, :text, :arguments, :electorate, :resolution, :quorum, :tie_break, :answer, :binding, :veto,
                   :effect, :creator, :root, :hop, 'open', :now, :expires_at)
           returning *""",
        id=new_id("v"),
        workspace=draft.workspace,
        kind=draft.kind,
        text=draft.question,
        arguments=json.dumps(draft.options),  # named so that secrets are taken out
        electorate=json.dumps(dict(draft.electorate)),
        resolution=draft.resolution,
        quorum=draft.quorum,
        tie_break=draft.tie_break,
        answer=draft.fallback,
        binding=int(draft.binding),
        veto=int(draft.veto),
        effect=json.dumps(asdict(draft.effect)),
        creator=draft.creator,
        root=draft.root,
        hop=draft.hop,
        now=now,
        expires_at=draft.expires_at,
    )
    assert row is not None
    return Proposal.of(row)


def announce(tx: Transaction, id: str, *, message: str, root: str) -> Proposal:
    """Note the message that announces a proposal; without another root, it is the root of all that comes of it."""
    row = tx.one(
        "update proposal set message = :message, root = :root where project = :project and id = :id returning *",
        id=id,
        message=message,
        root=root,
    )
    assert row is not None
    return Proposal.of(row)


def find(tx: Transaction, workspace: str, number: int) -> Proposal:
    row = tx.one(
        "select * from proposal where project = :project and workspace = :workspace and n = :n",
        workspace=workspace,
        n=number,
    )
    if row is None:
        known = ", ".join(str(each.number) for each in of_workspace(tx, workspace)) or "none yet"
        raise NotFound(f"there is no proposal {number} here", hint=f"proposals: {known}")
    return Proposal.of(row)


def get(tx: Transaction, id: str) -> Proposal:
    row = tx.one("select * from proposal where project = :project and id = :id", id=id)
    assert row is not None
    return Proposal.of(row)


def of_workspace(tx: Transaction, workspace: str) -> list[Proposal]:
    """All proposals of a workspace, also ended ones, the oldest first."""
    return [
        Proposal.of(row)
        for row in tx.all(
            "select * from proposal where project = :project and workspace = :workspace order by n", workspace=workspace
        )
    ]


def open_in(tx: Transaction, workspace: str) -> list[Proposal]:
    rows = tx.all(
        "select * from proposal where project = :project and workspace = :workspace and state = 'open' order by n",
        workspace=workspace,
    )
    return [Proposal.of(row) for row in rows]


def made_for(tx: Transaction, root: str) -> int:
    """How many proposals one request has led to."""
    row = tx.one("select count(*) as n from proposal where project = :project and root = :root", root=root)
    return int(row["n"]) if row else 0


def put_vote(tx: Transaction, proposal: Proposal, voter: str, choice: str, *, reason: str, now: int) -> None:
    """Store a vote. Each voter has one; a later vote replaces it."""
    tx.run(
        """insert into vote(project, proposal, workspace, voter, choice, reason, at)
           values (:project, :proposal, :workspace, :voter, :choice, :reason, :now)
           on conflict (project, proposal, voter) do update
              set choice = excluded.choice, reason = excluded.reason, at = excluded.at""",
        proposal=proposal.id,
        workspace=proposal.workspace,
        voter=voter,
        choice=choice,
        reason=reason,
        now=now,
    )


def votes(tx: Transaction, proposal: str) -> list[Vote]:
    rows = tx.all(
        "select * from vote where project = :project and proposal = :proposal order by at, voter", proposal=proposal
    )
    return [Vote(row["voter"], row["choice"], row["reason"], row["at"]) for row in rows]


def choices(tx: Transaction, proposal: str) -> dict[str, str]:
    """What each voter has chosen: voter → option."""
    return {vote.voter: vote.choice for vote in votes(tx, proposal)}


def consent(tx: Transaction, id: str) -> Proposal:
    """Note that the person, who may veto it, lets a proposal stand."""
    row = tx.one("update proposal set consented = 1 where project = :project and id = :id returning *", id=id)
    assert row is not None
    return Proposal.of(row)


def end(
    tx: Transaction, id: str, state: End, *, outcome: str = "", reason: str = "", recorded: bool, now: int
) -> Proposal:
    row = tx.one(
        """update proposal set state = :state, outcome = :outcome, reason = :reason, recorded = :recorded,
                               ended_at = :now
            where project = :project and id = :id and state = 'open' returning *""",
        id=id,
        state=state,
        outcome=outcome,
        reason=reason,
        recorded=int(recorded),
        now=now,
    )
    assert row is not None
    return Proposal.of(row)


def due(tx: WholeTransaction, *, now: int) -> list[Proposal]:
    """Open proposals of all projects whose time is up, in workspaces that run, oldest first."""
    rows = tx.all(
        """select p.* from proposal p join workspace w on w.project = p.project and w.id = p.workspace
            where p.state = 'open' and p.expires_at <= :now and w.state = 'running' order by p.expires_at, p.id""",
        now=now,
    )
    return [Proposal.of(row) for row in rows]


def first_due(tx: WholeTransaction) -> int | None:
    row = tx.one(
        """select min(p.expires_at) as at
             from proposal p join workspace w on w.project = p.project and w.id = p.workspace
            where p.state = 'open' and w.state = 'running'"""
    )
    return row["at"] if row else None


def unrecorded(tx: Transaction, workspace: str | None = None) -> list[Proposal]:
    """The proposals that ended and are not in decisions.md yet, of one workspace or of all that run, oldest first."""
    rows = tx.all(
        """select p.* from proposal p join workspace w on w.project = :project and w.id = p.workspace
            where p.project = :project and p.recorded = 0 and p.state <> 'open'
              and (w.id = :workspace or cast(:workspace as text) is null and w.state = 'running')
            order by p.ended_at, p.n""",
        workspace=workspace,
    )
    return [Proposal.of(row) for row in rows]


def mark_recorded(tx: Transaction, id: str) -> None:
    tx.run("update proposal set recorded = 1 where project = :project and id = :id", id=id)


def ended_since(tx: Transaction, workspace: str, at: int) -> list[Proposal]:
    rows = tx.all(
        """select * from proposal
            where project = :project and workspace = :workspace and ended_at >= :at order by ended_at, n""",
        workspace=workspace,
        at=at,
    )
    return [Proposal.of(row) for row in rows]


TAKEN_BACK = "(taken back)"


def announced_by(tx: Transaction, workspace: str, message: str) -> Proposal | None:
    row = tx.one(
        "select * from proposal where project = :project and workspace = :workspace and message = :message",
        workspace=workspace,
        message=message,
    )
    return Proposal.of(row) if row else None


def hold_back(tx: Transaction, id: str) -> None:
    """Hide the words of a proposal that a person took back; the message that announced it keeps them, for people."""
    tx.run(
        "update proposal set question = :words, reason = '' where project = :project and id = :id",
        words=TAKEN_BACK,
        id=id,
    )


def hold_back_reasons(tx: Transaction, workspace: str, agent: str, *, since: int) -> None:
    """Hide what a member said about its votes from a time on. The votes count."""
    tx.run(
        """update vote set reason = ''
            where project = :project and workspace = :workspace and at >= :since and voter = (
             select m.name from member m
             where m.project = :project and m.workspace = :workspace and m.agent = :agent)""",
        workspace=workspace,
        agent=agent,
        since=since,
    )


def hold_back_reason(tx: Transaction, workspace: str, number: int) -> None:
    """Hide why its creator cancelled a proposal; that it was cancelled stays."""
    tx.run(
        "update proposal set reason = :words where project = :project and workspace = :workspace and n = :number",
        words=TAKEN_BACK,
        workspace=workspace,
        number=number,
    )


def forget_workspace(tx: Transaction, workspace: str) -> None:
    tx.run(
        """delete from vote where project = :project and proposal in (
             select id from proposal where project = :project and workspace = :workspace)""",
        workspace=workspace,
    )
    tx.run("delete from proposal where project = :project and workspace = :workspace", workspace=workspace)
