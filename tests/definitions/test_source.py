"""YAML as we read it: strict, bounded, and every mistake with its line."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_worker.core.errors import DefinitionError, Problem
from agent_worker.definitions.source import MAX_BYTES, parse_source, read_source


def problems(text: str) -> list[Problem]:
    try:
        return list(parse_source(text, file="f.yaml").problems)
    except DefinitionError as error:
        return error.problems


def only_problem(text: str) -> str:
    (problem,) = problems(text)
    return str(problem)


@pytest.mark.parametrize(
    "text", ["a: !!python/object/apply:os.system [id]", "a: !thing 1", "a: !!int '1'", "!!set {a}", "a: !!binary aGk="]
)
def test_Y1_tags_are_refused_with_their_line(text: str) -> None:
    assert "f.yaml:1:" in only_problem(text)
    assert "tags are not supported" in only_problem(text)


def _bomb() -> str:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(levels)


def test_Y2_an_alias_bomb_is_refused_by_what_it_would_become() -> None:
    started = time.process_time()
    assert "more than 100,000 values" in only_problem(_bomb())
    assert "more than 100,000 values" in only_problem("a: &a [" + "1, " * 50 + "]\nb: [" + "*a, " * 10_000 + "]")
    assert time.process_time() - started < 1


def test_Y2_an_alias_of_what_it_stands_in_is_refused() -> None:
    assert "inside what it repeats" in only_problem("a: &a [1, *a]")
    assert "has no anchor" in only_problem("a: *nobody")


def test_an_honest_alias_is_written_out() -> None:
    assert parse_source("a: &x {k: 1}\nb: *x\nc: &y text\n*y : 2", file="f").data == {
        "a": {"k": 1}, "b": {"k": 1}, "c": "text", "text": 2,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["[" * 3000, "[" * 500_000, "{a: " * 3000, "- " * 3000 + "x", "a: " + "[" * 3000])
def test_Y3_deep_nesting_is_refused(text: str) -> None:
    assert "deeper than 64" in only_problem(text)


def test_Y3_sixty_four_levels_are_allowed() -> None:
    assert parse_source("[" * 64 + "]" * 64, file="f").problems == ()


def test_Y3_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("a: " + "x" * 10 * MAX_BYTES)
    with pytest.raises(DefinitionError, match="larger than 1 MiB"):
        read_source(path)


def test_Y4_every_key_that_stands_twice_is_told() -> None:
    text = "a: 1\nb: {c: 1, c: 2}\na: 3\n"
    assert [(p.line, p.column, p.field) for p in problems(text)] == [(2, 11, "c"), (3, 1, "a")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "f.yaml:2:1: a tab cannot indent (use spaces)"),
        ("a:\n  b: 1\n\tc: 2\n", "a tab cannot indent"),
        ("\ufeffa: 1", "byte order mark"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
        ("a: b: c", "f.yaml:1:5: is not YAML"),
        ("a: 'x", "f.yaml:1:4: is not YAML: the quote that opens here is never closed"),
        ('a: 1\nb: {c: "x}\nd: 2\n', "f.yaml:2:8: is not YAML: the quote that opens here is never closed"),
        ("a: \x01", "is not text that YAML allows"),
        ('a: "x\\0y"', "NUL"),
        ("? [a]\n: 1", "a key must be plain text"),
        ("a: &x {}\n*x : 1", "a key must be plain text"),
        ("a: {}\nb:\n  <<: 1", "merge keys"),
        ("a: \ud800", "YAML"),
    ],
)
def test_Y4_broken_yaml_is_a_problem_with_a_place(text: str, message: str) -> None:
    assert message in only_problem(text)


def test_Y4_what_is_not_utf8_is_refused_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(DefinitionError) as caught:
        read_source(path, shown_as="latin.yaml")
    assert str(caught.value).startswith("latin.yaml:2:7: is not UTF-8")


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("pipe.yaml", ".", "absent.yaml"):
        with pytest.raises(DefinitionError):
            read_source(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("010", "010"), ("0o17", "0o17"), ("0x1F", "0x1F"),
        ("12:30:00", "12:30:00"), ("2026-01-01", "2026-01-01"), ("1_000", "1_000"), (".inf", ".inf"), (".nan", ".nan"),
        ("9" * 5000, "9" * 5000), ("'1'", "1"), ('"true"', "true"), ("!!str 1", "1"), ("=", "="),
        ("1", 1), ("-7", -7), ("0", 0), ("1.5", 1.5), ("1e3", 1000.0), ("true", True), ("False", False),
        ("null", None), ("~", None), ("", None),
    ],
)  # fmt: skip
def test_Y5_only_what_is_plainly_a_number_or_boolean_is_one(text: str, value: Any) -> None:
    data = parse_source(f"k: {text}", file="f").data
    assert data == {"k": value}
    assert type(data["k"]) is type(value)


def test_Y5_keys_are_always_text() -> None:
    assert parse_source("on: 1\n1: 2\ntrue: 3\n~: 4", file="f").data == {"on": 1, "1": 2, "true": 3, "~": 4}


def test_a_problem_stands_at_the_value_the_key_or_what_is_around_it() -> None:
    source = parse_source("a:\n  - b: 1\n    c: 2\n", file="f.yaml")
    assert str(source.problem(["a", 0, "c"], "x")) == "f.yaml:3:8: a[0].c: x"
    assert str(source.problem(["a", 0, "c"], "x", at_key=True)) == "f.yaml:3:5: a[0].c: x"
    assert str(source.problem(["a", 0, "missing"], "x")) == "f.yaml:2:5: a[0].missing: x"


keys = st.text("abc ", max_size=5)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text("abc-:# 'é\n", max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=20,
)


@given(plain)
def test_what_yaml_writes_is_read_back(data: Any) -> None:
    assert parse_source(yaml.safe_dump(data, allow_unicode=True), file="f").data == data


@given(st.text(alphabet="ab:-[]{},&*!|>'\"#% \n\t?~<", max_size=80))
def test_any_text_is_data_or_problems(text: str) -> None:
    problems(text)
