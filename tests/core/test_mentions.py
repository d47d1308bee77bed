"""Whom a message calls on. The attack rows are those of RELIABILITY.md."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.mentions import Mentions, find_mentions

TEAM = ("alice", "Bob", "al", "code-reviewer")


def names(text: str, *, sender: str = "user", members: tuple[str, ...] = TEAM) -> tuple[str, ...]:
    return find_mentions(text, members, sender=sender).names


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("@alice hi", ("alice",)),
        ("hi @alice.", ("alice",)),
        ("@alice, @bob: go", ("alice", "Bob")),
        ("(@alice)", ("alice",)),
        ("@alice/@bob", ("alice", "Bob")),
        ("**@alice**'s", ("alice",)),
        ("@ALICE @Alice", ("alice",)),
        ("@bob @alice @bob", ("Bob", "alice")),
        ("@code-reviewer", ("code-reviewer",)),
        ("@al", ("al",)),
        ("@alice_2 @alice-x @alice2 @alicé", ()),
        ("@ alice @", ()),
        ("alice@example.com 9@alice _@alice é@alice", ()),
        ("@alice@bob", ("alice",)),
        ("hello", ()),
        ("", ()),
    ],
)
def test_a_mention_is_an_at_and_the_longest_name(text: str, called: tuple[str, ...]) -> None:
    assert names(text) == called


@pytest.mark.parametrize(
    "text",
    [
        "`@alice`",
        "``a ` @alice``",
        "`two\nlines @alice`",
        "```\n@alice\n```",
        "```python\n@alice\n```\n",
        "~~~\n```\n@alice\n~~~",
        "  ```\n@alice",
        "````\n```\n@alice\n````",
        "> @alice",
        "  > said @alice",
        ">> @alice",
        "https://example.com/@alice",
        "see http://x.y/?q=@alice&z",
        "www.example.com/@alice",
        "mail bob@alice now",
    ],
)
def test_A10_code_quotes_urls_and_addresses_call_on_nobody(text: str) -> None:
    assert find_mentions(text, TEAM, sender="user") == Mentions()


@pytest.mark.parametrize(
    "text",
    [
        "`code` @alice",
        "```\ncode\n```\n@alice",
        "> quoted\n@alice",
        "https://example.com @alice",
        "<https://example.com>@alice",
        "a stray ` and @alice",
        "``` not closed by ` in its line ``` @alice",
        "one ` here\n\nand @alice there `",
        "a > b, @alice",
        "`x`@alice",
    ],
)
def test_words_beside_code_and_quotes_do_call(text: str) -> None:
    assert names(text) == ("alice",)


def test_all_means_every_member_but_the_sender() -> None:
    assert names("@all go", sender="alice") == ("Bob", "al", "code-reviewer")
    assert names("@bob and @all", sender="user") == ("Bob", "alice", "al", "code-reviewer")


def test_an_agent_never_calls_itself() -> None:
    assert find_mentions("@alice @ALICE", TEAM, sender="alice") == Mentions()


def test_the_person_is_called_by_user() -> None:
    assert find_mentions("@user?", TEAM, sender="alice") == Mentions(user=True)
    assert find_mentions("@user?", TEAM, sender="user") == Mentions()


def test_who_is_no_member_is_told_once() -> None:
    found = find_mentions("@carol @Carol @alice @dave. @аlice", TEAM, sender="user")
    assert found == Mentions(names=("alice",), unknown=("carol", "dave", "аlice"))


def test_Y12_a_filled_in_value_calls_on_nobody() -> None:
    text = "@alice look: @bob do it"
    value = (text.index("@bob"), len(text))
    assert find_mentions(text, TEAM, sender="user", quoted=[value]) == Mentions(names=("alice",))


def test_Y12_a_filled_in_value_cannot_hide_what_the_author_wrote() -> None:
    value = "```\n> `"
    text = f"look: {value}\n@alice `x`"
    assert find_mentions(text, TEAM, sender="user", quoted=[(6, 6 + len(value))]).names == ("alice",)


def test_Y12_a_filled_in_value_cannot_end_the_fence_around_it() -> None:
    text = "```\nx\n```\n@bob\n```\n"
    assert find_mentions(text, TEAM, sender="user", quoted=[(4, 15)]) == Mentions()


def test_an_at_before_a_filled_in_name_is_the_authors() -> None:
    assert find_mentions("@bob, go", TEAM, sender="user", quoted=[(1, 4)]).names == ("Bob",)


@pytest.mark.parametrize(
    "text",
    [
        "@a" * 500_000,
        "@a " * 333_000,
        "@all " * 200_000,
        "`" * 1_000_000,
        "` `` ``` " * 110_000,
        "".join("`" * n + " " for n in range(1, 1400)),
        "> @a\n" * 200_000,
        "```\n" * 250_000,
        " " * 1_000_000 + "```",
        "://" * 333_000,
        "www." * 250_000,
        "@" * 1_000_000,
        "@" + "a" * 1_000_000,
        "a" * 1_000_000,
        "\n" * 1_000_000,
        " ".join(f"@n{n}" for n in range(100_000)),
    ],
    ids=lambda text: text[:8],
)
def test_D4p_a_megabyte_takes_linear_time(text: str) -> None:
    started = time.process_time()
    find_mentions(text, TEAM, sender="user", quoted=[(n, n + 1) for n in range(0, len(text), 100)])
    assert time.process_time() - started < 5  # quadratic would take hours


pieces = st.lists(
    st.sampled_from(
        [*TEAM, "@", "@", "@alice", "`", "```", "\n", "\n\n", "> ", " ", "https://x", ".", "-", "é", "@all"]
    ),
    max_size=30,
).map("".join)


@given(st.one_of(pieces, st.text()), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_it_never_raises_and_names_only_members(text: str, spans: list[tuple[int, int]]) -> None:
    quoted = [(min(span), min(max(span), len(text))) for span in spans]
    found = find_mentions(text, TEAM, sender="alice", quoted=quoted)
    assert set(found.names) <= set(TEAM) - {"alice"}
    assert len(set(found.names)) == len(found.names)
    assert not {name.lower() for name in found.unknown} & {name.lower() for name in TEAM}


@given(st.text(alphabet="@alicebo-_ .,:é1\n", max_size=60))
def test_plain_words_are_read_as_the_grammar_says(text: str) -> None:
    """The reference: one pattern, right but only for text without code, quotes and URLs."""
    lower = {name.lower(): name for name in TEAM}
    expected = [lower[word.lower()] for word in re.findall(r"(?<!\w)@([\w-]+)", text) if word.lower() in lower]
    assert names(text) == tuple(dict.fromkeys(expected))


@given(pieces)
def test_code_around_a_text_silences_it(text: str) -> None:
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 3)
    assert find_mentions(f"{fence}\n{text}\n{fence}", TEAM, sender="user") == Mentions()
