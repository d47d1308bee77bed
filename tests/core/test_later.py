"""What is made when it is first used behaves as what the standard library makes at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from agent_worker.core import later

Make = Callable[..., Any]


def of_each_kind(dataclass: Make) -> dict[str, type]:
    """The same classes, by one decorator or the other: every option and every kind of field that the package uses."""

    @dataclass(frozen=True, slots=True)
    class Plain:
        name: str
        number: int = 1
        names: list[str] = field(default_factory=list)
        kind: ClassVar[str] = "plain"

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ByName:
        name: str
        number: int = 1

    @dataclass(slots=True)
    class Changing:
        name: str
        seen: int = field(default=0, init=False)
        hidden: str = field(default="secret", repr=False)
        passed: int = field(default=0, compare=False)
        known: dict[str, int] = field(init=False, default_factory=dict)

    @dataclass(frozen=True, slots=True)
    class Derived(Plain):  # type: ignore[misc, valid-type]
        last: str = ""

    @dataclass
    class Checked:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError("too small")

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        name: str = ""

    @dataclass(frozen=True)
    class Described:
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

    made = (Plain, ByName, Changing, Derived, Checked, Itself, Described)
    return {each.__name__: each for each in made}


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", ("a",), {}),
    ("Plain", ("a", 2, ["b"]), {}),
    ("Plain", (), {"number": 2, "name": "a"}),
    ("Plain", (), {}),
    ("Plain", ("a",), {"other": 1}),
    ("Plain", ("a", 1, [], "too many"), {}),
    ("ByName", (), {"name": "a"}),
    ("ByName", ("a",), {}),
    ("Changing", ("a",), {}),
    ("Changing", ("a", "other"), {"passed": 3}),
    ("Derived", ("a", 1, []), {"last": "z"}),
    ("Checked", (1,), {}),
    ("Checked", (-1,), {}),
    ("Itself", (), {}),
    ("Described", ("a",), {}),
]


def outcome(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    try:
        made = cls(*args, **kwargs)
    except (TypeError, ValueError) as error:
        return (type(error),)
    shown = None if cls.__name__ == "Itself" else repr(made)
    return shown, made == cls(*args, **kwargs), made == object(), dataclasses.asdict(made), cls.__match_args__  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_one_is_made_shown_and_compared_as_the_standard_one(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    ours, standard = of_each_kind(later.dataclass)[name], of_each_kind(dataclasses.dataclass)[name]
    assert outcome(ours, args, kwargs) == outcome(standard, args, kwargs)


def test_fields_left_out_of_comparing_do_not_count() -> None:
    changing = of_each_kind(later.dataclass)["Changing"]
    assert changing("a", passed=1) == changing("a", passed=2)


def test_those_that_do_not_change_can_be_keys_and_the_others_cannot() -> None:
    made = of_each_kind(later.dataclass)
    assert {made["Plain"]("a", 1, ()): 1}[made["Plain"]("a", 1, ())] == 1
    itself = made["Itself"]()
    assert {itself: 1}[itself] == 1
    assert itself != made["Itself"]()
    with pytest.raises(TypeError, match="unhashable"):
        hash(made["Changing"]("a"))


def test_a_frozen_one_does_not_change_and_a_changed_copy_can_be_had() -> None:
    plain = of_each_kind(later.dataclass)["Plain"]("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del plain.name
    assert dataclasses.replace(plain, number=3).number == 3
    assert plain.number == 1


def test_each_gets_a_list_of_its_own() -> None:
    plain = of_each_kind(later.dataclass)["Plain"]
    assert plain("a").names is not plain("a").names


def test_it_has_no_room_for_what_is_no_field() -> None:
    with pytest.raises(AttributeError):
        of_each_kind(later.dataclass)["Changing"]("a").other = 1


@later.dataclass(frozen=True, slots=True)
class Copied:
    name: str
    parts: tuple[str, ...] = ()


def test_it_can_be_copied_and_pickled() -> None:
    one = Copied("a", ("b",))
    assert copy.deepcopy(one) == copy.copy(one) == pickle.loads(pickle.dumps(one)) == one


def test_a_pattern_finds_what_a_compiled_one_finds() -> None:
    ours, compiled = later.pattern("(a)b?", re.IGNORECASE), re.compile("(a)b?", re.IGNORECASE)
    text = "xAB a"
    assert ours.findall(text) == compiled.findall(text)
    assert ours.sub("-", text) == compiled.sub("-", text)
    assert ours.pattern == compiled.pattern
    found = ours.search(text)
    assert found
    assert found.group(1) == "A"


def test_a_pattern_that_is_wrong_is_refused_when_it_is_looked_for() -> None:
    wrong = later.pattern("(")
    with pytest.raises(re.error):
        wrong.match("")
