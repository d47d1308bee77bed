"""Todos: a check list in Markdown that a person may edit too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.memory.editors import SAVED, EditedMeanwhile

from agent_worker.core.errors import BadInput, NotFound, Stale
from agent_worker.files.root import Root
from agent_worker.memory import todos
from agent_worker.memory.todos import Todo

LIST = """\
# My list

Some words in between.

- [ ] first
* [x] an old one
  - [ ] nested

| a | table |
"""


@pytest.fixture
def home(tmp_path: Path) -> Root:
    return Root(tmp_path / "alice")


def by_hand(home: Root, text: str) -> Path:
    path = home.location(todos.PATH)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_list_is_made_by_its_first_entry(home: Root) -> None:
    assert todos.load(home) == []
    assert not home.is_there
    assert todos.add(home, "write the tests")
    assert home.location(todos.PATH).read_text() == "- [ ] write the tests\n"


def test_what_a_person_wrote_around_it_is_kept(home: Root) -> None:
    path = by_hand(home, LIST)
    todos.add(home, "second")
    todos.finish(home, 3)
    assert path.read_text() == LIST.replace("  - [ ] nested", "  - [x] nested") + "- [ ] second\n"


def test_numbers_are_places_in_the_list(home: Root) -> None:
    by_hand(home, LIST)
    assert todos.load(home) == [Todo(1, "first", False), Todo(2, "an old one", True), Todo(3, "nested", False)]
    assert todos.finish(home, 1).text == "first"
    assert [t.text for t in todos.open_items(home)] == ["nested"]


def test_a_file_without_a_last_newline_or_with_those_of_windows_is_understood(home: Root) -> None:
    path = by_hand(home, "")
    path.write_bytes(b"- [ ] one\r\n- [ ] two")
    todos.finish(home, 1)
    todos.add(home, "three")
    assert path.read_bytes() == b"- [x] one\r\n- [ ] two\n- [ ] three\n"


def test_the_same_todo_is_on_the_list_once(home: Root) -> None:
    assert todos.add(home, "write  the\ntests")
    assert not todos.add(home, "write the tests")
    todos.finish(home, 1)
    assert todos.add(home, "write the tests"), "what was done may have to be done again"


@pytest.mark.parametrize("text", ["a\n- [x] forged", "a\r- [x] forged", "a\u2028- [x] forged", "a\x0b- [x] forged"])
def test_F11_a_todo_with_control_characters_is_one_line(home: Root, text: str) -> None:
    todos.add(home, text)
    assert [(t.text, t.done) for t in todos.load(home)] == [("a - [x] forged", False)]


def test_an_empty_or_endless_todo_is_refused(home: Root) -> None:
    for text in ("  ", "x" * 600):
        with pytest.raises(BadInput):
            todos.add(home, text)
    assert not home.is_there


def test_a_number_that_is_not_there_is_said(home: Root) -> None:
    todos.add(home, "one")
    with pytest.raises(NotFound, match="number 2"):
        todos.finish(home, 2)


def test_D8_a_save_at_the_same_moment_is_not_written_over(home: Root) -> None:
    path = by_hand(home, "- [ ] one\n")
    edited = EditedMeanwhile(home.path)
    with pytest.raises(Stale):
        todos.add(edited, "two")
    assert path.read_text() == SAVED
    (kept,) = path.parent.glob("*.conflict-*")
    assert kept.read_text() == "- [ ] one\n- [ ] two\n"


def test_a_todo_that_was_done_may_be_put_on_the_list_again(home: Root) -> None:
    assert todos.add(home, "water the plants")
    assert not todos.add(home, "water the plants"), "it is there, and open"
    todos.finish(home, 1)
    assert todos.add(home, "water the plants")
    assert [(todo.number, todo.done) for todo in todos.load(home)] == [(1, True), (2, False)]
