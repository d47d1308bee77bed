"""The table of deliberate bugs fits the source; `uv run poe bugs` makes them and shows that each is noticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.bugs import BUGS, Bug

ROOT = Path(__file__).parent.parent.parent


def test_there_are_at_least_twenty_and_each_has_a_name_of_its_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_fits_the_source_and_its_proof_exists(bug: Bug) -> None:
    assert not list(bug.stale(ROOT)), "the table in tests/faults/bugs.py is stale"
    texts = {edit.path: (ROOT / edit.path).read_text("utf-8") for edit in bug.edits}
    for edit in bug.edits:
        texts[edit.path] = texts[edit.path].replace(edit.right, edit.wrong)
    for text in texts.values():
        ast.parse(text)  # a slip of the pen would prove nothing
