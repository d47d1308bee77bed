"""A key is changed in a text that a person wrote, and not one character of the rest."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.report import few

from agent_worker.core.errors import BadInput, DefinitionError
from agent_worker.definitions.rewriting import rewritten, rewritten_within
from agent_worker.definitions.source import parse_source

TEXT = """\
# who she is
model: openai/gpt-6   # a note

'quoted key' :  "kept"   # as it is
prompt: { system: You are Alice. }   # in braces
soul:
  role: reviewer  # inside
  principles:
    - be kind

    # before the last
    - be clear
# about the words
words: |
  one

  two

plain: goes on
  for two lines
last: [1,
  2]  # the end
# after everything
"""


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"model": "x"}, "model: openai/gpt-6   # a note\n", "model: x   # a note\n"),
        ({"model": "yes"}, "model: openai/gpt-6   # a note\n", "model: 'yes'   # a note\n"),
        ({"model": "1e5"}, "model: openai/gpt-6   # a note\n", 'model: "1e5"   # a note\n'),
        ({"model": "a # b: [c"}, "model: openai/gpt-6   # a note\n", "model: 'a # b: [c'   # a note\n"),
        ({"model": {"a": [1, {"b": True, "c": []}]}}, "model: openai/gpt-6   # a note\n",
         "model:   # a note\n  a:\n    - 1\n    - b: true\n      c: []\n"),
        ({"model": None}, "model: openai/gpt-6   # a note\n", ""),
        ({"quoted key": 3}, "'quoted key' :  \"kept\"", "'quoted key': 3"),
        ({"prompt": {"system": "Hi."}}, "prompt: { system: You are Alice. }   # in braces\n",
         "prompt:   # in braces\n  system: Hi.\n"),
        ({"soul": None}, TEXT[TEXT.index("soul:") : TEXT.index("# about")], ""),
        ({"soul": "none"}, TEXT[TEXT.index("soul:") : TEXT.index("# about")], "soul: none\n"),
        ({"words": "three"}, "words: |\n  one\n\n  two\n", "words: three\n"),
        ({"words": None}, "words: |\n  one\n\n  two\n", ""),
        ({"plain": "a\nb"}, "plain: goes on\n  for two lines\n", 'plain: "a\\nb"\n'),
        ({"last": None}, "last: [1,\n  2]  # the end\n", ""),
        ({"last": 2}, "last: [1,\n  2]  # the end\n", "last: 2  # the end\n"),
        ({"new": {"a": "b"}}, "# after everything\n", "# after everything\nnew:\n  a: b\n"),
        ({"gone": None}, "", ""),
    ],
)  # fmt: skip
def test_one_entry_is_changed_and_the_rest_stays(changes: dict[str, Any], old: str, new: str) -> None:
    assert rewritten(TEXT, changes, file="f") == TEXT.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "changes", "after"),
    [
        ("k: \xa0\n", {"k": "other"}, "k: other\n"),  # a space that is a value
        ("", {"a": 1}, "a: 1\n"),
        ("# only words\n", {"a": 1}, "# only words\na: 1\n"),
        ("a: 1", {"b": 2}, "a: 1\nb: 2\n"),
        ("a: 1", {"a": 2}, "a: 2"),
        ("  a: 1\n  b: 2\n", {"a": {"x": 1}, "c": [3]}, "  a:\n    x: 1\n  b: 2\n  c:\n    - 3\n"),
        ("# x\na: 1\n", {"a": None}, "# x\n"),
        ("a:\nb:   # empty\n", {"a": 1, "b": 2}, "a: 1\nb: 2   # empty\n"),
        ("# x\n{a: 1, b: [2, 3]}\n# y\n", {"a": 2, "c": 4}, "# x\na: 2\nb: [2, 3]\n# y\nc: 4\n"),
        ("{}\n", {"a": 1}, "a: 1\n"),
        ("{a: 1, # why\n b: 2}\n", {"a": 2}, "{a: 2, # why\n b: 2}\n"),
        ("---\na: 1\n", {"a": 2}, "---\na: 2\n"),
        ("a: 1\r\nb: 2\r\n", {"a": 3}, "a: 3\nb: 2\r\n"),
    ],
)
def test_texts_of_every_shape(text: str, changes: dict[str, Any], after: str) -> None:
    assert rewritten(text, changes, file="f") == after


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("a: &x [1]\nb: *x\n", {"a": 2}),  # b would be lost
        ("a: 1\n...\n", {"b": 2}),
        ("{a: 1, # why\n b: 2}\n", {"c": 3}),
        ("a: 1\n", {"b": float("inf")}),
    ],
)
def test_what_would_say_something_else_is_refused(text: str, changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="that we cannot edit"):
        rewritten(text, changes, file="f")


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1\n", "a: !x 1\n"])
def test_a_text_that_is_wrong_already_is_told_where(text: str) -> None:
    with pytest.raises(DefinitionError, match="f:"):
        rewritten(text, {"b": 1}, file="f")


def test_a_text_without_keys_is_refused() -> None:
    with pytest.raises(BadInput, match="must be keys"):
        rewritten("- a\n", {"b": 1}, file="f")


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=12)
keys = words.filter(lambda text: text not in ("", "<<"))
values = st.recursive(
    words | st.integers(-999, 999) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=few(150))
@given(
    before=st.dictionaries(keys, values, max_size=4),
    changes=st.dictionaries(keys, values | st.none(), max_size=3),
    style=st.sampled_from([False, None, True]),
    pick=st.integers(0, 3),
)
def test_any_change_of_any_text_says_what_was_asked_for(
    before: dict[str, Any], changes: dict[str, Any], style: bool | None, pick: int
) -> None:
    text = yaml.safe_dump(before, default_flow_style=style, allow_unicode=True, sort_keys=False) if before else ""
    there = parse_source(text, file="f").data or {}
    for key in list(there)[pick : pick + 1]:
        changes = {**changes, key: "other"}
    after = rewritten(text, changes, file="f")
    expected = {key: value for key, value in {**there, **changes}.items() if value is not None or key not in changes}
    assert (parse_source(after, file="f").data or {}) == expected
    assert (yaml.safe_load(after) or {}).keys() == expected.keys()  # other readers see the same keys


@pytest.mark.parametrize(
    ("changes", "old", "new"),
    [
        ({"soul.role": "judge"}, "role: reviewer  # inside", "role: judge  # inside"),
        ({"soul.style": "short"}, "    - be clear\n", "    - be clear\n  style: short\n"),
        ({"soul.principles": None}, "  principles:\n    - be kind\n\n    # before the last\n    - be clear\n", ""),
        (
            {"prompt.system": "Go"},
            "prompt: { system: You are Alice. }   # in braces",
            "prompt:   # in braces\n  system: Go",
        ),
        ({"limits.usd_per_day": 3}, "# after everything\n", "# after everything\nlimits:\n  usd_per_day: 3\n"),
        ({"soul.a.b": 1, "soul.a.c": 2}, "    - be clear\n", "    - be clear\n  a:\n    b: 1\n    c: 2\n"),
    ],
)
def test_a_key_within_another_is_set_and_what_stands_beside_it_stays(
    changes: dict[str, Any], old: str, new: str
) -> None:
    assert TEXT.count(old) == 1
    assert rewritten_within(TEXT, changes, file="x.yaml") == TEXT.replace(old, new)


def test_the_last_key_within_another_takes_that_one_along() -> None:
    text = "a: 1\nlimits:\n  usd_per_day: 3 # money\nb: 2\n"
    assert rewritten_within(text, {"limits.usd_per_day": None}, file="x.yaml") == "a: 1\nb: 2\n"


def test_what_is_beside_a_key_and_named_elsewhere_is_written_out() -> None:
    text = "a: &a { x: 1 }\nb:\n  c: *a\n  d: 1\n"
    assert parse_source(rewritten_within(text, {"b.d": 2}, file="x.yaml"), file="x.yaml").data == {
        "a": {"x": 1},
        "b": {"c": {"x": 1}, "d": 2},
    }


@pytest.mark.parametrize("key", ["", ".", "soul.", ".role", "soul..role"])
def test_a_key_of_nothing_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="is not a key"):
        rewritten_within(TEXT, {key: "x"}, file="x.yaml")
