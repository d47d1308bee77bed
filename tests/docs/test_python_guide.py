"""The guide to the Python API: every block of it is a program that runs as it stands, and prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "python.md"
_BLOCK = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
BLOCKS = _BLOCK.findall(GUIDE.read_text())


def headings() -> list[str]:
    text = GUIDE.read_text()
    return [text[: found.start()].rpartition("\n## ")[2].partition("\n")[0] for found in _BLOCK.finditer(text)]


def test_each_block_says_what_it_prints() -> None:
    assert len(BLOCKS) == GUIDE.read_text().count("```python") >= 8


@pytest.mark.parametrize(("program", "printed"), BLOCKS, ids=headings())
def test_a_block_runs_as_it_stands(tmp_path: Path, program: str, printed: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(program)
    ran = subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ran.stdout, ran.stderr) == (printed, "")
