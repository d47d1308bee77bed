"""Every command line of the table in lines.yaml does, as it is typed, what stands there."""

from __future__ import annotations

import asyncio
import shlex
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.model_server import ModelServer
from tests.patience import eventually
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

SITUATIONS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("lines.yaml").read_text())


@pytest.fixture(scope="module")
def model_api() -> Iterator[str]:
    """A provider that answers everything, for agents whose model is named."""
    loop, server = asyncio.new_event_loop(), ModelServer()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    yield server.url("ok")
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, model_api: str) -> Iterator[Served]:
    keys = {"ANTHROPIC_BASE_URL": model_api, "ANTHROPIC_API_KEY": "sk-ant-none"}
    with served(tmp_path_factory.mktemp("printed"), keys) as daemon:
        yield daemon


@dataclass(frozen=True)
class Line:
    """One line of the table, typed in its project."""

    terminal: Terminal
    wanted: dict[str, Any]

    def check(self) -> None:
        done = self.terminal.run(*_words(self.wanted["typed"]), EDITOR=f"{sys.executable} -c ''")
        said = f"{self.wanted['typed']}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, said
        assert done.returncode == (2 if "told" in self.wanted else 0), said
        for part in _parts(self.wanted.get("says")):
            assert part in done.stdout, said
        for part in _parts(self.wanted.get("told")) + _parts(self.wanted.get("warns")):
            assert part in done.stderr, said
        for typed, part in self.wanted.get("then", {}).items():
            assert eventually(partial(self._sees, typed, part)), f"{typed} does not say {part!r}"
        self._check_files()

    def _sees(self, typed: str, part: str) -> bool:
        return part in self.terminal.says(*_words(typed))

    def _check_files(self) -> None:
        root = self.terminal.daemon.project
        for name, text in self.wanted.get("files", {}).items():
            assert (root / name).exists(), name
            assert text is None or text in (root / name).read_text(), (root / name).read_text()
        for name in self.wanted.get("without", []):
            assert not (root / name).exists(), name


def _words(line: str) -> list[str]:
    program, *words = shlex.split(line)
    assert program == "agent-worker", line
    return words


def _parts(wanted: str | list[str] | None) -> list[str]:
    return wanted if isinstance(wanted, list) else [wanted] if wanted else []


@pytest.mark.parametrize("situation", SITUATIONS, ids=[each["situation"].replace(" ", "-") for each in SITUATIONS])
def test_each_line_does_what_the_table_says(daemon: Served, tmp_path: Path, situation: dict[str, Any]) -> None:
    here = replace(daemon, project=tmp_path / "project")
    here.project.mkdir()
    (here.project / ".agents").mkdir()
    for name, text in situation.get("files", {}).items():
        (here.project / name).parent.mkdir(parents=True, exist_ok=True)
        (here.project / name).write_text(text)
    for wanted in situation["lines"]:
        Line(Terminal(here), wanted).check()
