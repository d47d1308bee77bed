"""Rounds: what an agent remembers is tidied by rules; what a person wrote stays, and each change can be undone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_worker.core.errors import Refused
from agent_worker.files.root import Root
from agent_worker.memory import memory, rounds
from agent_worker.memory.memory import MemoryEntry
from agent_worker.memory.rounds import MemoryUse, RoundPlan

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
KNOWN = MemoryUse(now=NOW, agents=frozenset({"alice", "bob"}))
BUSY = replace(KNOWN, runs=30)
FRIDAY = "We deploy on Fridays after the review"


def entry(key: str, value: str = FRIDAY, file: str = "working", **more: object) -> MemoryEntry:
    given = {"source": ("r_1",), "learned": "2026-06-01T12:00:00+00:00", "by": "self"} | more
    return MemoryEntry(key, value, file, **given)  # type: ignore[arg-type]


def by_hand(key: str, value: str = FRIDAY, **more: object) -> MemoryEntry:
    return MemoryEntry(key, value, str(more.pop("file", "working")), **more)  # type: ignore[arg-type]


def made(planned: RoundPlan) -> list[tuple[str, str, str, str]]:
    return [(each.what, each.before.key, each.after.file, each.after.key) for each in planned.changes]


# --- what has ended -----------------------------------------------------------------------------------


def test_what_held_until_a_day_that_is_over_is_archived() -> None:
    planned = rounds.plan(
        [entry("freeze", until="2026-11-15"), entry("later", "Bob is away", until="2026-12-24")], KNOWN
    )
    assert made(planned) == [("expired", "freeze", "archive", "freeze")]
    assert planned.changes[0].why == "it held until 2026-11-15"


def test_an_own_conclusion_that_nobody_has_looked_at_again_is_archived_and_the_person_is_asked_about_theirs() -> None:
    own = entry("guess", check_after="2026-11-01")
    said = entry("holiday", "The person is away in August", by="user", check_after="2026-11-01")
    core = by_hand("name", "Call me Sam", file="core", check_after="2026-11-01")
    planned = rounds.plan([own, said, core], KNOWN)
    assert made(planned) == [("expired", "guess", "archive", "guess")]
    assert [each.key for each in planned.check] == ["holiday", "name"]


def test_a_person_who_wrote_until_when_something_holds_is_taken_at_their_word_but_not_in_core_memory() -> None:
    mine = by_hand("freeze", until="2026-11-01")
    assert made(rounds.plan([mine], KNOWN)) == [("expired", "freeze", "archive", "freeze")]
    assert not rounds.plan([replace(mine, file="core")], KNOWN).changes


@pytest.mark.parametrize("day", ["some day", "16 Nov 2026", "0", "2026-13-45", "after the release"])
def test_a_time_in_words_never_comes(day: str) -> None:
    assert rounds.plan([entry("a", until=day), entry("b", "Something else", check_after=day)], KNOWN) == RoundPlan()


def test_two_that_end_under_one_key_both_have_a_place_in_the_archive() -> None:
    both = [
        entry("freeze", file=file, value=f"No deploys in {file}", until="2026-11-01")
        for file in ("working", "decisions")
    ]
    assert [each[3] for each in made(rounds.plan(both, KNOWN))] == ["freeze", "freeze@1"]


# --- what is there twice ------------------------------------------------------------------------------


def test_of_two_that_say_the_same_the_more_trusted_stays_and_counts_what_somebody_said() -> None:
    own, said = entry("deploys"), entry("deploy-day", f"{FRIDAY}.", source=("r_2",), by="user", seen=2)
    heard = entry("deploying", FRIDAY.lower(), source=("r_3",), by="agent:bob")
    planned = rounds.plan([own, said, heard], KNOWN)
    assert sorted(made(planned)) == [
        ("merged", "deploy-day", "working", "deploy-day"),
        ("merged", "deploying", "archive", "deploying@1"),
        ("merged", "deploys", "archive", "deploys@1"),
    ]
    (stays,) = [each.after for each in planned.changes if each.after.file == "working"]
    assert (stays.seen, stays.source) == (3, ("r_2", "r_3")), "an own repetition confirms nothing"
    assert {each.after.replaced_by for each in planned.changes} == {"deploy-day", ""}


@pytest.mark.parametrize("stays", [by_hand("deploy-day"), by_hand("deploy-day", file="core")])
def test_what_a_person_wrote_stays_as_it_is_and_its_double_goes(stays: MemoryEntry) -> None:
    assert made(rounds.plan([entry("deploys", by="user", source=("r_9",)), stays], KNOWN)) == [
        ("merged", "deploys", "archive", "deploys@1")
    ]


@pytest.mark.parametrize(
    "other",
    [
        entry("deploys", "We deploy on Mondays after the review"),
        entry("deploys", "We do not deploy on Fridays after the review"),
        entry("deploys", visibility="shareable"),
        entry("deploys", share_with=("bob",)),
        entry("deploys", file="archive"),
    ],
)
def test_what_says_otherwise_or_is_for_other_eyes_is_not_merged(other: MemoryEntry) -> None:
    assert not rounds.plan([entry("deploy-day"), other], KNOWN).changes


# --- disputes -----------------------------------------------------------------------------------------


def test_a_dispute_with_what_is_gone_is_none() -> None:
    planned = rounds.plan([entry("deploy-day (disputed)", disputes="deploy-day", by="outside")], KNOWN)
    assert made(planned) == [("settled", "deploy-day (disputed)", "working", "deploy-day")]
    assert (planned.changes[0].after.disputes, planned.changes[0].after.by) == ("", "outside")


def test_a_dispute_whose_sides_say_the_same_by_now_is_over_and_one_that_goes_on_is_left() -> None:
    known = by_hand("deploy-day", "We deploy on Mondays")
    agreed = entry("deploy-day (disputed)", "we deploy on mondays", disputes="deploy-day")
    assert made(rounds.plan([known, agreed], KNOWN)) == [
        ("settled", "deploy-day (disputed)", "archive", "deploy-day (disputed)@1")
    ]
    assert not rounds.plan([known, replace(agreed, value=FRIDAY)], KNOWN).changes


# --- use ----------------------------------------------------------------------------------------------


def test_what_nothing_has_needed_makes_room_and_comes_back_when_it_is_asked_for() -> None:
    old = entry("build-server", "The build server is in the cellar")
    assert made(rounds.plan([old], BUSY)) == [("demoted", "build-server", "archive", "build-server")]
    away = replace(old, file="archive")
    asked = replace(
        BUSY, demoted=frozenset({"build-server"}), asked=[("r_5", "build-server"), ("r_6", "where is the build server")]
    )
    assert made(rounds.plan([away], asked)) == [("promoted", "build-server", "working", "build-server")]
    assert not rounds.plan([away], replace(asked, asked=asked.asked[:1])).changes, "once is not often"
    assert not rounds.plan([away], replace(asked, demoted=frozenset())).changes, "somebody has forgotten it on purpose"


@pytest.mark.parametrize(
    "kept",
    [
        entry("a", learned="2026-10-30T12:00:00+00:00"),
        entry("a", by="user"),
        entry("a", visibility="shareable"),
        entry("shown-lately"),
        entry("looked-up"),
        by_hand("a", learned="2026-01-01"),
    ],
)
def test_what_is_young_said_by_the_person_shared_or_used_stays(kept: MemoryEntry) -> None:
    known = replace(BUSY, shown=frozenset({"shown-lately"}), asked=[("r_1", "looked-up")])
    assert not rounds.plan([kept], known).changes


def test_an_agent_that_hardly_worked_has_not_stopped_needing_anything() -> None:
    assert not rounds.plan([entry("a")], replace(KNOWN, runs=3)).changes


# --- links --------------------------------------------------------------------------------------------


def test_links_to_what_is_not_there_are_cut() -> None:
    linked = entry("deploy-day", replaces="deploy-day@1", share_with=("bob", "gone"))
    (change,) = rounds.plan([linked], KNOWN).changes
    assert (change.after.replaces, change.after.share_with) == ("", ("bob",))
    assert change.why == "there is no deploy-day@1, gone any more"
    old = entry("deploy-day@1", "Mondays", file="archive", replaced_by="deploy-day")
    assert not rounds.plan([replace(linked, share_with=("bob",)), old], KNOWN).changes


# --- doing and undoing --------------------------------------------------------------------------------


FILES = {
    "core.yaml": "# mine\nname: Sam\n",
    "working.yaml": "# kept by hand\nfreeze: { value: No deploys, until: 2026-11-01 }  # why\n"
    "deploy-day: { value: We deploy on Fridays after the review, source: r_1, by: user }\n"
    "deploys: { value: We deploy on Fridays after review, source: r_2, by: 'agent:bob' }\n",
    "archive.yaml": "old: gone\n",
}


@pytest.fixture
def home(tmp_path: Path) -> Root:
    (tmp_path / "memory").mkdir()
    for name, text in FILES.items():
        (tmp_path / "memory" / name).write_text(text)
    return Root(tmp_path)


def stands(home: Root) -> set[MemoryEntry]:
    return set(memory.load(home).entries)


def test_a_round_is_made_and_undone_and_comments_stay(home: Root) -> None:
    before = stands(home)
    planned = rounds.plan(rounds.readable(home), KNOWN)
    assert rounds.apply(home, planned.changes) == list(planned.changes)
    assert {each.key for each in stands(home) if each.file == "working"} == {"deploy-day"}
    assert "# kept by hand" in home.read_text("memory/working.yaml")
    assert not rounds.plan(rounds.readable(home), KNOWN).changes, "a second round finds nothing"
    done, left = rounds.undo(home, planned.changes)
    assert (len(done), left) == (3, [])
    assert stands(home) == before
    assert home.read_text("memory/core.yaml") == FILES["core.yaml"]


def test_what_was_taken_back_is_not_done_again(home: Root) -> None:
    planned = rounds.plan(rounds.readable(home), KNOWN)
    declined = replace(KNOWN, declined=frozenset(each.matter for each in planned.changes))
    assert not rounds.plan(rounds.readable(home), declined).changes


def test_what_a_person_has_changed_meanwhile_is_left_alone(home: Root) -> None:
    planned = rounds.plan(rounds.readable(home), KNOWN)
    edited = FILES["working.yaml"].replace("No deploys", "No deploys at all")
    home.location("memory/working.yaml").write_text(edited)
    assert "expired" not in {each.what for each in rounds.apply(home, planned.changes)}
    assert "No deploys at all" in home.read_text("memory/working.yaml")


def test_nothing_is_moved_around_a_file_with_a_mistake(home: Root) -> None:
    home.location("memory/archive.yaml").write_text("a: [")
    with pytest.raises(Refused, match="archive"):
        rounds.readable(home)


def test_one_round_changes_a_hundred_things_at_most() -> None:
    many = [entry(f"k{n}", f"fact number {n}", until="2026-01-01") for n in range(250)]
    assert len(rounds.plan(many, KNOWN).changes) == rounds.MOST
