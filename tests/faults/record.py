"""A pytest plugin that writes down what was proved: `python -m pytest -p tests.faults.record`, as `poe faults` does.

It needs the name of a file in AGENT_WORKER_RECORD, and runs only tests that carry the id of a row. The file has a first
line about the last run and then a line for each row and file of tests: how many, how they ended, and what was counted
(`report.count`) while they ran. What was recorded of other files stays, so `poe faults tests/faults` records a part
anew. `scripts/proof.py` makes a page of it.
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
    mode: str = "long" if LONG else "short"
    tests: int = 0
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: int = 0
    seconds: float = 0.0
    counted: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)


class Recorder:
    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = root / path
        self._rows: dict[tuple[str, str], Row] = {}  # by id and file
        self._began = datetime.now(UTC)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, name = report.nodeid.partition("::")
        for id in rows_of(name.rpartition("::")[2]):
            self._take(self._rows.setdefault((id, file), Row()), id, report)

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
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release().split('-')[0]}",
        }
        anew = {file for _, file in self._rows}
        kept = {(line["row"], line["file"]): line for line in self._before() if line["file"] not in anew}
        lines = kept | {(id, file): {"row": id, "file": file} | _plain(row) for (id, file), row in self._rows.items()}
        lines = [about, *(line for _, line in sorted(lines.items()))]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")

    def _before(self) -> list[dict[str, Any]]:
        """What was recorded earlier, of files that are still there."""
        if not self._path.exists():
            return []
        _, *lines = map(json.loads, self._path.read_text("utf-8").splitlines())
        return [line for line in lines if (self._root / line["file"]).exists()]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        rows = {id for id, _ in self._rows}
        terminalreporter.write_line(f"{len(rows)} rows recorded in {self._path}")


def _plain(row: Row) -> dict[str, Any]:
    seeds = [min(row.seeds), max(row.seeds)] if row.seeds else []
    return vars(row) | {"seconds": round(row.seconds, 1), "counted": dict(row.counted), "seeds": seeds}


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(VARIABLE)
    if path:
        config.pluginmanager.register(Recorder(config.rootpath, path), "recorder")


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
