"""A block checks itself: what that takes is made when one is first written, not with whatever may contain it."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

from agent_worker.definitions.block import Block


def test_what_checks_a_block_inside_another_is_made_when_one_is_written() -> None:
    class Inner(Block):
        size: int = 1

    class Outer(Block):
        inner: Inner = Field(default_factory=Inner.model_construct)

    assert Outer.model_validate({}).inner.size == 1
    assert not Inner.__pydantic_complete__
    assert Outer.model_validate({"inner": {"size": 2}}).inner.size == 2
    assert Inner.__pydantic_complete__


def test_what_is_wrong_inside_is_told_where_it_stands_together_with_the_rest() -> None:
    class Leaf(Block):
        size: int = 1

    class Branch(Block):
        leaves: dict[str, Leaf] = Field(default_factory=dict)
        width: int = 1

    with pytest.raises(ValidationError) as told:
        Branch.model_validate({"leaves": {"a": {"size": "x"}, "b": {"sise": 2}}, "width": "y"})
    places = [("leaves", "a", "size"), ("leaves", "b", "sise"), ("width",)]
    assert [each["loc"] for each in told.value.errors()] == places
    assert 'did you mean "size"?' in str(told.value.errors()[1]["ctx"])
