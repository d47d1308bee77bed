from __future__ import annotations

from agent_worker.core.difference import COMPARED, changed_lines
from agent_worker.identity.soul import diff_between


def test_a_change_is_shown_with_a_little_of_what_stands_around_it() -> None:
    old = ["one", "two", "three", "four", "five"]
    assert changed_lines(old, ["one", "two", "3", "four", "five"], around=1) == [
        "@@ -2,3 +2,3 @@",
        " two",
        "-three",
        "+3",
        " four",
    ]


def test_what_says_the_same_differs_in_nothing_however_long_it_is() -> None:
    for size in (3, COMPARED + 1):
        text = [str(n) for n in range(size)]
        assert changed_lines(text, list(text)) == []


def test_of_long_texts_all_between_the_common_ends_is_shown_in_a_time_that_grows_with_their_length() -> None:
    # Alternating lines that hardly ever agree: the smallest difference of these would take minutes.
    old = ["begin", *(f"{n % 7} {n % 11}" for n in range(1, 30_000)), "end"]
    new = ["begin", *(f"{n % 5} {n % 13} " for n in range(1, 30_000)), "end"]
    changed = changed_lines(old, new)
    assert changed[0] == "@@ line 2 @@"
    assert len(changed) == 1 + 2 * 29_999
    assert not {"-end", "+end", "-begin", "+begin"} & set(changed)


def test_a_line_that_begins_like_the_head_of_a_diff_is_a_line_of_a_soul_like_any_other() -> None:
    assert diff_between("a: 1\n-- said\n", "a: 1\n++ said\n") == "--- said\n+++ said\n"
