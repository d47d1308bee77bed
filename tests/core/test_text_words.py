"""Sentences that are put together from words: the right plural, and the right article."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from agent_worker.core.text import one, plural

SOURCE = Path(__file__).parents[2] / "src" / "agent_worker"


@pytest.mark.parametrize(
    ("thing", "said"), [("approval", "an approval"), ("mention", "a mention"), ("integer", "an integer")]
)
def test_a_thing_has_its_article(thing: str, said: str) -> None:
    assert one(thing) == said


def test_one_is_not_many() -> None:
    assert [plural(number, "message") for number in (0, 1, 2000)] == ["0 messages", "1 message", "2,000 messages"]


def test_no_sentence_puts_an_article_before_a_word_that_it_does_not_know() -> None:
    """`a {kind}` is wrong as soon as the kind is an approval: `one(kind)`."""
    found: list[str] = []
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                for text, value in zip(node.values, node.values[1:], strict=False):
                    said = text.value if isinstance(text, ast.Constant) else ""
                    if isinstance(value, ast.FormattedValue) and re.search(r"(^|[\s(])[Aa]n? $", str(said)):
                        found.append(f"{file.relative_to(SOURCE)}:{node.lineno}: {said}{ast.unparse(value)}")
    assert not found
