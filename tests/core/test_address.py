"""Addresses and names: three forms, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.address import RESERVED, Address, WorkspaceName, canonical, check_name, check_tag, parse_address
from agent_worker.core.errors import BadInput


def _allowed(name: str) -> bool:
    try:
        return bool(check_name(name))
    except BadInput:
        return False


names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,62}", fullmatch=True).filter(_allowed)
tags = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
addresses = st.one_of(
    st.builds(Address, agent=names),
    st.builds(Address, workflow=names, tag=tags),
    st.builds(Address, agent=names, workflow=names, tag=tags),
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("alice", Address(agent="alice")),
        ("@review", Address(workflow="review")),
        ("@review:pr-123", Address(workflow="review", tag="pr-123")),
        ("alice@review", Address(agent="alice", workflow="review")),
        ("alice@review:pr-123", Address(agent="alice", workflow="review", tag="pr-123")),
    ],
)
def test_each_form_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


def test_printing_drops_the_main_tag() -> None:
    assert str(parse_address("@review:main")) == "@review"
    assert str(parse_address("alice@review:main")) == "alice@review"
    assert parse_address("@review").workspace == WorkspaceName("review", "main")
    assert parse_address("alice").workspace is None


@pytest.mark.parametrize(
    ("text", "name", "shown", "full"),
    [
        ("review", WorkspaceName("review"), "review", "review:main"),
        ("@review", WorkspaceName("review"), "review", "review:main"),
        ("review:main", WorkspaceName("review"), "review", "review:main"),
        ("review:", WorkspaceName("review"), "review", "review:main"),
        ("@review:pr-123", WorkspaceName("review", "pr-123"), "review:pr-123", "review:pr-123"),
    ],
)
def test_a_workspace_is_called_by_its_workflow_and_by_its_tag_unless_that_is_main(
    text: str, name: WorkspaceName, shown: str, full: str
) -> None:
    assert WorkspaceName.parse(text) == name
    assert (str(name), name.full) == (shown, full)
    assert WorkspaceName.parse(str(name)) == WorkspaceName.parse(name.full) == name


@given(addresses)
def test_what_is_printed_is_read_back(address: Address) -> None:
    assert parse_address(str(address)) == address


@given(st.text())
def test_any_other_text_is_bad_input_and_nothing_else(text: str) -> None:
    try:
        address = parse_address(text)
    except BadInput:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "@",
        ":",
        "a b",
        "alice@",
        "@review:",
        "alice@review:",
        "alice:tag",
        "@@review",
        "a@b@c",
        "alice ",
        "@review:.x",
        "@review:a/b",
        "-rf",
        "../x",
        "alice\n",
        "@all",
        "user",
        "alice@system",
        "аlice",
    ],
)
def test_a_wrong_address_shows_the_three_forms(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_address(text)
    for form in ("alice", "@review:tag", "alice@review"):
        assert form in caught.value.hint


@pytest.mark.parametrize(
    "name", ["..", "-rf", "a/b", "con", "COM1", "nul", "🙂", "a" * 300, "alice.", "", "a b", "1st", "_x", "a\0", "a\n"]
)
def test_Y7_a_name_that_is_no_safe_file_name_is_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)


@pytest.mark.parametrize("name", [*sorted(RESERVED), "System", "ALL", "аlice", "ali\u200bce", "alice\u0301"])
def test_M14_reserved_and_look_alike_names_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        check_name(name)


def test_M14_names_are_one_ignoring_case() -> None:
    assert canonical("ALICE", ["bob", "Alice"]) == "Alice"
    assert canonical("carol", ["bob", "Alice"]) is None
    assert canonical("\u212aim", ["kim"]) is None  # the Kelvin sign is a k only after lower()


def test_a_tag_has_no_path_in_it() -> None:
    assert check_tag("v1.2_x-y") == "v1.2_x-y"
    for tag in ("..", ".x", "a/b", "", "a" * 64):
        with pytest.raises(BadInput):
            check_tag(tag)


def test_an_address_names_someone() -> None:
    with pytest.raises(ValueError, match="names an agent"):
        Address()
    with pytest.raises(ValueError, match="no tag"):
        Address(agent="alice", tag="x")


def test_a_name_of_other_letters_is_told_as_it_was_typed_and_what_cannot_be_seen_is_written_out() -> None:
    with pytest.raises(BadInput, match="'爱丽丝' is not a name"):
        check_name("爱丽丝")
    with pytest.raises(BadInput, match=r"'al\\u200bice' is not a name"):
        check_name("al\u200bice")
