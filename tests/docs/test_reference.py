"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


PAGES = ROOT / "docs" / "reference"


@cache
def pages() -> dict[str, str]:
    made: dict[str, str] = reference.pages()
    return made


def test_there_is_a_page_for_each_part_of_the_reference() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == pages().keys()


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.md")))
def test_the_reference_is_current(page: str) -> None:
    assert (PAGES / page).read_text("utf-8").strip() == pages()[page].strip(), "run: uv run poe reference"
