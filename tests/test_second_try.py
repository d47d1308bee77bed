"""`poe test-all` runs what failed beside the others once more alone, and hides nothing (decision 35)."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.test_all import FEW, main

UNSTEADY = """
from pathlib import Path
def test_that_passes_the_second_time():
    seen = Path(__file__).with_suffix(".seen")
    before, _ = seen.exists(), seen.touch()
    assert before
def test_that_always_passes():
    Path(__file__).with_suffix(".runs").open("a").write("x")
"""
BROKEN = "def test_that_always_fails(): assert False\n"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_what_passes_only_alone_is_named_and_does_not_fail_the_run(
    suite: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (suite / "test_unsteady.py").write_text(UNSTEADY)
    assert main([], root=suite, together=()) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last == "test_unsteady.py::test_that_passes_the_second_time: passed only alone, and must be mended"
    assert (suite / "test_unsteady.runs").read_text() == "x", "what passed is not run again"


def test_what_fails_alone_too_fails_the_run(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (suite / "test_unsteady.py").write_text(UNSTEADY)
    (suite / "test_broken.py").write_text(BROKEN)
    assert main([], root=suite, together=()) == 1
    assert "test_broken.py::test_that_always_fails: failed alone, too" in capfd.readouterr().out


def test_many_failures_are_not_tried_again(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for number in range(FEW + 1):
        (suite / f"test_unsteady_{number}.py").write_text(UNSTEADY)
    assert main([], root=suite, together=()) == 1
    assert "once more" not in capfd.readouterr().out


def test_a_run_without_failures_is_one_run(suite: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (suite / "test_fine.py").write_text("def test_fine(): pass\n")
    assert main([], root=suite, together=()) == 0
    assert capfd.readouterr().out.count("1 passed") == 1
