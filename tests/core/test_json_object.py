"""What models and programs write as the arguments of a call, which all who look on are told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest

from agent_worker.core.json_object import DEEPEST, json_object


@dataclass
class Told:
    arguments: dict[str, Any] | None


@pytest.mark.parametrize(("opens", "closes"), [('{"a":', "}"), ("[", "]")])
def test_as_much_as_can_be_told_is_an_object_and_no_more(opens: str, closes: str) -> None:
    def nested(levels: int) -> str:
        return '{"x":' + opens * levels + "1" + closes * levels + "}"

    assert json_object(nested(1)) == {"x": {"a": 1} if closes == "}" else [1]}
    deepest = next(levels for levels in range(200) if json_object(nested(levels + 1)) is None)
    assert deepest in (DEEPEST - 2, DEEPEST - 1)
    asdict(Told(json_object(nested(deepest))))
    assert [json_object(nested(levels)) for levels in (400, 960, 100_000)] == [None, None, None]


@pytest.mark.parametrize("text", ["", "null", "[1]", '"a"', "{", "7"])
def test_what_is_no_object_is_none(text: str) -> None:
    assert json_object(text) is None
