"""The gate: what becomes of a claim, told without a model from its words and from who makes it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_worker.core.errors import Refused
from agent_worker.files.root import Root
from agent_worker.memory import claims, facts, memory
from agent_worker.memory.claims import ClaimOutcome
from agent_worker.memory.memory import MemoryEntry

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path / "alice")


def claim(key: str, value: str, by: str = "self", run: str = "r_1", **more: str) -> MemoryEntry:
    return MemoryEntry(key, value, more.pop("file", "working"), source=(run,), learned=NOW.isoformat(), by=by, **more)  # type: ignore[arg-type]


def keep(home: Root, key: str, value: str, by: str = "self", run: str = "r_1", **more: str) -> ClaimOutcome:
    return claims.keep(home, claim(key, value, by, run, **more), now=NOW)


def held(home: Root) -> dict[str, str]:
    return {entry.key: entry.value for entry in memory.load(home).entries if entry.file != memory.ARCHIVE}


def archived(home: Root) -> list[MemoryEntry]:
    return [entry for entry in memory.load(home).entries if entry.file == memory.ARCHIVE]


# --- what is the same ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["Deploy day", "deploy_day", "deploy-days", "day of deployment"])
def test_one_thing_has_one_place_however_its_key_is_spelled(home: Root, key: str) -> None:
    keep(home, "deploy-day", "Fridays after review")
    assert keep(home, key, "Mondays after review", "user", "r_2").outcome == "replaced"
    assert list(held(home).values()) == ["Mondays after review"]


def test_what_is_said_again_by_somebody_is_counted_with_its_source(home: Root) -> None:
    keep(home, "deploy-day", "We deploy on Fridays after the review")
    kept = keep(home, "deploys", "We deploy on Fridays after review", "user", "r_2")
    assert (kept.outcome, kept.entry.seen, kept.entry.source, kept.entry.by) == ("seen", 2, ("r_1", "r_2"), "user")
    assert claims.told(kept) == "Seen before: 2 times now, under deploy-day."
    assert list(held(home)) == ["deploy-day"]


def test_what_an_agent_repeats_by_itself_confirms_nothing(home: Root) -> None:
    keep(home, "deploy-day", "We deploy on Fridays after review")
    for run in ("r_2", "r_3"):
        assert keep(home, "deploy-day", "we deploy on fridays, after review", run=run).outcome == "known"
    (entry,) = memory.load(home).entries
    assert (entry.seen, entry.source) == (1, ("r_1",))


# --- what says otherwise ------------------------------------------------------------------------------


def test_what_no_longer_holds_is_in_the_archive_with_its_end(home: Root) -> None:
    keep(home, "deploy-day", "Fridays after review", "user")
    kept = keep(home, "deploy-day", "Mondays after review", "user", "r_2")
    assert claims.told(kept) == "Remembered; it replaces deploy-day of 16 Nov."
    (old,) = archived(home)
    assert (old.key, old.value, old.replaced_by, old.until) == (
        "deploy-day@1",
        "Fridays after review",
        "deploy-day",
        "2026-11-16T12:00:00+00:00",
    )
    assert kept.entry.replaces == "deploy-day@1"


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        (
            "staging port, port",
            "The staging database listens on port 5432",
            "The staging database listens on port 5433",
        ),
        (
            "reviews, frontend",
            "Reviews of the frontend happen on Tuesdays",
            "Reviews of the frontend happen on Thursdays",
        ),
        ("network, build rule", "The build may use network access", "The build may not use network access"),
        (
            "certificate, shop",
            "The certificate of the shop expires in March",
            "The certificate of the shop expires in June",
        ),
    ],
)
def test_an_update_under_another_key_is_noticed(home: Root, keys: str, before: str, after: str) -> None:
    first, second = keys.split(", ")
    keep(home, first, before)
    assert keep(home, second, after, run="r_2").outcome == "replaced"
    assert held(home) == {second: after}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("invoice 12", "Invoice 12 was paid by transfer"), ("invoice 13", "Invoice 13 was paid by transfer")),
        (("port of orders", "orders listens on port 8001"), ("port of billing", "billing listens on port 8002")),
        (("alice", "alice prefers short answers"), ("bob", "bob prefers short answers")),
        (("alice", "prefers short answers to long ones"), ("bob", "prefers short answers to long ones")),
        (("alice", "wakes at 7"), ("bob", "wakes at 8")),
        (("orders", "the port is 8001"), ("billing", "the port is 8002")),
        (("staging db", "the staging database is on host one"), ("prod db", "the production database is on host two")),
    ],
)
def test_what_is_about_something_else_is_left_alone(home: Root, one: tuple[str, str], other: tuple[str, str]) -> None:
    keep(home, *one)
    assert keep(home, *other, run="r_2").outcome == "new"
    assert held(home) == dict((one, other))


@pytest.mark.parametrize("by", ["self", "agent:carol", "import", "outside"])
def test_what_a_person_said_is_not_lost_to_anybody_less_trusted(home: Root, by: str) -> None:
    keep(home, "deploy-day", "Mondays after review", "user")
    kept = keep(home, "deploy-day", "Fridays, whenever", by, "r_2")
    assert kept.outcome == "disputed"
    assert held(home) == {"deploy-day": "Mondays after review", "deploy-day (disputed)": "Fridays, whenever"}
    assert [(a.key, b.key) for a, b in claims.disputes(home)] == [("deploy-day", "deploy-day (disputed)")]


@pytest.mark.parametrize(("take", "holds"), [(True, "Fridays, whenever"), (False, "Mondays after review")])
def test_a_person_settles_a_dispute(home: Root, take: bool, holds: str) -> None:
    keep(home, "deploy-day", "Mondays after review", "user")
    keep(home, "deploy-day", "Fridays, whenever", "agent:carol", "r_2")
    claims.settle(home, "deploy-day", take=take, now=NOW)
    assert held(home) == {"deploy-day": holds}
    assert claims.disputes(home) == []


def test_news_of_the_past_does_not_replace_what_holds(home: Root) -> None:
    keep(home, "deploy-day", "Mondays after review", "user", since="2026-11-01")
    assert keep(home, "deploy-day", "Fridays after review", "user", "r_2", since="2026-03-01").outcome == "past"
    assert keep(home, "deploy-day", "They used to deploy on Wednesdays", "user", "r_3").outcome == "past"
    assert held(home) == {"deploy-day": "Mondays after review"}


def test_what_was_read_again_in_the_archive_does_not_come_back(home: Root) -> None:
    keep(home, "deploy-day", "We deploy on Fridays after review", "user")
    keep(home, "deploy-day", "We deploy on Mondays after review", "user", "r_2")
    assert keep(home, "deploy-day", "We deploy on Fridays after review", run="r_3").outcome == "past"
    assert held(home) == {"deploy-day": "We deploy on Mondays after review"}


def test_a_person_may_say_again_what_once_held(home: Root) -> None:
    for day in ("Fridays", "Mondays", "Fridays"):
        keep(home, "deploy-day", f"We deploy on {day} after review", "user", f"r_{day}")
    assert held(home) == {"deploy-day": "We deploy on Fridays after review"}


def test_A5_core_memory_is_not_replaced_by_an_update_under_another_key(home: Root) -> None:
    keep(home, "deploy-day", "We deploy on Mondays after review", "user", file="core")
    with pytest.raises(Refused, match="core"):
        keep(home, "days", "We deploy on Fridays after review", "user", "r_2")


@pytest.mark.parametrize("learned", ["last week", "2026-13-45", "x" * 30])
def test_a_time_that_a_person_wrote_in_words_stops_nothing(home: Root, learned: str) -> None:
    path = home.location(memory.path_of("working"))
    path.parent.mkdir(parents=True)
    path.write_text(f"deploy-day: {{ value: Fridays after review, learned: {learned} }}\n")
    assert claims.told(keep(home, "deploy-day", "Mondays after review", "user")).startswith("Remembered; it replaces")
    assert claims.told(keep(home, "deploy-day", "Sundays after review", "outside", "r_2")).startswith("Disputed")


# --- what says nothing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status", "done"),
        ("progress", "I am working on it"),
        ("task", "The task is completed successfully"),
        ("note", "ok"),
        ("hello", "said hello to the user"),
    ],
)
def test_how_the_work_goes_is_not_kept(home: Root, key: str, value: str) -> None:
    kept = keep(home, key, value)
    assert kept.outcome == "empty"
    assert "says too little" in claims.told(kept)
    assert not home.is_there


# --- who says so --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "outside", "by"),
    [
        ([("user", "from now on we deploy on Mondays after the review")], False, "user"),
        ([("user", "from now on we deploy on Mondays after the review")], True, "outside"),
        ([("user", "when do we deploy?")], False, "self"),
        ([("user", "we deploy on Fridays after review")], False, "self"),
        ([("user", "do not deploy on Mondays after review")], False, "self"),
        ([("agent:carol", "we deploy on Mondays after review")], False, "agent:carol"),
        ([("agent:carol", "please look")], False, "agent:carol"),
        ([("", "we deploy on Mondays after review")], False, "self"),
    ],
)
def test_who_says_so_follows_from_what_was_said(said: list[tuple[str, str]], outside: bool, by: str) -> None:
    assert claims.author("We deploy on Mondays after review", said, outside=outside) == by


@pytest.mark.parametrize(
    "said",
    [
        "I looked at the file and will go on tomorrow",
        "The user thanked me for the help",
        "Currently waiting for the build",
        "Read the message and replied to it",
        "The conversation was short",
    ],
)
def test_talk_about_the_work_itself_is_not_kept(said: str) -> None:
    assert facts.is_status(said)


@pytest.mark.parametrize(
    "said",
    [
        "The person likes short answers",
        "We lint Python with ruff",
        "The person wants formal letters",
        "The build needs Node 22",
        "I may not write to the production database",
        "The review of the parser is due in June",
        "The user said that invoices go to the accountant",
    ],
)
def test_what_holds_longer_is_no_talk_about_the_work(said: str) -> None:
    assert not facts.is_status(said)
