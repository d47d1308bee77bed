"""The reference pages say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
assert spec is not None
assert spec.loader is not None
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)


@pytest.mark.parametrize("page", sorted(reference.pages()))
def test_the_reference_is_current(page: str) -> None:
    written = (ROOT / "docs" / "reference" / page).read_text("utf-8")
    assert written.strip() == reference.pages()[page].strip(), "run: uv run poe reference"
