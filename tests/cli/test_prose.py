"""Text as it is drawn on a terminal."""

from __future__ import annotations

import pytest

from agent_worker.cli.prose import Page, cut, drawn, wrapped
from agent_worker.cli.wrapping import cells
from agent_worker.core.text import clean

FAMILY, RAINBOW = "👩\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("plain", 5),
        ("日本", 4),
        ("e\u0301te\u0301", 3),  # an accent stands on its letter
        (FAMILY, 2),
        (RAINBOW, 2),
        ("👍🏽", 2),
        ("🇩🇪🇫🇷", 4),
        ("❤\ufe0f", 2),
    ],
)
def test_a_text_takes_as_many_columns_as_a_terminal_gives_it(text: str, columns: int) -> None:
    assert cells(text) == columns


def test_words_are_wrapped_and_go_on_beneath_themselves() -> None:
    assert drawn("- one two three four five six", 20) == ["• one two three four", "  five six"]
    assert drawn("12. one two three four five", 20) == ["12. one two three", "    four five"]
    assert drawn("> one two three four five", 20) == ["│ one two three four", "│ five"]


def test_a_word_that_no_line_can_hold_is_cut_and_no_character_is() -> None:
    assert wrapped("a" * 25, 20) == ["a" * 20, "a" * 5]
    lines = drawn("你好世界" * 8, 21)
    assert [cells(line) for line in lines] == [20, 20, 20, 4]
    assert "".join(lines) == "你好世界" * 8


def test_no_line_is_wider_than_the_terminal() -> None:
    text = (
        f"# A title that is long\n{'word ' * 30}\n| a | b |\n|---|---|\n| {'x' * 30} | {FAMILY} |\n```\n{'y' * 90}\n```"
    )
    for columns in (20, 40, 60, 120):
        assert max(cells(line) for line in drawn(text, columns)) <= columns


def test_marks_are_drawn_and_not_shown() -> None:
    text = "## Title\n**bold**, *slanted* and `code` in [the docs](https://example.org), said @bob"
    assert drawn(text, 80) == ["Title", "bold, slanted and code in the docs (https://example.org), said @bob"]


@pytest.mark.parametrize("text", ["snake_case_name", "2*3*4", "a * b", "__init__.py", "*", "| one cell", "#tag"])
def test_what_only_looks_like_a_mark_stays(text: str) -> None:
    assert drawn(text, 80) == [text]


def test_a_table_is_aligned_where_it_fits_and_a_list_where_it_does_not() -> None:
    table = "| file | what |\n|---|:--|\n| a.py | 日本 |\n| long.py | x |"
    assert drawn(table, 40) == ["file     what", "───────  ────", "a.py     日本", "long.py  x"]
    wide = "| file | what |\n|---|---|\n| a.py | it is not closed after all |"
    assert drawn(wide, 24) == ["• file: a.py", "  what: it is not closed", "  after all"]


def test_code_is_left_as_it_is() -> None:
    assert drawn("```python\nx = **y**\n    # no title\n```\nafter", 40) == ["  x = **y**", "      # no title", "after"]


def test_lines_are_drawn_as_soon_as_they_are_whole() -> None:
    page = Page(40)
    assert page.add("**one**") == ["one"]
    assert page.add("| a |") == [], "a table waits for its end"
    assert page.add("|---|") == []
    assert page.add("then") == ["a", "─", "then"]
    assert page.end() == []


def test_what_is_too_long_for_a_line_is_cut_with_a_mark() -> None:
    assert cut("日本日本", 5) == "日本…"
    assert cut("short", 5) == "short"


def test_X7_emoji_are_joined_and_nothing_else_is() -> None:
    assert clean(f"{FAMILY} {RAINBOW}") == f"{FAMILY} {RAINBOW}"
    assert clean("pay\u200dpal \u200d 👩\u200dx") == "pay\\x200dpal \\x200d 👩\\x200dx"


def test_a_diff_is_drawn_as_it_is_and_ends_where_prose_begins() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n+from __future__ import annotations\n- **old**"
    assert drawn(f"**Look:**\n{diff}\nIs it **fine**?", 60) == [
        "Look:",
        *(f"  {line}" for line in diff.splitlines()),
        "Is it fine?",
    ]
