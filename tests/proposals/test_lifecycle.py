"""Proposals in a team: who is asked, when it is decided, what comes of it, and that nothing of it is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import tries
from tests.teams import Team, files_are_the_truth, open_team
from tests.workflows.test_quiet import again

from agent_worker.backends.backend import PastStep, Reply, StepSink, Turn
from agent_worker.core.clock import SystemClock, TestClock
from agent_worker.core.errors import BadInput, NotFound, NotRunning, Refused
from agent_worker.core.events import Decided, Event, Proposed, Voted
from agent_worker.proposals import lifecycle, store
from agent_worker.proposals.request import PERSON, Cause, ProposalRequest, Voter
from agent_worker.proposals.store import Proposal
from agent_worker.workspaces import workspace_rows, workspace_state
from agent_worker.workspaces.documents import Documents

INDEX = ProposalRequest("Which index?", options=["tree", "hash"])


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    """Alice, bob and carol, who do nothing by themselves: they are paused."""
    async with open_team(tmp_path, "alice", "bob", "carol", clock=TestClock()) as team:
        await team.change("agent", paused="x")
        yield team


def voter(team: Team, name: str) -> Voter:
    return PERSON if name == "user" else Voter(name, team.id_of(name))


async def propose(team: Team, proposed: ProposalRequest = INDEX, *, by: str = "alice", **how: Any) -> Proposal:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    made: Proposal = await team.write(lifecycle.propose, workspace, proposed, by=voter(team, by), now=team.now(), **how)
    return made


async def vote(team: Team, name: str, choice: str, number: int = 1) -> Proposal:
    voted: Proposal = await team.write(
        lifecycle.cast, team.workspace.id, number, choice, by=voter(team, name), now=team.now()
    )
    return voted


async def found(team: Team, number: int = 1) -> Proposal:
    it: Proposal = await team.read(store.find, team.workspace.id, number)
    return it


async def decisions(team: Team) -> list[str]:
    return [m.text for m in await team.messages() if m.kind == "decision"]


async def document(team: Team, name: str = "decisions.md") -> str:
    workspace = await team.read(workspace_rows.get, team.workspace.id)
    documents = Documents(team.database, team.clock, workspace, team.runtime.look_at_copies)
    return (await documents.read(name)).text


# --- asking ------------------------------------------------------------------------------------------------


async def test_a_proposal_is_announced_and_calls_on_every_voter(team: Team) -> None:
    await propose(team)
    (message,) = await team.messages()
    assert message.kind == "proposal"
    assert message.sender == "alice"
    assert message.text.splitlines()[0] == "[PROPOSAL] 1: Which index?"
    assert 'team_vote(proposal=1, choice="tree")' in message.text
    assert sorted(row["name"] for row in await team.queue()) == ["alice", "bob", "carol"]


async def test_which_proposal_a_message_is_about_is_told_by_its_number_not_by_its_words(team: Team) -> None:
    await propose(team, replace(INDEX, question="[PROPOSAL] 7: Which index?", voters=["bob"]))
    await vote(team, "bob", "hash")
    await team.post("user", "[PROPOSAL] 1: Which index?")
    found = [(message.kind, message.proposal) for message in await team.messages()]
    assert found == [("proposal", 1), ("decision", 1), ("message", None)]


async def test_who_votes_in_asking_is_not_called_on(team: Team) -> None:
    await propose(team, replace(INDEX, vote="hash"))
    assert (await team.messages())[0].mentions == ("bob", "carol")
    assert await team.read(store.choices, (await found(team)).id) == {"alice": "hash"}


async def test_names_in_a_question_wake_nobody(team: Team) -> None:
    await propose(team, ProposalRequest("Should @carol go? @all @user", voters=["bob"]))
    assert [row["name"] for row in await team.queue()] == ["bob"]
    assert await team.inbox() == []


@pytest.mark.parametrize(
    ("proposed", "sentence"),
    [
        (ProposalRequest(""), "an empty message"),
        (ProposalRequest("x" * 1001), "at most 1000 characters"),
        (ProposalRequest("?", options=["one"]), "2 to 50 options"),
        (ProposalRequest("?", options=["a", "A"]), "listed twice"),
        (ProposalRequest("?", options=["a", "b\nc"]), "one line"),
        (ProposalRequest("?", voters=["dave"]), "dave cannot vote here"),
        (ProposalRequest("?", voters=[]), "needs voters"),
        (ProposalRequest("?", quorum=4), "between 1 and 3"),
        (ProposalRequest("?", quorum=0), "between 1 and 3"),
        (ProposalRequest("?", minutes=0), "at most 10080 minutes"),
        (ProposalRequest("?", minutes=10081), "at most 10080 minutes"),
        (ProposalRequest("?", minutes=float("nan")), "at most 10080 minutes"),
        (ProposalRequest("?", fallback="maybe"), "'maybe' is not an option"),
        (ProposalRequest("?", kind="assignment", options=["alice", "dave"]), "dave is not a member"),
        (ProposalRequest("?", role="coordinator"), "by an election"),
        (ProposalRequest("?", kind="approval", options=["a", "b"]), "approve and reject"),
        (ProposalRequest("?", turns=100), "by an approval"),
        (ProposalRequest("?", kind="approval", usd=-1), "more than 0"),
    ],
)
async def test_what_is_wrong_with_a_proposal_is_said(team: Team, proposed: ProposalRequest, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        await propose(team, proposed)
    assert await team.messages() == []


# --- voting ------------------------------------------------------------------------------------------------


async def test_it_is_resolved_the_moment_the_last_vote_makes_it_certain(team: Team) -> None:
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], quorum=2))
    assert (await vote(team, "bob", "hash")).state == "open"
    resolved = await vote(team, "carol", "Hash ")
    assert (resolved.state, resolved.outcome) == ("resolved", "hash")
    assert await decisions(team) == ["[RESOLVED] 1: Which index?\n→ hash (hash: 2)."]


async def test_a_later_vote_replaces_the_earlier_one(team: Team) -> None:
    await propose(team)
    await vote(team, "bob", "hash")
    await vote(team, "bob", "tree")
    await vote(team, "alice", "tree")
    assert (await vote(team, "carol", "hash")).outcome == "tree"
    assert len(await team.read(stored.votes)) == 3


async def test_nothing_is_decided_when_no_option_has_what_it_needs(team: Team) -> None:
    await propose(team, ProposalRequest("All for it?", resolution="unanimous"))
    await vote(team, "alice", "yes")
    over = await vote(team, "bob", "no")
    assert (over.state, over.outcome) == ("resolved", "")
    assert await decisions(team) == [
        "[RESOLVED] 1: All for it?\nnothing was decided: the votes are not unanimous (yes: 1, no: 1)."
    ]


async def test_a_fallback_takes_effect_when_nothing_was_chosen(team: Team) -> None:
    await propose(team, ProposalRequest("All for it?", resolution="unanimous", fallback="no"))
    await vote(team, "alice", "yes")
    assert (await vote(team, "bob", "no")).outcome == "no"


async def test_whoever_voted_or_need_not_any_more_is_not_woken_for_it(team: Team) -> None:
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], quorum=2))
    await vote(team, "bob", "hash")
    message = (await found(team)).message
    assert sorted((r["name"], r["state"]) for r in await team.queue(message=message)) == [
        ("alice", "queued"),
        ("bob", "done"),
        ("carol", "queued"),
    ]
    await vote(team, "carol", "hash")
    assert {r["state"] for r in await team.queue(message=message)} == {"done"}
    assert {r["state"] for r in await team.deliveries(message=message)} == {"acked"}


async def test_the_asker_is_called_on_with_the_outcome_unless_it_made_it(team: Team) -> None:
    await propose(team, ProposalRequest("One?", voters=["bob"]))
    await vote(team, "bob", "yes")
    await propose(team, ProposalRequest("Two?", voters=["alice"]))
    await vote(team, "alice", "no", 2)
    assert [m.mentions for m in await team.messages() if m.kind == "decision"] == [("alice",), ()]


async def test_events_tell_of_proposals_votes_and_decisions(team: Team) -> None:
    heard: list[Event] = []
    team.runtime.bus.listen(heard.append)
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], voters=["alice", "bob"]))
    await vote(team, "alice", "tree")
    await vote(team, "bob", "tree")
    told = [e for e in heard if isinstance(e, Proposed | Voted | Decided)]
    assert [type(e) for e in told] == [Proposed, Voted, Voted, Decided]
    assert all(e.number and e.workspace == team.workspace.id for e in told)  # stored: a stream goes on after a break
    last = told[-1].as_record()
    assert (last["event"], last["proposal"], last["state"], last["text"]) == ("decision", 1, "resolved", "tree")


# --- time --------------------------------------------------------------------------------------------------


async def test_when_its_time_is_up_it_expires(team: Team) -> None:
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], minutes=5))
    await vote(team, "bob", "hash")
    await team.elapse(4 * 60 + 59)
    assert (await found(team)).state == "open"
    await team.elapse(2)
    assert (await found(team)).state == "expired"
    assert await decisions(team) == [
        "[EXPIRED] 1: Which index?\nnothing was decided: 1 of 3 voted, 3 are needed (hash: 1)."
    ]
    with pytest.raises(Refused, match="proposal 1 is over"):
        await vote(team, "carol", "hash")


async def test_an_expired_proposal_takes_its_fallback(team: Team) -> None:
    proposed = ProposalRequest("Who leads?", kind="election", role="coordinator", fallback="carol", minutes=1)
    await propose(team, proposed, by="user")
    await team.elapse(61)
    assert (await found(team)).outcome == "carol"
    assert (await team.read(workspace_rows.get, team.workspace.id))["coordinator"] == "carol"


async def test_at_its_time_a_quorum_that_is_met_decides(team: Team) -> None:
    await propose(team, ProposalRequest("Which?", options=["a", "b", "c"], resolution="plurality", quorum=1, minutes=1))
    await vote(team, "bob", "b")
    await team.elapse(61)
    assert ((await found(team)).state, (await found(team)).outcome) == ("resolved", "b")


@pytest.mark.sqlite("what makes it fail is a trigger in SQLite's words")
async def test_a_proposal_that_cannot_be_ended_is_tried_again_every_minute(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], minutes=1))
    stuck = "create trigger stuck before update on proposal begin select raise(abort, 'stuck'); end"
    await team.write(lambda tx: tx.run(stuck))
    for number in (1, 2, 3):
        await team.elapse(61)
        assert caplog.text.count("could not be ended") == number
    await team.write(lambda tx: tx.run("drop trigger stuck"))
    await team.elapse(61)
    assert (await found(team)).state == "expired"


async def test_a_proposal_outlives_its_host_and_expires_when_the_workspace_is_open_again(tmp_path: Path) -> None:
    database, clock = tmp_path / "state.db", TestClock()
    quiet = {"alice": "script: []\n", "bob": "script: []\n"}
    async with open_team(tmp_path, "alice", "bob", clock=clock, database=database, extra=quiet) as team:
        await team.change("agent", paused="x")
        await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], minutes=5))
        await vote(team, "bob", "hash")
        await team.change("workspace", state="left")  # as after a kill
    await clock.advance(minutes=10)
    async with open_team(tmp_path, "alice", "bob", clock=clock, database=database, extra=quiet) as team:
        await team.still()
        assert (await found(team)).state == "expired"
        assert await team.read(store.choices, (await found(team)).id) == {"bob": "hash"}


async def test_the_time_of_a_proposal_does_not_run_out_while_its_workspace_does_not_run(team: Team) -> None:
    made = await propose(team)
    await team.change("workspace", state="left")
    assert await team.read(store.due, now=made.expires_at) == []
    assert await team.read(store.first_due) is None


async def test_an_open_proposal_keeps_the_team_from_being_quiet(team: Team) -> None:
    await team.change("agent", paused="")
    await propose(team, ProposalRequest("Which index?", voters=["user"], minutes=5), by="user")
    began = team.clock.monotonic()
    await team.meanwhile(team.workspace.run())
    assert team.clock.monotonic() - began >= 5 * 60
    assert (await found(team)).state == "expired"


async def test_Q9_a_proposal_that_is_made_in_the_last_moment_is_decided(tmp_path: Path) -> None:
    """Runs end while someone asks at a random point of the last moment, or just after it: until both were seen."""
    chance, moment = random.Random(9), 0.002
    async with open_team(tmp_path, "alice", "bob", clock=SystemClock(), quiet_moment=moment) as team:
        came: Counter[str] = Counter()
        for number in tries(60, enough=lambda: min(came["in time"], came["too late"]) > 5):
            team = await again(team) if came else team
            ending = asyncio.create_task(team.workspace.run())
            if chance.random() < 0.8:
                await asyncio.sleep(chance.random() * 4 * moment * max(1, number / 30))  # a slow machine ends later
            try:
                made = await propose(team, ProposalRequest("Once more?"), by="user")
            except NotRunning:
                came["too late"] += 1
                await ending
                continue
            came["in time"] += 1
            summary = await ending
            assert (await team.read(store.get, made.id)).outcome == "yes"
            assert summary.decisions == ("Once more? → yes",)


async def test_a_team_that_is_stopped_leaves_no_proposal_open(team: Team) -> None:
    await propose(team)
    await team.workspace.stop()
    assert ((await found(team)).state, (await found(team)).reason) == ("cancelled", "stopped")
    assert await team.inbox() == []


async def test_Q10_a_team_that_is_stopped_does_not_begin_what_waited_for_a_vote(team: Team) -> None:
    await propose(team, by="user", then=(("@alice begin", ()),))
    await team.workspace.stop()
    assert (await found(team)).state == "cancelled"
    assert "@alice begin" not in await team.texts()


async def test_whatever_is_done_in_whatever_order_each_proposal_has_one_end(team: Team) -> None:
    """Two thousand random acts; most are refused, none leaves anything half done."""
    chance, names = random.Random(12), ("alice", "bob", "carol", "user")
    assert isinstance(team.clock, TestClock)
    for _ in range(2000):
        number, name = chance.randint(1, 40), chance.choice(names)
        try:
            match chance.randrange(9):
                case 0:
                    kind = chance.choice(("decision", "election", "approval", "assignment"))
                    await propose(team, ProposalRequest("?", kind=kind, veto=chance.random() < 0.3, minutes=2), by=name)  # type: ignore[arg-type]
                case 1:
                    await team.write(lifecycle.cancel, team.workspace.id, number, by=voter(team, name), now=team.now())
                case 2:
                    await team.write(lifecycle.veto, team.workspace.id, number, now=team.now())
                case 3:
                    await team.write(lifecycle.consent, team.workspace.id, number, now=team.now())
                case 4:
                    await team.clock.advance(5)
                case _:
                    option = chance.choice((await found(team, number)).rules.options)
                    await vote(team, name, option, number)
        except (Refused, NotFound):
            pass
    await team.elapse(121)
    every = await team.read(store.of_workspace, team.workspace.id)
    ends = [text.splitlines()[0] for text in await decisions(team)]
    assert len(every) > 30
    assert {each.state for each in every} == {"resolved", "expired", "cancelled", "vetoed"}
    assert sorted(ends) == sorted(f"[{each.state.upper()}] {each.number}: ?" for each in every)
    text = await document(team)
    for each in every:
        assert text.count(f"## {each.number}. ?\n") == (each.state != "cancelled")
    assert await team.inbox() == []
    ended = {row["id"]: row["ended_at"] for row in await team.read(stored.proposals) if row["ended_at"]}
    assert [row for row in await team.read(stored.votes) if row["at"] > ended.get(row["proposal"], row["at"])] == []


# --- the person --------------------------------------------------------------------------------------------


async def test_a_person_who_has_a_vote_is_asked_for_it(team: Team) -> None:
    await propose(team, ProposalRequest("Release?", voters=["bob", "user"]))
    assert await team.inbox() == [("vote", "proposal 1 by alice: Release?\nyour vote: yes / no")]
    await vote(team, "user", "yes")
    assert await team.inbox() == []
    assert (await vote(team, "bob", "yes")).outcome == "yes"


async def test_what_others_decide_closes_the_question_to_the_person(team: Team) -> None:
    await propose(team, ProposalRequest("Release?", voters=["bob", "user"], quorum=1, resolution="unanimous"))
    await team.write(lifecycle.cancel, team.workspace.id, 1, by=voter(team, "alice"), now=team.now())
    assert await team.inbox() == []


async def test_with_a_veto_the_outcome_waits_for_the_person(team: Team) -> None:
    await propose(team, ProposalRequest("Release?", voters=["bob"], veto=True))
    assert (await vote(team, "bob", "yes")).state == "open"
    assert [kind for kind, _ in await team.inbox()] == ["veto"]
    stands = await team.write(lifecycle.consent, team.workspace.id, 1, now=team.now())
    assert (stands.state, stands.outcome) == ("resolved", "yes")
    assert await team.inbox() == []


async def test_a_person_who_votes_lets_the_outcome_stand(team: Team) -> None:
    proposed = ProposalRequest("Which index?", options=["tree", "hash"], voters=["bob", "user"], veto=True)
    await propose(team, proposed)
    await vote(team, "bob", "tree")
    assert (await vote(team, "user", "tree")).state == "resolved"
    assert await team.inbox() == []


async def test_a_veto_stops_it(team: Team) -> None:
    await propose(
        team, ProposalRequest("Who leads?", kind="election", role="coordinator", voters=["bob"], veto=True), by="user"
    )
    await vote(team, "bob", "bob")
    vetoed = await team.write(lifecycle.veto, team.workspace.id, 1, reason="not now", now=team.now())
    assert vetoed.state == "vetoed"
    assert (await team.read(workspace_rows.get, team.workspace.id))["coordinator"] == ""
    assert await decisions(team) == ["[VETOED] 1: Who leads?\nvetoed: not now (bob: 1)."]


async def test_silence_is_no_veto(team: Team) -> None:
    await propose(team, ProposalRequest("Release?", voters=["bob"], veto=True, minutes=1))
    await vote(team, "bob", "yes")
    await team.elapse(61)
    assert (await found(team)).outcome == "yes"


async def test_nobody_has_a_veto_that_the_proposal_does_not_give(team: Team) -> None:
    await propose(team)
    with pytest.raises(Refused, match="gives nobody a veto"):
        await team.write(lifecycle.veto, team.workspace.id, 1, now=team.now())


async def test_only_its_creator_or_a_person_cancels_it(team: Team) -> None:
    await propose(team)
    with pytest.raises(Refused, match="only alice or the user"):
        await team.write(lifecycle.cancel, team.workspace.id, 1, by=voter(team, "bob"), now=team.now())
    cancelled = await team.write(lifecycle.cancel, team.workspace.id, 1, by=PERSON, now=team.now())
    assert cancelled.state == "cancelled"
    with pytest.raises(NotFound, match="there is no proposal 2 here"):
        await team.write(lifecycle.cancel, team.workspace.id, 2, by=PERSON, now=team.now())


# --- what comes of it --------------------------------------------------------------------------------------


async def test_an_election_makes_an_owner_of_the_documents(team: Team) -> None:
    await propose(
        team, ProposalRequest("Who writes?", kind="election", role="document_owner", voters=["bob"]), by="user"
    )
    await vote(team, "bob", "@carol")
    assert (await team.read(workspace_rows.get, team.workspace.id))["document_owner"] == "carol"
    assert (await decisions(team))[0].endswith("carol owns the documents now.")


async def test_an_assignment_gives_the_winner_the_task(team: Team) -> None:
    await propose(team, ProposalRequest("Write the release notes", kind="assignment", voters=["bob"]))
    await vote(team, "bob", "carol")
    task = next(m for m in await team.messages() if m.kind == "message")
    assert (task.sender, task.text, task.mentions) == ("alice", "@carol Write the release notes", ("carol",))
    (work,) = await team.queue(message=task.id)
    assert (work["agent"], work["state"]) == (team.id_of("carol"), "queued")


async def test_M12_who_is_no_member_any_more_is_given_no_role(team: Team) -> None:
    await propose(team, ProposalRequest("Who leads?", kind="election", role="coordinator", voters=["bob"]), by="user")
    left = {name: agent for name, agent in team.workspace.members.items() if name != "carol"}
    await team.write(workspace_state.add_members, team.workspace.id, left)
    await vote(team, "bob", "carol")
    assert (await team.read(workspace_rows.get, team.workspace.id))["coordinator"] == ""
    assert (await decisions(team))[0].endswith("carol is no longer a member, so nothing changes.")


async def test_M13_an_owner_that_the_file_has_named_meanwhile_stays_the_owner(team: Team) -> None:
    await propose(team, ProposalRequest("Who writes?", kind="election", role="document_owner", vote="bob"))
    await team.change("workspace", document_owner="carol", owner_named=1)
    await vote(team, "bob", "bob")
    await vote(team, "carol", "bob")
    assert (await team.read(workspace_rows.get, team.workspace.id))["document_owner"] == "carol"
    assert "The workflow names carol as owner" in (await decisions(team))[0]


async def test_advice_changes_nothing(team: Team) -> None:
    proposed = ProposalRequest("Who leads?", kind="election", role="coordinator", voters=["bob"], binding=False)
    await propose(team, proposed)
    assert (await vote(team, "bob", "bob")).outcome == "bob"
    assert (await team.read(workspace_rows.get, team.workspace.id))["coordinator"] == ""


async def test_a_person_sets_the_limits_by_a_vote_of_the_team(team: Team) -> None:
    await propose(team, ProposalRequest("More?", kind="approval", turns=80, usd=9.5, voters=["bob"]), by="user")
    await vote(team, "bob", "approve")
    assert await team.read(workspace_rows.granted, team.workspace.id) == {"turns": 80, "usd": 9.5}
    assert (await decisions(team))[0].endswith("The limits are 80 turns, 9.5 USD now.")


async def test_M20_agents_cannot_vote_themselves_more_money(team: Team) -> None:
    made = await propose(team, ProposalRequest("More?", kind="approval", usd=1000, quorum=3))
    assert made.rules.voters == ("alice", "bob", "carol", "user")
    for name in ("alice", "bob", "carol"):
        voted = await vote(team, name, "approve")
    assert voted.outcome == "approve"
    assert await team.read(workspace_rows.granted, team.workspace.id) == {}
    assert "The user has not approved it" in (await decisions(team))[0]


async def test_a_raised_limit_counts_at_once(tmp_path: Path) -> None:
    workflow = "workspace: { provider: sqlite }\nlimits: { turns: 2 }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        await team.write(workspace_state.grant, team.workspace.id, {"turns": 4})
        for name, other in (("alice", "bob"), ("bob", "alice")):
            team.employ(name, _Passes(other))
        await team.post("user", "@alice begin")
        await team.still()
        assert (await team.workspace_row())["paused"] == "limit reached: one request has led to 4 runs (limit 4)"


class _Passes:
    """A model that hands on whatever it gets."""

    def __init__(self, other: str) -> None:
        self._other, self._times = other, 0

    async def reply(self, turn: Turn, steps: Sequence[PastStep], recorder: StepSink) -> Reply:
        self._times += 1
        return Reply(text=f"@{self._other} your turn, {self._times}")


# --- the record --------------------------------------------------------------------------------------------


async def test_what_was_decided_is_in_decisions_md_in_the_same_transaction(team: Team) -> None:
    await propose(team, ProposalRequest("Which index?", options=["tree", "hash"], voters=["bob"]))
    await vote(team, "bob", "hash")
    text = await document(team)
    assert "## 1. Which index?" in text
    assert "- resolved: hash\n- votes: bob: hash\n" in text
    (row,) = await team.read(stored.proposals)
    assert row["recorded"] == 1


async def test_a_file_gets_it_once_even_if_the_host_dies_in_between(tmp_path: Path) -> None:
    workflow = "workspace: { provider: file, bind: ./room/ }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        for number in (1, 2):
            await propose(team, ProposalRequest(f"Question {number}?", voters=["user"]))
            await vote(team, "user", "yes", number)
        await team.still()
        assert team.workspace.directory is not None
        written = (team.workspace.directory / "documents" / "decisions.md").read_text()
        assert written.count("## 1. Question 1?") == written.count("## 2. Question 2?") == 1
        await team.change("proposal", recorded=0)  # as if it had died before noting it
        await team.workspace.stop()
        assert (team.workspace.directory / "documents" / "decisions.md").read_text() == written


async def test_D4_minutes_that_cannot_be_written_come_with_the_next_decision(tmp_path: Path) -> None:
    workflow = "workspace: { provider: file, bind: ./room/ }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        assert team.workspace.directory is not None
        minutes = team.workspace.directory / "documents" / "decisions.md"
        minutes.mkdir(parents=True)  # no document can be written there
        await propose(team, ProposalRequest("Question 1?", voters=["user"]))
        await vote(team, "user", "yes")
        await team.still()
        minutes.rmdir()
        await propose(team, ProposalRequest("Question 2?", voters=["user"]))
        await vote(team, "user", "yes", 2)
        await team.still()
        assert [minutes.read_text().count(f"## {n}. Question {n}?") for n in (1, 2)] == [1, 1]


async def test_I5_minutes_that_cannot_be_written_do_not_keep_a_team_from_stopping(tmp_path: Path) -> None:
    workflow = "workspace: { provider: file, bind: ./room/ }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        assert team.workspace.directory is not None
        (team.workspace.directory / "documents" / "decisions.md").mkdir(parents=True)
        await propose(team, ProposalRequest("Question 1?", voters=["user"]))
        await vote(team, "user", "yes")
        await team.still()
        await team.workspace.stop()
        assert (await team.workspace_row())["state"] == "stopped"


async def test_a_persons_remark_in_decisions_md_stays(tmp_path: Path) -> None:
    files_are_the_truth()
    workflow = "workspace: { provider: file }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        await propose(team, ProposalRequest("One?", voters=["user"]))
        await vote(team, "user", "yes")
        await team.still()
        assert team.workspace.directory is not None
        file = team.workspace.directory / "documents" / "decisions.md"
        file.write_text(file.read_text() + "\nI am not so sure.\n")
        await propose(team, ProposalRequest("Two?", voters=["user"]))
        await vote(team, "user", "no", 2)
        await team.still()
        assert "I am not so sure." in file.read_text()
        assert "## 2. Two?" in file.read_text()
        assert [kind for kind, _ in await team.inbox()] == []


# --- M: attacks --------------------------------------------------------------------------------------------


async def test_M12_only_who_was_a_voter_when_it_was_made_votes(team: Team) -> None:
    await propose(team, ProposalRequest("Which?", voters=["alice", "bob"]))
    for stranger in (voter(team, "carol"), PERSON, Voter("bob", team.id_of("carol")), Voter("mallory", "a_x")):
        with pytest.raises(Refused, match="has no vote on proposal 1"):
            await team.write(lifecycle.cast, team.workspace.id, 1, "yes", by=stranger, now=team.now())
    assert await team.read(stored.votes) == []


async def test_M12_a_member_that_came_later_has_no_vote_and_changes_no_quorum(team: Team) -> None:
    await propose(team)
    puppets = {**dict(team.workspace.members), "puppet": team.id_of("alice")}
    await team.write(workspace_state.add_members, team.workspace.id, puppets)
    with pytest.raises(Refused, match="has no vote"):
        await team.write(
            lifecycle.cast, team.workspace.id, 1, "tree", by=Voter("puppet", team.id_of("alice")), now=team.now()
        )
    assert (await found(team)).rules.quorum == 3


async def test_M14_another_agent_with_the_name_of_a_voter_has_no_vote(team: Team) -> None:
    await propose(team)
    with pytest.raises(Refused, match="bob has no vote"):
        await team.write(
            lifecycle.cast, team.workspace.id, 1, "tree", by=Voter("bob", team.id_of("alice")), now=team.now()
        )


async def test_M12_a_vote_that_comes_after_the_time_and_before_the_end_does_not_count(team: Team) -> None:
    made = await propose(team)
    with pytest.raises(Refused, match="the time for proposal 1 is up"):
        await team.write(lifecycle.cast, team.workspace.id, 1, "tree", by=voter(team, "bob"), now=made.expires_at)


async def test_M12_proposals_are_capped(team: Team) -> None:
    for _ in range(10):
        await propose(team)
    for _ in range(990):
        with pytest.raises(Refused, match="10 proposals are open here"):
            await propose(team)
    assert len(await team.messages()) == 10


async def test_M12_one_request_leads_to_so_many_proposals_and_no_more(team: Team) -> None:
    for number in range(1, 51):
        await propose(team, cause=Cause(root="m_x"))
        await team.write(lifecycle.cancel, team.workspace.id, number, by=voter(team, "alice"), now=team.now())
    with pytest.raises(Refused, match="50 proposals"):
        await propose(team, cause=Cause(root="m_x"))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"voters": ["alice"]}, "everybody votes on a role: bob, carol must be among the voters"),
        ({"voters": ["alice", "user"]}, "everybody votes on a role"),
        ({"quorum": 1}, "more than half must vote"),
        ({"voters": ["alice", "bob", "carol", "user"], "quorum": 2}, "more than half must vote"),
        ({"fallback": "alice"}, "only votes can give a role"),
    ],
)
async def test_M20_an_agent_that_asks_for_a_role_chooses_neither_voters_nor_fallback(
    team: Team, how: dict[str, Any], sentence: str
) -> None:
    proposed = ProposalRequest("Who leads?", kind="election", role="coordinator", **how)
    with pytest.raises(BadInput, match=sentence):
        await propose(team, proposed)
    await propose(team, ProposalRequest("Who leads?", kind="election", role="coordinator", vote="alice"))
    await vote(team, "bob", "bob")
    await vote(team, "carol", "bob")
    assert (await team.read(workspace_rows.get, team.workspace.id))["coordinator"] == "bob"


async def test_M20_a_limit_without_the_users_vote_is_not_asked_for(team: Team) -> None:
    with pytest.raises(BadInput, match="only the user can raise a limit"):
        await propose(team, ProposalRequest("More?", kind="approval", usd=1000, voters=["alice"], vote="approve"))


async def test_M20_agents_cannot_vote_away_the_owner_that_the_file_names(tmp_path: Path) -> None:
    workflow = "workspace: { provider: sqlite, document_owner: alice }\n"
    async with open_team(tmp_path, "alice", "bob", clock=TestClock(), workflow=workflow) as team:
        proposed = ProposalRequest("Who writes?", kind="election", role="document_owner", voters=["user"])
        with pytest.raises(Refused, match="the workflow names alice"):
            await propose(team, proposed, by="bob")
        await propose(team, replace(proposed, vote="bob"), by="user")
        assert (await team.read(workspace_rows.get, team.workspace.id))["document_owner"] == "bob"
