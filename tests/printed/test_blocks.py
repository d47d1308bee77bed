"""Every YAML block of the table in blocks.yaml is what the product reads, checks and runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.printed.situations import daemon_with_models, project
from tests.shells.served import Served

BLOCKS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("blocks.yaml").read_text())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with daemon_with_models(tmp_path_factory.mktemp("blocks")) as daemon:
        yield daemon


@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=[f"{n}-{each['from']}" for n, each in enumerate(BLOCKS)])
def test_each_block_is_valid_and_runs(daemon: Served, tmp_path: Path, number: int) -> None:
    block = BLOCKS[number]
    files = {**block.get("beside", {}), block["file"]: block["text"] + block.get("with", "")}
    terminal = project(daemon, tmp_path / "project", files)
    elsewhere = [block["file"]] if block.get("runs") == block["file"] else []  # a file that the project does not find
    checked = terminal.run("validate", *elsewhere)
    if wrong := block.get("told"):
        assert checked.returncode == 2, checked.stdout
        assert not [part for part in wrong if part not in checked.stderr], checked.stderr
        return
    assert checked.returncode == 0, checked.stderr
    assert block.get("remarks", "") in checked.stderr
    if "runs" in block:
        words = shlex.split(block["runs"])
        done = terminal.run("run", words[0], "--trust", *words[1:])
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        assert "\ndone:" in done.stdout
    for name in block.get("files", []):
        assert (terminal.daemon.project / name).exists(), name
