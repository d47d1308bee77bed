"""What a typed function takes: checked, described, and explained when it is wrong."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_worker.core.errors import BadInput
from agent_worker.core.plain_schema import plain_schema, plain_values
from agent_worker.core.signature import Flat, Signature
from agent_worker.tools.recall import OWN
from agent_worker.tools.toolbox import TASK, TEAM


@dataclass(frozen=True, slots=True)
class Order:
    """A request with a required field, one that has a default, and one that is made anew each time."""

    what: str
    size: Literal["Small", "Large"] = "Small"
    extras: dict[str, str] = field(default_factory=dict)


class Nested(BaseModel):
    depth: int


def plain(context: object, text: str, times: int = 1, numbers: list[int] | None = None) -> None: ...


def ordered(context: object, at: str, order: Flat[Order], urgent: bool = False) -> None: ...


def nested(context: object, inner: Nested) -> None: ...


def nothing(context: object) -> None: ...


def test_the_fields_of_a_flat_request_are_arguments_like_any_other() -> None:
    def written_out(
        context: object,
        at: str,
        what: str,
        size: Literal["Small", "Large"] = "Small",
        extras: dict[str, str] = {},  # noqa: B006 — read from the signature, never changed
        urgent: bool = False,
    ) -> None: ...

    assert Signature(ordered, skip=1).schema() == Signature(written_out, skip=1).schema()


def test_the_function_gets_the_request_as_one_value() -> None:
    checked = Signature(ordered, skip=1).check({"at": "bar", "what": "tea", "size": "Large"})
    assert checked == {"at": "bar", "order": Order("tea", "Large", {}), "urgent": False}


def test_two_requests_do_not_share_what_a_default_made() -> None:
    signature = Signature(ordered, skip=1)
    first, second = (signature.check({"at": "bar", "what": "tea"})["order"] for _ in range(2))
    first.extras["milk"] = "yes"
    assert second.extras == {}


def test_a_model_that_is_not_flat_stays_an_object() -> None:
    signature = Signature(nested, skip=1)
    assert signature.check({"inner": {"depth": 3}}) == {"inner": Nested(depth=3)}
    assert signature.takes("inner")
    assert not signature.takes("depth")


@pytest.mark.parametrize(
    ("function", "given", "message", "hint"),
    [
        (plain, {}, "text is missing", "plain takes: text, times?, numbers?"),
        (plain, {"text": "x", "by": 1}, "there is no argument by", "plain takes: text, times?, numbers?"),
        (plain, {"text": 7}, "text: input should be a valid string", "plain takes: text, times?, numbers?"),
        (plain, {"text": "x", "times": 2**63}, "times: this number is too large", ""),
        (plain, {"text": "x", "numbers": [1, -(2**63) - 1]}, "numbers: this number is too large", ""),
        (ordered, {"at": "bar"}, "what is missing", "ordered takes: at, what, size?, extras?, urgent?"),
        (ordered, {"at": "b", "what": "t", "size": "Tiny"}, "size: input should be 'Small' or 'Large'", None),
        (ordered, {"at": "b", "order": {"what": "t"}}, "what is missing; there is no argument order", None),
        (nothing, {"x": 1}, "there is no argument x", "nothing takes: nothing"),
    ],
)
def test_what_is_wrong_is_a_sentence_that_names_it(
    function: Any, given: dict[str, Any], message: str, hint: str | None
) -> None:
    with pytest.raises(BadInput) as caught:
        Signature(function, skip=1).check(given)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


def test_a_sentence_does_not_repeat_what_was_given() -> None:
    with pytest.raises(BadInput) as caught:
        Signature(plain, skip=1).check({"text": "x", "times": "s3cret"})
    assert "s3cret" not in f"{caught.value.message} {caught.value.hint}"


def _of_all_kinds(
    text: str,
    count: int,
    share: float = 0.5,
    is_loud: bool = False,
    since: int | None = None,
    names: list[str] | None = None,
    tiers: list[int] = [],  # noqa: B006
    tier: Literal["working", "core"] = "core",
    only: Literal["one"] = "one",
    whose: Literal["mine", "yours"] | None = None,
    parts: Sequence[str] | None = None,
    either: int | str = 1,
    long_name_: str = "",
    anything: dict[str, int] | None = None,
    few: Annotated[int, Field(ge=1)] = 1,
) -> None: ...


@pytest.mark.parametrize("name", [*inspect.signature(_of_all_kinds).parameters])
def test_the_schema_of_plain_types_is_that_of_pydantic(name: str) -> None:
    hints = get_type_hints(_of_all_kinds, include_extras=True)
    parameter = inspect.signature(_of_all_kinds).parameters[name]
    default = ... if parameter.default is inspect.Parameter.empty else parameter.default
    found = plain_schema({name: (hints[name], default)})
    fields: dict[str, Any] = {name: (hints[name], default)}
    made = create_model("made", __config__=ConfigDict(extra="forbid"), **fields)
    expected = made.model_json_schema()
    expected.pop("title")
    assert found is None or json.dumps(found) == json.dumps(expected)
    assert (found is None) == (name in ("tiers", "only", "anything", "few"))


def test_the_schema_of_each_tool_is_that_of_pydantic() -> None:
    for each in (*TEAM, *TASK.values(), *OWN):
        signature = Signature(each.function, skip=2 if each.stored else 1)
        expected = signature.arguments.model_json_schema()
        expected.pop("title")
        assert each.spec.schema == expected


_ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(["core", "one"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(inspect.signature(_of_all_kinds).parameters, _ANY_JSON)))
def test_what_is_taken_as_it_is_is_what_pydantic_makes_of_it(some: dict[str, Any]) -> None:
    signature = Signature(_of_all_kinds, skip=0)
    whole = {"text": "", "count": 0} | some
    for name, value in whole.items():
        alone = {"text": "", "count": 0, name: value}
        taken = plain_values(signature._fields[0], alone)
        if taken is not None:
            checked = signature.arguments.model_validate(alone)
            made = {each: getattr(checked, each) for each in signature.arguments.model_fields}
            assert taken == made
            assert {each: type(of) for each, of in taken.items()} == {each: type(of) for each, of in made.items()}


def test_a_default_that_can_be_added_to_is_nobody_elses() -> None:
    signature = Signature(ordered, skip=1)
    given = {"at": "here", "what": "tea"}
    one, other = signature.check(given)["order"], signature.check(given)["order"]
    one.extras["sugar"] = "yes"
    assert other.extras == {}
    assert signature.check(given)["order"].extras == {}
