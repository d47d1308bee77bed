"""`pytest --workers`: forks of a process that has collected the tests run them, a whole file at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FILE = """
import os, signal, sys, pytest
KEPT = sys.stderr
@pytest.fixture(scope="module", autouse=True)
def opened():
    with open("opened", "a") as file: print(__name__[-1], os.getpid(), file=file)
@pytest.mark.parametrize("number", range(3))
def test_a(number): print("said", number), print("said", file=KEPT)
"""
DIES = "def test_b(): os.kill(os.getpid(), signal.SIGKILL)\n"
FAILS = "def test_c(tmp_path): print('heard'); assert 1 + 1 == 3\n"
AFTER = "def test_d(tmp_path): print('never shown')\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider --import-mode=importlib\n")
    return tmp_path


def run(suite: Path, *options: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "tests.workers", *options, suite]
    done = subprocess.run(command, cwd=suite, env=environ, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    return done.stdout


def test_each_test_is_run_once_and_a_file_by_one_worker(suite: Path) -> None:
    for name in "xyz":
        (suite / f"test_{name}.py").write_text(FILE + (FAILS if name == "z" else ""))
    out = run(suite, "--workers", "2")
    assert "1 failed, 9 passed" in out
    assert "assert (1 + 1) == 3" in out
    assert "heard" in out
    assert "said" not in out
    opened = [line.split() for line in (suite / "opened").read_text().splitlines()]
    assert sorted(name for name, _ in opened) == ["x", "y", "z"]
    assert len({worker for _, worker in opened}) == 2


def test_a_worker_that_dies_has_failed_its_test_and_the_rest_of_its_file_is_run(suite: Path) -> None:
    (suite / "test_x.py").write_text(FILE + DIES + FAILS + AFTER)
    (suite / "test_y.py").write_text(FILE)
    out = run(suite, "--workers", "1")
    assert "2 failed, 7 passed" in out
    assert "test_x.py::test_b - the worker that ran this test ended with -9" in out
    assert "test_x.py::test_c" in out
    assert "never shown" not in out
