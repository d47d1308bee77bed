"""A proposal as somebody asks for it, and everything they may get wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent_worker.core.address import canonical
from agent_worker.core.errors import BadInput, Refused
from agent_worker.core.later import dataclass
from agent_worker.core.text import one, plural
from agent_worker.database.database import Row
from agent_worker.proposals.store import USER, Effect, NewProposal, ProposalKind, Role
from agent_worker.proposals.voting import Resolution, TieBreak
from agent_worker.workspaces import routing

QUESTION = 1000  # characters
OPTION = 100
OPTIONS = routing.RECIPIENTS
MINUTES = 10.0
LONGEST = 7 * 24 * 60.0  # minutes

APPROVE, REJECT = "approve", "reject"
_RESOLUTIONS: dict[ProposalKind, Resolution] = {
    "election": "plurality",
    "assignment": "plurality",
    "decision": "majority",
    "approval": "majority",
}


@dataclass(frozen=True, slots=True)
class Voter:
    """Who acts on a proposal: a member with the id of its agent, or the person."""

    name: str
    agent: str = ""


PERSON = Voter(USER)


@dataclass(frozen=True, slots=True)
class ProposalRequest:
    """A proposal as somebody asks for it. What is None is chosen by its kind.

    Its fields are the arguments of the tool, of the operation and of `POST /proposals`.
    """

    question: str
    options: Sequence[str] | None = None
    kind: ProposalKind = "decision"
    vote: str | None = None  #: of who asks
    voters: Sequence[str] | None = None  #: names; default: all members
    resolution: Resolution | None = None
    quorum: int | None = None  #: default: all voters
    tie_break: TieBreak = "first"
    minutes: float = MINUTES
    fallback: str | None = None
    binding: bool = True
    veto: bool = False
    role: Role | None = None
    turns: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """What a proposal descends from. Nothing: it is a root of its own."""

    root: str = ""
    hop: int = 0
    run: str | None = None


Said = Sequence[tuple[str, Sequence[tuple[int, int]]]]


def checked(
    workspace: Row,
    members: Mapping[str, str],
    request: ProposalRequest,
    *,
    by: Voter,
    cause: Cause,
    then: Said,
    now: int,
) -> NewProposal:
    """The proposal that a request asks for. Raises an error for everything somebody may get wrong."""
    question = _question(request.question)
    options = _options(request, members)
    electorate = _electorate(request, members, by=by)
    limits = _limits(request)
    quorum = len(electorate) if request.quorum is None else request.quorum
    if not 1 <= quorum <= len(electorate):
        raise BadInput(
            f"the quorum of {plural(len(electorate), 'voter')} is between 1 and {len(electorate)}, not {quorum}"
        )
    if not (math.isfinite(request.minutes) and 0 < request.minutes <= LONGEST):
        raise BadInput(f"a proposal is open for more than 0 and at most {LONGEST:.0f} minutes (7 days)")
    if request.role and request.binding and by.agent:
        _check_power(request, members, electorate, quorum)
    if request.role == "document_owner" and not may_name_owner(workspace, by):
        raise Refused(
            f"the workflow names {workspace['document_owner']} as owner of the documents: no vote changes that"
        )
    return NewProposal(
        workspace=workspace["id"],
        kind=request.kind,
        question=question,
        options=options,
        electorate=electorate,
        creator=by.name,
        resolution=request.resolution or _RESOLUTIONS[request.kind],
        quorum=quorum,
        tie_break=request.tie_break,
        fallback=option_named(options, request.fallback) if request.fallback else "",
        binding=request.binding,
        veto=request.veto,
        effect=Effect(request.role, limits, then),
        root=cause.root,
        hop=cause.hop,
        expires_at=now + round(request.minutes * 60e6),
    )


def _question(text: str) -> str:
    text = text.strip()
    routing.check_size(text)
    if len(text) > QUESTION:
        raise BadInput(
            f"a question has at most {QUESTION} characters; this has {len(text)}",
            hint="put the details into a document or a resource",
        )
    return text


def _options(request: ProposalRequest, members: Mapping[str, str]) -> tuple[str, ...]:
    about_members = request.kind == "assignment" or request.role is not None
    if request.role is not None and request.kind != "election":
        raise BadInput(f"a role is given by an election, not by {one(request.kind)}")
    if request.kind == "approval":
        if request.options:
            raise BadInput(f"an approval has the options {APPROVE} and {REJECT}", hint="leave options out")
        return APPROVE, REJECT
    given = request.options or (("yes", "no") if request.kind == "decision" else tuple(members))
    options = tuple(_one_option(each, members if about_members else None) for each in given)
    if not 2 <= len(options) <= OPTIONS:
        raise BadInput(f"a proposal has 2 to {OPTIONS} options; this has {len(options)}")
    if len({option.lower() for option in options}) < len(options):
        raise BadInput("an option is listed twice")
    return options


def _one_option(text: str, members: Mapping[str, str] | None) -> str:
    option = text.strip()
    if not option or len(option) > OPTION or not option.isprintable():
        raise BadInput(f"an option is one line of 1 to {OPTION} characters, not {text[:50]!r}")
    if members is None:
        return option
    member = canonical(option.removeprefix("@"), members)
    if member is None:
        raise BadInput(f"{option} is not a member", hint=f"members: {', '.join(members)}")
    return member


def _electorate(request: ProposalRequest, members: Mapping[str, str], *, by: Voter) -> dict[str, str]:
    everybody = {**members, USER: ""}
    electorate: dict[str, str] = {}
    for given in _default_voters(request, members, by=by) if request.voters is None else request.voters:
        name = canonical(given.removeprefix("@"), everybody)
        if name is None:
            raise BadInput(f"{given} cannot vote here", hint=f"voters: {', '.join(everybody)}")
        electorate[name] = everybody[name]
    if not electorate:
        raise BadInput("a proposal needs voters")
    if _limits(request) and by != PERSON and USER not in electorate:
        raise BadInput(
            "only the user can raise a limit: without their vote it stays as it is", hint="add user to voters"
        )
    return electorate


def _default_voters(request: ProposalRequest, members: Mapping[str, str], *, by: Voter) -> list[str]:
    return [*members, USER] if _limits(request) and by != PERSON else list(members)


def _check_power(
    request: ProposalRequest, members: Mapping[str, str], electorate: Mapping[str, str], quorum: int
) -> None:
    """A role gives rights over the others: no agent takes it without them, be it by who votes or by who is late."""
    if request.fallback:
        raise BadInput("only votes can give a role", hint="leave fallback out")
    if set(electorate) == {USER}:
        return
    if left_out := [name for name in members if name not in electorate]:
        raise BadInput(
            f"everybody votes on a role: {', '.join(left_out)} must be among the voters", hint="leave voters out"
        )
    if 2 * quorum <= len(electorate):
        raise BadInput(f"for a role, more than half must vote: the quorum is at least {len(electorate) // 2 + 1}")


def _limits(request: ProposalRequest) -> dict[str, float]:
    limits = {name: value for name, value in (("turns", request.turns), ("usd", request.usd)) if value is not None}
    if limits and request.kind != "approval":
        raise BadInput(f"limits are set by an approval, not by {one(request.kind)}")
    if any(not math.isfinite(value) or value <= 0 for value in limits.values()):
        raise BadInput("a limit must be more than 0")
    return limits


def may_name_owner(workspace: Row, by: Voter) -> bool:
    return by == PERSON or not workspace["owner_named"]


def option_named(options: Sequence[str], choice: str) -> str:
    wanted = choice.strip().removeprefix("@").lower()
    found = next((option for option in options if option.lower() in (wanted, choice.strip().lower())), None)
    if found is None:
        raise BadInput(f"{choice[:OPTION]!r} is not an option", hint=f"options: {', '.join(options)}")
    return found
