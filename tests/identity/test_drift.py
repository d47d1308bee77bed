"""Whether an agent keeps to its soul is measured without a model, and a person is told when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.identity.people import Life
from tests.teams import open_team

from agent_worker.core.clock import TestClock
from agent_worker.identity import drift, soul
from agent_worker.identity.drift import probe_for
from agent_worker.identity.past_work import PastTurn

DAY = 86400 * 10**6


def answered(*answers: str, tools: tuple[str, ...] = ()) -> list[PastTurn]:
    return [
        PastTurn(f"r{n}", 1_767_603_600_000_000 + n * DAY, "?", text, tools=tools) for n, text in enumerate(answers)
    ]


def current(*principles: str, **more: object) -> soul.CurrentSoul:
    record = {"principles": list(principles), **more}
    return soul.CurrentSoul(soul.written(record), record, 1)


@pytest.mark.parametrize(
    ("principle", "keeps", "breaks"),
    [
        ("Answer in at most 5 words", "Only a few words here", "These are many more words than there should be"),
        ("Keep it under two sentences", "One sentence.", "One. Two. Three."),
        ("Never use emojis", "Done.", "Done 🎉"),
        ("Avoid exclamation marks", "Done.", "Done!"),
        ("Always use bullet points", "- one of the things that matter here is this and that\n- two", "one " * 20),
        ("Never apologise", "It is mended.", "Sorry, it was broken."),
        ('Write "use", not "utilize"', "We use it.", "We utilize it."),
        ('Never say "leverage"', "We use it.", "We leverage it."),
        ("Prefer short answers", "Yes.", "word " * 200),
        ("Always explain trade-offs", "The trade-off here is speed against the memory that it takes.", "It is " * 10),
    ],
)
def test_the_words_of_a_principle_say_how_it_is_measured(principle: str, keeps: str, breaks: str) -> None:
    probe = probe_for(principle)
    assert probe is not None
    kept, broken = answered(keeps, breaks)
    assert (probe.kept(kept), probe.kept(broken)) == (True, False)


def test_a_tool_that_a_principle_names_is_looked_for() -> None:
    probe = probe_for("Keep a note (note_write) about each piece of work")
    assert probe is not None
    assert [probe.kept(turn) for turn in (*answered("x", tools=("note_write",)), *answered("x"))] == [True, False]


@pytest.mark.parametrize("principle", ["Be kind", "Think before you speak", "Suggest, don't demand"])
def test_what_nobody_can_see_is_not_measured(principle: str) -> None:
    assert probe_for(principle) is None
    (found,) = drift.adherence(current(principle), answered("anything"))
    assert (found.probe, found.share) == ("", None)


def test_a_person_says_how_a_principle_is_measured() -> None:
    probes = {"Be kind": {"pattern": "thank*"}, "Be calm": {"absent": "now"}, "Be brief": {"longest": 3}}
    found = drift.probes_of({"principles": ["Be kind", "Be calm", "Be brief", "Be"], "probes": probes})
    long = "Thanks for the patch, it does what it should and reads well too"
    assert [probe.kept(turn) for probe in found.values() for turn in answered(long)] == [True, True, False]
    assert "probes" not in current("Be kind", probes=probes).spoken, "how it is measured is not told to the agent"


def test_a_pattern_cannot_keep_us_busy() -> None:
    probe = drift.probes_of({"principles": ["x"], "probes": {"x": {"pattern": "(a+)+$ a*a*a*a*a*a*a*b"}}})["x"]
    assert probe.kept(answered("a" * 19_000 + " and some more words to be long enough for it " * 3)[0]) is False


def test_a_principle_fell_when_it_is_kept_in_less_than_three_of_five_answers() -> None:
    good, bad = "Done.", "Done 🎉"
    before = drift.adherence(current("Never use emojis"), answered(*[good] * 20, *[bad] * 6))[0]
    after = drift.adherence(current("Never use emojis"), answered(*[good] * 20, *[bad] * 7))[0]
    assert (before.fell, before.kept, before.of) == (False, 9, 15)
    assert (after.fell, after.kept) == (True, 8)
    assert sum(week.of for week in after.weeks) == 27


def test_what_may_be_kept_in_other_words_falls_only_from_where_it_was() -> None:
    said = "The trade-off is speed against memory, and here memory matters more."
    silent = "It takes more time and uses less memory, and that is what matters here."
    never = drift.adherence(current("Always explain trade-offs"), answered(*[silent] * 40))[0]
    fell = drift.adherence(current("Always explain trade-offs"), answered(*[said] * 20, *[silent] * 15))[0]
    assert (never.fell, fell.fell) == (False, True)


async def test_the_person_is_told_once_that_a_principle_fell(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": "soul: { principles: [Never use emojis] }\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        life = Life(team, tmp_path)
        await life.told(*(f"do {n}" for n in range(15)))
        assert await team.inbox() == []
        await life.told(*(f"and {n}" for n in range(12)), answer="Done 🎉")
        ((kind, text),) = await team.inbox()
        assert kind == "drift"
        assert "Never use emojis" in text
        assert "8 of its last 15 answers" in text


async def test_the_person_is_told_that_a_soul_became_another(tmp_path: Path, clock: TestClock) -> None:
    extra = {"alice": "soul: { role: reviewer of everything, principles: [Be kind to all who ask you] }\n"}
    async with open_team(tmp_path, "alice", clock=clock, extra=extra) as team:
        life = Life(team, tmp_path)
        for text in ("role: gardener of roses\n", "role: gardener of roses and of lilies too\n"):
            life.home.mkdir(parents=True, exist_ok=True)
            (life.home / "soul.yaml").write_text(text)
            await life.told("hello")
            await life.days_pass()
        await life.told("hello again")
        assert [(kind, "has changed by" in text) for kind, text in await team.inbox()] == [("drift", True)]


async def test_what_a_person_changes_with_a_command_or_on_the_page_is_no_news_to_them(
    tmp_path: Path, clock: TestClock
) -> None:
    async with open_team(tmp_path, "alice", clock=clock, extra={"alice": "soul: { role: reviewer }\n"}) as team:
        life = Life(team, tmp_path)
        for text in ("role: gardener\n", "role: gardener of roses\n", "role: cook\n"):
            await life.evolution.edit(text, was=(await life.soul()).text)
        await life.told("hello")
        assert await team.inbox() == []


async def test_one_change_that_a_person_made_is_no_drift(tmp_path: Path, clock: TestClock) -> None:
    async with open_team(tmp_path, "alice", clock=clock) as team:
        life = Life(team, tmp_path)
        await life.evolution.edit("role: gardener\n", was=(await life.soul()).text)
        await life.told("hello")
        assert await team.inbox() == []
