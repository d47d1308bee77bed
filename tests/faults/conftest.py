"""One nursery for all tests here, and a report of what was done to its lives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.driver import Nursery
from tests.faults.report import LONG, report

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where there is such a place: a killed process leaves the same behind there, and syncs cost nothing."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="aw-faults-", dir=place, ignore_cleanup_errors=True) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LONG or report.failing:
        terminalreporter.section("faults")
        for line in report.lines():
            terminalreporter.write_line(line)
