"""One nursery for all tests here, and a report of what was done to its lives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.driver import Nursery
from tests.faults.report import LONG, report


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
