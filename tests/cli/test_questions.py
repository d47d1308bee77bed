"""What a typed line means as an answer, and how what is asked is shown."""

from __future__ import annotations

from typing import Any

import pytest

from agent_worker.cli.questions import in_one_line, reply_to, shown
from agent_worker.core.errors import BadInput


def item(kind: str, **more: Any) -> dict[str, Any]:
    known = {"id": "t_1", "number": 7, "kind": kind, "agent": "alice", "text": "alice asks: Tea? (yes / no)"}
    return known | {"question": "", "options": [], "tool": "", "arguments": {}} | more


@pytest.mark.parametrize(
    ("kind", "typed", "meant"),
    [
        ("question", " two sugars ", {"action": "answer", "text": "two sugars"}),
        ("vote", "2", {"action": "answer", "text": "2"}),
        ("approval", "1", {"action": "approve", "scope": "once"}),
        ("approval", "yes", {"action": "approve", "scope": "once"}),
        ("approval", "2", {"action": "approve", "scope": "run"}),
        ("approval", "3", {"action": "approve", "scope": "always"}),
        ("approval", "no, not on Friday", {"action": "deny", "text": "not on Friday"}),
        ("veto", "1", {"action": "approve"}),
        ("veto", "2 too early", {"action": "deny", "text": "too early"}),
        ("limit", "y", {"action": "retry"}),
        ("limit", "n", None),
    ],
)
def test_a_typed_line_is_an_answer(kind: str, typed: str, meant: dict[str, str] | None) -> None:
    assert reply_to(item(kind), typed) == meant


@pytest.mark.parametrize("kind", ["approval", "veto", "limit"])
@pytest.mark.parametrize("typed", ["", "perhaps", "9"])
def test_what_is_no_answer_is_asked_again(kind: str, typed: str) -> None:
    with pytest.raises(BadInput, match="a number from 1 to"):
        reply_to(item(kind), typed)


def test_an_approval_shows_the_call_as_one_reads_it() -> None:
    asked = item("approval", tool="bash", arguments={"command": "make\nmake test"})
    assert list(shown(asked, 60))[:3] == ["alice wants to use bash:", "    make", "    make test"]
    asked = item("approval", tool="write_file", arguments={"path": "a.txt", "text": "one\ntwo"})
    lines = ["    path: a.txt", "    text:", "    one", "    two", "  [1] yes, once"]
    assert list(shown(asked, 60))[1:6] == lines


def test_X7_what_is_asked_cannot_move_the_cursor() -> None:
    asked = item("approval", agent="a\x1b[2J", tool="ba\x07sh", arguments={"com\x08mand": "rm\x1b[A", "b": "\r\n"})
    assert not set("".join(shown(asked, 60))) & set("\x1b\x07\x08\r")


def test_in_a_pipe_one_line_names_the_command() -> None:
    assert in_one_line(item("question")) == (
        'waiting for you: alice asks: Tea? (yes / no) → agent-worker inbox answer 7 "…"'
    )
    assert in_one_line(item("approval")).endswith("→ agent-worker inbox approve 7 (or deny)")
