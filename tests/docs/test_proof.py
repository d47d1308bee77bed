"""The page of proofs says what the last runs left, and every row in use is described."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.faults.record import rows_of

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import proof  # noqa: E402
from rows import EVERY, OPEN  # noqa: E402


def test_the_page_is_the_one_that_the_results_make() -> None:
    assert (ROOT / "docs" / "proof.md").read_text("utf-8") == proof.page(), "run: uv run poe proof"


def test_every_row_that_a_test_names_is_described() -> None:
    names = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
    }
    used = {row for name in names for row in rows_of(name)}
    assert not used - set(EVERY), "describe them in scripts/rows.py"
    assert not used & set(OPEN), "they are proved now: move them in scripts/rows.py"
