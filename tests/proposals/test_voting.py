"""How votes are counted. Whatever the rules, `certain` says neither too little nor too much."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.report import few

from agent_worker.proposals.voting import Nothing, Outcome, Votes, VotingRules, Won, certain, missing, outcome, tally

OPTIONS = ("tree", "hash", "list")
VOTERS = ("alice", "bob", "carol", "dave")


def every_rule() -> Iterator[VotingRules]:
    """But for the seed, and the simplest first."""
    for count, many in itertools.product(range(1, 5), (2, 3)):
        options, voters = OPTIONS[:many], VOTERS[:count]
        others = (range(1, count + 1), ("plurality", "majority", "unanimous"), ("first", "random", "creator"))
        for quorum, resolution, tie_break, creator in itertools.product(*others, (*voters, "user")):
            yield VotingRules(options, voters, quorum, resolution, tie_break, creator, seed="")  # type: ignore[arg-type]


@cache
def every_vote(options: tuple[str, ...], voters: tuple[str, ...]) -> list[Votes]:
    cast = itertools.product([None, *options], repeat=len(voters))
    return [{who: vote for who, vote in zip(voters, votes, strict=True) if vote} for votes in cast]


RULES = st.sampled_from(list(every_rule()))
SEEDS = st.text(max_size=3)


@st.composite
def elections(draw: st.DrawFn) -> tuple[VotingRules, Votes]:
    rules = draw(RULES)
    votes = draw(st.sampled_from(every_vote(rules.options, rules.voters)))
    return replace(rules, seed=draw(SEEDS)), votes


def endings(rules: VotingRules, votes: Votes) -> Iterator[Outcome]:
    """Every way it can go on: each who has not voted yet votes for anything, or never."""
    late = missing(rules, votes)
    for choices in itertools.product([None, *rules.options], repeat=len(late)):
        more = {voter: choice for voter, choice in zip(late, choices, strict=True) if choice}
        yield outcome(rules, {**votes, **more})


def winner(found: Outcome) -> str | None:
    return found.option if isinstance(found, Won) else None


@settings(max_examples=few(2000))
@given(elections())
def test_an_outcome_is_certain_exactly_when_no_missing_vote_can_change_it(election: tuple[VotingRules, Votes]) -> None:
    rules, votes = election
    possible = {winner(end) for end in endings(rules, votes)}
    found = certain(rules, votes)
    assert (found is not None) == (len(possible) == 1)
    if found is not None:
        assert possible == {winner(found)}


@settings(max_examples=few(500))
@given(elections())
def test_when_everybody_has_voted_it_is_over(election: tuple[VotingRules, Votes]) -> None:
    rules, votes = election
    votes = {voter: votes.get(voter, rules.options[0]) for voter in rules.voters}
    assert certain(rules, votes) == outcome(rules, votes)


@settings(max_examples=few(500))
@given(elections(), st.permutations(VOTERS))
def test_the_order_in_which_votes_come_in_does_not_matter(
    election: tuple[VotingRules, Votes], order: list[str]
) -> None:
    rules, votes = election
    shuffled = {voter: votes[voter] for voter in order if voter in votes}
    assert outcome(rules, shuffled) == outcome(rules, votes)
    assert certain(rules, shuffled) == certain(rules, votes)


@settings(max_examples=few(500))
@given(elections())
def test_the_winner_has_at_least_as_many_votes_as_any_other_and_the_quorum_is_met(
    election: tuple[VotingRules, Votes],
) -> None:
    rules, votes = election
    won = outcome(rules, votes)
    if isinstance(won, Won):
        counts = tally(rules, votes)
        assert counts[won.option] == max(counts.values())
        assert sum(counts.values()) >= rules.quorum


@settings(max_examples=few(500))
@given(elections(), st.text(min_size=1).filter(lambda name: name not in VOTERS), st.sampled_from(OPTIONS))
def test_who_is_no_voter_changes_nothing(election: tuple[VotingRules, Votes], stranger: str, choice: str) -> None:
    rules, votes = election
    rules = replace(rules, creator=rules.voters[0])
    assert outcome(rules, {**votes, stranger: choice}) == outcome(rules, votes)
    assert certain(rules, {**votes, stranger: choice}) == certain(rules, votes)


def rules(resolution: str, *, quorum: int = 3, tie_break: str = "first", creator: str = "") -> VotingRules:
    return VotingRules(OPTIONS, VOTERS[:3], quorum, resolution, tie_break, creator, seed="p_1")  # type: ignore[arg-type]


def test_a_majority_is_more_than_half_of_those_who_voted() -> None:
    assert outcome(rules("majority", quorum=2), {"alice": "tree", "bob": "hash"}) == Nothing(
        "no option has more than half of the votes"
    )
    assert outcome(rules("majority", quorum=2), {"alice": "tree", "bob": "tree"}) == Won("tree")


def test_two_of_three_are_enough_when_the_quorum_is_two() -> None:
    votes = {"alice": "hash", "bob": "hash"}
    assert certain(rules("majority", quorum=2), votes) == Won("hash")
    assert certain(rules("majority", quorum=3), votes) is None


def test_one_who_disagrees_ends_a_unanimous_vote() -> None:
    assert certain(rules("unanimous"), {"alice": "tree", "bob": "hash"}) == Nothing("the votes are not unanimous")


@pytest.mark.parametrize(
    ("tie_break", "creator", "wins"), [("first", "", "tree"), ("creator", "carol", "list"), ("creator", "user", "tree")]
)
def test_a_tie_goes_to_the_first_option_or_to_the_one_its_creator_voted_for(
    tie_break: str, creator: str, wins: str
) -> None:
    votes = {"alice": "hash", "bob": "tree", "carol": "list"}
    assert outcome(rules("plurality", tie_break=tie_break, creator=creator), votes) == Won(wins)


def test_a_random_tie_break_is_the_same_every_time_and_not_the_same_for_every_proposal() -> None:
    votes = {"alice": "hash", "bob": "tree", "carol": "list"}
    drawn = {
        seed: outcome(replace(rules("plurality", tie_break="random"), seed=f"p_{seed}"), votes) for seed in range(50)
    }
    again = {
        seed: outcome(replace(rules("plurality", tie_break="random"), seed=f"p_{seed}"), votes) for seed in range(50)
    }
    assert drawn == again
    assert {winner(each) for each in drawn.values()} == set(OPTIONS)


# --- at the very edge ---------------------------------------------------------------------------------


def test_exactly_half_of_the_votes_is_no_majority() -> None:
    rules = VotingRules(("tree", "hash"), VOTERS, 1, "majority")
    assert isinstance(outcome(rules, {"alice": "tree", "bob": "hash"}), Nothing)
    assert outcome(rules, {"alice": "tree", "bob": "tree", "carol": "hash"}) == Won("tree")


def test_half_of_all_who_may_vote_makes_no_majority_certain() -> None:
    rules = VotingRules(("tree", "hash"), VOTERS, 1, "majority")
    assert certain(rules, {"alice": "tree", "bob": "tree"}) is None
    assert certain(rules, {"alice": "tree", "bob": "tree", "carol": "tree"}) == Won("tree")


def test_a_lead_that_the_last_vote_can_tie_is_certain_only_if_it_wins_the_tie() -> None:
    rules = VotingRules(("tree", "hash"), ("alice", "bob"), 1, "plurality", "first")
    assert certain(rules, {"alice": "tree"}) == Won("tree")
    assert certain(rules, {"alice": "hash"}) is None


def test_who_breaks_ties_is_waited_for() -> None:
    rules = VotingRules(("tree", "hash"), ("alice", "bob"), 1, "plurality", "creator", creator="bob")
    assert certain(rules, {"alice": "tree"}) is None
    assert certain(rules, {"bob": "hash"}) == Won("hash")


def test_what_cannot_be_unanimous_any_more_is_over() -> None:
    rules = VotingRules(("tree", "hash"), VOTERS, 4, "unanimous")
    assert certain(rules, {"alice": "tree", "bob": "tree"}) is None
    assert certain(rules, {"alice": "tree", "bob": "hash"}) == Nothing("the votes are not unanimous")


def test_chance_decides_the_same_proposal_always_the_same_way() -> None:
    rules = VotingRules(OPTIONS, VOTERS, 1, "plurality", "random", seed="v_1")
    assert len({winner(outcome(rules, {"alice": "tree", "bob": "hash"})) for _ in range(50)}) == 1
