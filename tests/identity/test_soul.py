"""The files of a soul: versions that are never lost, edits by hand that are picked up, mistakes that are named."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.errors import BadInput, DefinitionError
from agent_worker.definitions.agent_blocks import Soul
from agent_worker.files.root import Root
from agent_worker.identity import soul
from agent_worker.identity.change import Change

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BEGAN = Soul(role="reviewer", principles=("Explain the why",))
ADD = Change("add", "principles", "Always cite the line")


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path).beneath(".agents/alice")


def grow(home: Root, change: Change = ADD, definition: Soul = BEGAN) -> soul.SoulVersion:
    made, _ = soul.amend(home, definition, lambda now: soul.applied(change, now), by="user", reason="why not", now=NOW)
    assert made is not None
    return made


def settled(home: Root, definition: Soul = BEGAN) -> soul.CurrentSoul:
    return soul.settle(home, definition, now=NOW)[0]


def test_without_files_the_soul_is_the_definitions_and_nothing_is_written(home: Root) -> None:
    found = settled(home)
    assert (found.record, found.version) == (BEGAN.record(), 1)
    assert not home.is_there


def test_a_change_keeps_the_whole_soul_what_changed_and_why(home: Root) -> None:
    grow(home)
    first, second = soul.history(home)
    assert (first.number, first.by, first.record) == (1, "definition", BEGAN.record())
    assert (second.number, second.by, second.reason) == (2, "user", "why not")
    assert second.diff == "+  - Always cite the line\n"
    assert second.text == home.read_text(soul.FILE)
    assert home.read_text("soul.history/0002.yaml").startswith("version: 2\nat: ")
    assert settled(home).principles == ["Explain the why", "Always cite the line"]


def test_an_edit_by_hand_becomes_a_version_of_the_user_and_comments_stay(home: Root) -> None:
    home.replace(soul.FILE, "# mine\nrole: gardener\nprinciples:\n- water early\n")
    assert soul.look(home, BEGAN).record["role"] == "gardener", "it holds at once"
    settled(home)
    assert [(v.number, v.by, v.reason) for v in soul.history(home)] == [
        (1, "definition", "as the definition says"),
        (2, "user", "edited by hand"),
    ]
    grow(home)
    assert home.read_text(soul.FILE).startswith("# mine\nrole: gardener\n")
    home.replace(soul.FILE, home.read_text(soul.FILE).replace("gardener", "cook"))
    assert settled(home).version == 4
    assert soul.history(home)[-1].diff == "-role: gardener\n+role: cook\n"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("role: [", "soul.yaml:"),
        ("role: reviewer\nprinciples: 7\n", "soul.yaml:2"),
        ("- a list\n", "soul.yaml:1"),
        ("role: a\nrole: b\n", "soul.yaml:2"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_the_last_good_version_is_used(home: Root, broken: str, told: str) -> None:
    grow(home)
    home.replace(soul.FILE, broken)
    found = settled(home)
    assert found.principles == ["Explain the why", "Always cite the line"]
    assert told in found.problem
    assert home.read_text(soul.FILE) == broken, "whoever made the mistake finds it as it was"
    with pytest.raises((BadInput, DefinitionError)):
        grow(home, Change("add", "principles", "Another"))
    assert len(soul.history(home)) == 2


def test_a_file_that_got_lost_is_written_again(home: Root) -> None:
    grow(home)
    text = home.read_text(soul.FILE)
    home.remove(soul.FILE)
    assert settled(home).version == 2
    assert home.read_text(soul.FILE) == text


def test_an_edit_of_the_definition_is_carried_over_and_nothing_is_lost(home: Root) -> None:
    grow(home)
    edited = Soul(role="critic", principles=("Explain the why", "Be kind"), style="calm")
    found = settled(home, edited)
    assert found.record == {
        "role": "critic",
        "principles": ["Explain the why", "Always cite the line", "Be kind"],
        "style": "calm",
    }
    assert [(v.number, v.by, v.reason) for v in soul.history(home)][-1] == (
        3,
        "definition",
        "the definition was edited",
    )
    assert settled(home, edited).version == 3, "once"
    shorter = Soul(role="critic", principles=("Be kind",))
    assert settled(home, shorter).record == {"role": "critic", "principles": ["Always cite the line", "Be kind"]}


def test_an_edit_by_hand_and_one_of_the_definition_are_two_versions(home: Root) -> None:
    grow(home)
    home.replace(soul.FILE, home.read_text(soul.FILE) + "motto: onwards\n")
    found = settled(home, Soul(role="reviewer", principles=("Explain the why", "Be kind")))
    assert found.record["motto"] == "onwards"
    assert found.principles == ["Explain the why", "Always cite the line", "Be kind"]
    assert [v.by for v in soul.history(home)] == ["definition", "user", "user", "definition"]


def test_a_change_that_is_there_already_makes_no_version(home: Root) -> None:
    grow(home)
    again = soul.amend(home, BEGAN, lambda now: soul.applied(ADD, now), by="user", reason="", now=NOW)
    assert again == (None, [])


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (ADD, ["Explain the why", "Always cite the line"]),
        (Change("change", "principles", "Be brief", "Explain the why"), ["Be brief"]),
        (Change("remove", "principles", "Explain the why"), None),
        (Change("change", "role", "critic", "reviewer"), "critic"),
        (Change("add", "style", "calm"), "calm"),
    ],
)
def test_every_kind_of_change(home: Root, change: Change, after: object) -> None:
    grow(home, change)
    assert settled(home).record.get(change.field) == after


def test_a_change_that_does_not_fit_any_more_is_refused(home: Root) -> None:
    for change in (Change("change", "principles", "x", "gone"), Change("add", "role", "critic")):
        with pytest.raises(BadInput):
            grow(home, change)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60))
def test_a_version_gives_its_text_back_byte_for_byte(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    home = Root(tmp_path_factory.mktemp("souls"))
    made = soul._keep(home, None, by="user", reason=text[:20], text=text, at=NOW)
    assert soul.version_at(home, made.number).text == text


def test_a_number_whose_file_cannot_be_read_is_left_to_it(home: Root) -> None:
    grow(home)
    home.replace("soul.history/0003.yaml", "\0 noise")
    assert grow(home, Change("add", "principles", "Third")).number == 4
    assert home.read_text("soul.history/0003.yaml") == "\0 noise"
    assert [v.number for v in soul.history(home)] == [1, 2, 4]
