"""Notes: plain Markdown that an agent keeps for itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_worker.core.errors import BadInput, NotFound, Refused, Stale
from agent_worker.files.root import Root
from agent_worker.memory import notes

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path / "alice")


def test_a_note_is_a_file_named_by_its_day_and_title(home: Root) -> None:
    name = notes.write(home, "What I learned", "Tests first.\n\nThen code.", when=NOW)
    assert name == "2026-01-05-what-i-learned.md"
    text = home.location(f"notes/{name}").read_text()
    assert text == "# What I learned\n\nTests first.\n\nThen code.\n" == notes.read(home, name)


def test_the_same_note_again_is_the_same_file_and_another_gets_a_number(home: Root) -> None:
    first = notes.write(home, "Plan", "one", when=NOW)
    assert notes.write(home, "Plan", "one", when=NOW) == first
    assert notes.write(home, "Plan", "two", when=NOW) == "2026-01-05-plan-2.md"
    assert notes.read(home, first) == "# Plan\n\none\n"


def test_notes_are_listed_newest_first(home: Root) -> None:
    for days in range(3):
        notes.write(home, f"Day {days}", "text", when=NOW + timedelta(days=days))
    assert notes.names(home) == ["2026-01-07-day-2.md", "2026-01-06-day-1.md", "2026-01-05-day-0.md"]


@pytest.mark.parametrize(
    "title",
    ["../../bob/notes/x", "/etc/passwd", "..", "a/b\\c", ".hidden", "nul\0l", "line\nbreak", "?*<>|", "", "x" * 500],
)
def test_F11_a_title_is_data_and_never_a_path(home: Root, title: str) -> None:
    name = notes.write(home, title, "text", when=NOW)
    (file,) = home.location().parent.rglob("*.md")
    assert file == home.location(f"notes/{name}")
    assert notes.read(home, name).endswith("text\n")


def test_a_title_in_any_alphabet_can_be_read_in_the_name(home: Root) -> None:
    assert notes.write(home, "Über Größe", "x", when=NOW) == "2026-01-05-über-größe.md"


@pytest.mark.parametrize("name", ["../memory/core.yaml", "notes/x.md", "/etc/passwd", "missing.md", "..", ""])
def test_F11_only_notes_are_read(home: Root, name: str) -> None:
    notes.write(home, "Plan", "one", when=NOW)
    with pytest.raises((NotFound, BadInput)):
        notes.read(home, name)


def test_D3_a_note_that_cannot_be_put_away_stays_where_it_is(home: Root) -> None:
    name = notes.write(home, "Plan", "of others", when=NOW)
    home.location(f"{notes.FOLDER}/{notes.QUARANTINE}/{name}").mkdir(parents=True)  # no file can be put there
    with pytest.raises(Refused):
        notes.hold_back(home, name)
    assert notes.names(home) == [name]


def test_A6_a_note_that_is_held_back_is_not_read_by_the_name_of_its_folder(home: Root) -> None:
    name = notes.write(home, "Plan", "of others", when=NOW)
    assert notes.hold_back(home, name)
    for path in (name, f"{notes.QUARANTINE}/{name}"):
        with pytest.raises(NotFound):
            notes.read(home, path)


def test_D8_a_note_that_was_changed_meanwhile_is_not_written_over(home: Root) -> None:
    name = notes.write(home, "Plan", "first", when=NOW)
    was = notes.read(home, name)
    home.replace(f"{notes.FOLDER}/{name}", "by somebody else\n")
    with pytest.raises(Stale):
        notes.edit(home, name, "mine", was=was)
    assert notes.read(home, name) == "by somebody else\n"


def test_an_empty_or_huge_note_is_refused(home: Root) -> None:
    for text in (" \n", "x" * 100_000):
        with pytest.raises(BadInput):
            notes.write(home, "Plan", text, when=NOW)
    assert not home.is_there
