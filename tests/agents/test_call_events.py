"""What whoever looks on is told of a call: which it is, with what, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.teams import open_team

from agent_worker.agents.call_record import SHOWN, CallTexts
from agent_worker.backends.mock import calls, says
from agent_worker.core.clock import TestClock
from agent_worker.core.events import Called, Event, Returned
from agent_worker.core.redaction import Redactor
from agent_worker.tools.tool import Call

SECRET = "sk-" + "b2C3" * 8  # put together here: no scanner stumbles over it


async def test_a_result_is_told_under_the_id_of_its_call(tmp_path: Path) -> None:
    heard: list[Event] = []
    async with open_team(tmp_path, "alice", clock=TestClock()) as team:
        one, two = ({"text": text, "title": text} for text in ("one", "two"))
        team.backends["alice"].then(calls("note_write", **one), calls("note_write", **two), says("done"))
        team.runtime.bus.listen(heard.append, Called, Returned)
        await team.dm("alice", "go")
        await team.still()
    made = [event for event in heard if isinstance(event, Called)]
    assert [event.arguments["text"] for event in made] == ["one", "two"]
    assert all(event.call for event in made)
    assert [event.call for event in heard if isinstance(event, Returned)] == [event.call for event in made]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("text", "text"),
        (3, 3),
        (None, None),
        (True, True),
        (["a", {"b": 1.5}], ["a", {"b": 1.5}]),
        (f"it is {SECRET}", "it is [redacted:secret]"),
        ({"deep": [SECRET]}, {"deep": ["[redacted:secret]"]}),
        ("x" * (SHOWN + 5), "x" * SHOWN + " [… 5 more characters]"),
    ],
)
def test_an_argument_is_told_as_what_it_is_without_secrets_and_not_at_any_length(given: Any, shown: Any) -> None:
    told = CallTexts(Redactor([SECRET])).arguments(Call("c", "t", {"it": given, SECRET: 1}))
    assert told == {"it": shown, "[redacted:secret]": 1}


def test_a_long_list_is_told_by_its_beginning() -> None:
    told = CallTexts(Redactor()).arguments(Call("c", "t", {"it": ["word"] * SHOWN}))["it"]
    assert isinstance(told, str)
    assert len(told) < SHOWN + 60
