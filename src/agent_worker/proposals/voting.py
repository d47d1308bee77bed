"""How votes are counted: pure functions from rules and votes to an outcome. Knows no rows, no clock, no people.

`outcome` is what comes of the votes if nobody votes any more; `certain` is that outcome once no vote that is still
missing can change it. A vote that was cast may be replaced, but it is not waited for.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Literal

from agent_worker.core.later import dataclass

Resolution = Literal["plurality", "majority", "unanimous"]
TieBreak = Literal["first", "random", "creator"]

Votes = Mapping[str, str]  # voter → option


@dataclass(frozen=True, slots=True)
class VotingRules:
    """How a proposal is voted on: fixed when it is made."""

    options: tuple[str, ...]
    voters: tuple[str, ...]
    quorum: int  #: so many must have voted
    resolution: Resolution = "plurality"
    tie_break: TieBreak = "first"
    creator: str = ""
    seed: str = ""  #: of the random tie-break: the same proposal is always decided the same way


@dataclass(frozen=True, slots=True)
class Won:
    option: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """The outcome when no option has the votes it needs."""

    reason: str = ""


Outcome = Won | Nothing


def tally(rules: VotingRules, votes: Votes) -> dict[str, int]:
    """Votes by option, in the order of the options. Whoever is not a voter does not count."""
    cast = _cast(rules, votes)
    return {option: sum(choice == option for choice in cast.values()) for option in rules.options}


def missing(rules: VotingRules, votes: Votes) -> list[str]:
    return [voter for voter in rules.voters if voter not in votes]


def outcome(rules: VotingRules, votes: Votes) -> Outcome:
    """What comes of it if nobody votes any more."""
    counts, cast = tally(rules, votes), len(_cast(rules, votes))
    if not cast or cast < rules.quorum:
        return Nothing(f"{cast} of {len(rules.voters)} voted, {rules.quorum} are needed")
    best = max(counts.values())
    match rules.resolution:
        case "plurality":
            tied = [option for option in _by_priority(rules, votes) if counts[option] == best]
            return Won(tied[0])
        case "majority" if 2 * best > cast:
            return Won(_with(counts, best))
        case "unanimous" if best == cast:
            return Won(_with(counts, best))
        case "majority":
            return Nothing("no option has more than half of the votes")
        case "unanimous":
            return Nothing("the votes are not unanimous")


def certain(rules: VotingRules, votes: Votes) -> Outcome | None:
    """The outcome, once no missing vote can change it; None as long as one can."""
    left = len(missing(rules, votes))
    now = outcome(rules, votes)
    if left == 0:
        return now
    if isinstance(now, Won):
        return now if _is_safe(rules, votes, now.option, left) else None
    return None if _can_be_won(rules, votes, left) else outcome(_without_quorum(rules), votes)


def _is_safe(rules: VotingRules, votes: Votes, leader: str, left: int) -> bool:
    """Whether the leader wins whoever else votes, and however many of them do."""
    counts = tally(rules, votes)
    match rules.resolution:
        case "plurality":
            rivals = [option for option in rules.options if option != leader]
            if any(counts[rival] + left > counts[leader] for rival in rivals):
                return False
            ties = [rival for rival in rivals if counts[rival] + left == counts[leader]]
            return all(_beats(rules, votes, leader, rival) for rival in ties)
        case "majority":
            return 2 * counts[leader] > sum(counts.values()) + left
        case "unanimous":
            return False


def _can_be_won(rules: VotingRules, votes: Votes, left: int) -> bool:
    """Whether the missing votes can still make a winner."""
    counts = tally(rules, votes)
    cast, best = sum(counts.values()), max(counts.values())
    match rules.resolution:
        case "plurality":
            return True
        case "majority":
            return 2 * (best + left) > cast + left
        case "unanimous":
            return best == cast


def _beats(rules: VotingRules, votes: Votes, leader: str, rival: str) -> bool:
    """Whether the leader would win a tie that all the missing votes together have made."""
    if rules.tie_break == "creator" and rules.creator in missing(rules, votes):
        return False  # the creator's is among them
    order = _by_priority(rules, votes)
    return order.index(leader) < order.index(rival)


def _by_priority(rules: VotingRules, votes: Votes) -> list[str]:
    """The options, the one that wins every tie first."""
    options = list(rules.options)
    match rules.tie_break:
        case "first":
            return options
        case "random":
            return random.Random(rules.seed).sample(options, len(options))
        case "creator":
            chosen = _cast(rules, votes).get(rules.creator)
            return sorted(options, key=lambda option: option != chosen)


def _without_quorum(rules: VotingRules) -> VotingRules:
    """The rules with a quorum of 0: an outcome that is out of reach stays so whoever still votes."""
    return VotingRules(rules.options, rules.voters, 0, rules.resolution, rules.tie_break, rules.creator, rules.seed)


def _cast(rules: VotingRules, votes: Votes) -> dict[str, str]:
    return {voter: votes[voter] for voter in rules.voters if votes.get(voter) in rules.options}


def _with(counts: Mapping[str, int], count: int) -> str:
    return next(option for option, votes in counts.items() if votes == count)
