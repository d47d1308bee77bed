"""Every command line of the table in lines.yaml does, as it is typed, what stands there."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tests.patience import eventually
from tests.printed.situations import daemon_with_models, project
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

SITUATIONS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("lines.yaml").read_text())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with daemon_with_models(tmp_path_factory.mktemp("lines")) as daemon:
        yield daemon


@dataclass(frozen=True)
class Line:
    """One line of the table, typed in its project."""

    terminal: Terminal
    wanted: dict[str, Any]
    kept: dict[str, str]  #: what earlier lines have told, for later ones

    def check(self) -> None:
        done = self.terminal.run(*self._words(self.wanted["typed"]), EDITOR=f"{sys.executable} -c ''")
        said = f"{self.wanted['typed']}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, said
        assert done.returncode == (2 if "told" in self.wanted else 0), said
        for part in _parts(self.wanted.get("says")):
            assert self._filled(part) in done.stdout, said
        for word, pattern in self.wanted.get("keeps", {}).items():
            found = re.search(pattern, done.stdout)
            assert found, said
            self.kept[word] = found[1]
        for part in _parts(self.wanted.get("told")) + _parts(self.wanted.get("warns")):
            assert self._filled(part) in done.stderr, said
        for typed, part in self.wanted.get("then", {}).items():
            assert eventually(partial(self._sees, typed, part)), f"{typed} does not say {part!r}"
        self._check_files()

    def _words(self, line: str) -> list[str]:
        program, *words = shlex.split(self._filled(line))
        assert program == "agent-worker", line
        return words

    def _filled(self, text: str) -> str:
        for word, value in self.kept.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    def _sees(self, typed: str, part: str) -> bool:
        return part in self.terminal.says(*self._words(typed))

    def _check_files(self) -> None:
        root = self.terminal.daemon.project
        for name, text in self.wanted.get("files", {}).items():
            assert (root / name).exists(), name
            assert text is None or text in (root / name).read_text(), (root / name).read_text()
        for name in self.wanted.get("without", []):
            assert not (root / name).exists(), name


def _parts(wanted: str | list[str] | None) -> list[str]:
    return wanted if isinstance(wanted, list) else [wanted] if wanted else []


@pytest.mark.parametrize("situation", SITUATIONS, ids=[each["situation"].replace(" ", "-") for each in SITUATIONS])
def test_each_line_does_what_the_table_says(daemon: Served, tmp_path: Path, situation: dict[str, Any]) -> None:
    terminal = project(daemon, tmp_path / "project", situation.get("files", {}))
    kept: dict[str, str] = {}
    for wanted in situation["lines"]:
        Line(terminal, wanted, kept).check()


def test_the_last_line_of_all_stops_everything(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        assert Terminal(daemon).says("stop", "--all") == "the daemon is stopping\n"
        assert eventually(lambda: not psutil.pid_exists(daemon.client.found.pid))
