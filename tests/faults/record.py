"""A pytest plugin that writes down what was proved: `python -m pytest -p tests.faults.record`, as `poe faults` does.

It needs the name of a file in AGENT_WORKER_RECORD, and runs only tests that carry the id of a row. The file has a first
line about the run and then a line for each row: its tests, how they ended, and what was counted (`report.count`) while
they ran. `scripts/proof.py` makes a page of it.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.faults.report import LONG, report

VARIABLE = "AGENT_WORKER_RECORD"
_ROWS = re.compile(r"test_((?:[A-Za-z]\d{1,2}[ps]?_)+)")
_EXPERIMENTS = "E"  # rows of measurements, not of promises


def rows_of(name: str) -> list[str]:
    """The ids in the name of a test: `test_X1_X3_no_script_runs` proves two rows."""
    found = _ROWS.match(name)
    ids = found[1].strip("_").split("_") if found else []
    return [id[0].upper() + id[1:] for id in ids if id[0].upper() != _EXPERIMENTS]


@dataclass
class Row:
    tests: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0
    counted: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)


class Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        self._began = datetime.now(UTC)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.rpartition("::")[2]
        for id in rows_of(name):
            self._take(self._rows.setdefault(id, Row()), id, report)

    def _take(self, row: Row, id: str, report: pytest.TestReport) -> None:
        row.seconds += report.duration
        if report.failed:
            row.failed.append(report.nodeid)
        elif report.skipped:
            row.skipped += 1
        elif report.when == "call":
            row.passed += 1
        if report.when == "teardown":
            row.tests += 1
            for what, value in report.user_properties:
                if what == "counted":
                    row.counted.update({k: v for k, v in value.items() if k.startswith(f"{id} ")})
                elif what == "seeds":
                    row.seeds += value.get(id, [])

    def pytest_sessionfinish(self) -> None:
        about = {
            "date": f"{self._began:%Y-%m-%d}",
            "version": version("agent-worker"),
            "mode": "long" if LONG else "short",
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release().split('-')[0]}",
            "minutes": round((datetime.now(UTC) - self._began).total_seconds() / 60, 1),
        }
        lines = [about, *({"row": id} | _plain(row) for id, row in sorted(self._rows.items()))]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"{len(self._rows)} rows recorded in {self._path}")


def _plain(row: Row) -> dict[str, Any]:
    seeds = [min(row.seeds), max(row.seeds)] if row.seeds else []
    return vars(row) | {"seconds": round(row.seconds, 1), "counted": dict(row.counted), "seeds": seeds}


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(VARIABLE)
    if path and not hasattr(config, "workerinput"):  # workers send their reports to the one who writes
        config.pluginmanager.register(Recorder(config.rootpath / path), "recorder")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = [item for item in items if not rows_of(item.name)]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if rows_of(item.name)]


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """What this very test has counted goes along with its report."""
    counts, seeds = Counter(report.counts), {row: len(each) for row, each in report.seeds.items()}
    yield
    request.node.user_properties.append(("counted", dict(report.counts - counts)))
    tried = {row: each[seeds.get(row, 0) :] for row, each in report.seeds.items()}
    request.node.user_properties.append(("seeds", {row: each for row, each in tried.items() if each}))
