"""Every promise has its proof, and every proof exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "promises.md").read_text()
README = (ROOT / "README.md").read_text()


def rows() -> dict[str, list[str]]:
    found = re.findall(r"^\| ([A-Z][^|]*?) \| (`test_.*?) \|$", PAGE, re.MULTILINE)
    return {promise: re.findall(r"`(test_\w+)`", proofs) for promise, proofs in found}


def test_every_promise_of_the_readme_has_its_proof() -> None:
    table = README.split("## What is promised")[1].split("Not promised")[0]
    promised = [row for row in re.findall(r"^\| ([A-Z][^|]*?) \|", table, re.MULTILINE)]
    assert promised
    assert set(promised) <= set(rows())


def test_every_proof_exists() -> None:
    defined = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    missing = {proof for proofs in rows().values() for proof in proofs} - defined
    assert not missing


def test_the_words_exactly_once_are_never_used_about_outside_effects() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")]
    for page in pages:
        for line in page.read_text().splitlines():
            if "exactly once" in line.lower():
                assert "outside our database" in line, f"{page.name}: {line}"
