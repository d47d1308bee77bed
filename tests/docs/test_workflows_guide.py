"""The guide to workflows runs as it stands: its files, then its commands, in an empty directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.test_guide import Shell
from tests.repositories import Repository

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "guides" / "workflows.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path)
    for text in blocks("yaml"):
        file = shell.cwd / text.splitlines()[0].removeprefix("# ")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    yield shell
    shell.run(["agent-worker", "stop", "--all"])


def test_every_command_of_the_guide_works(shell: Shell, tmp_path: Path) -> None:
    greet = (shell.cwd / ".workflows" / "greet.yaml").read_text()
    flows = Repository.at(tmp_path / "flows", **{"greet.yaml": greet, "skills/tidy/SKILL.md": "Tidy up."})
    flows.git("tag", "v1")
    said: dict[str, str] = {}
    for line in "".join(blocks("sh")).splitlines():
        done = shell.run(shlex.split(line.replace("github:acme/flows@v1/", f"git+file://{flows.path}@v1//")))
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        said[line.removeprefix("agent-worker ")] = done.stdout
    assert "Good morning, Ada" in said["run greet --trust -- --name Ada"]
    assert "Whom to greet" in said["run greet -- --help"]
    assert "greet" in said["schedule list"]
    assert "morning" in said["schedule list"]
    assert flows.git("rev-parse", "HEAD") in said["remote list"]
    assert "has not changed" in said["remote update github:acme/flows@v1/greet.yaml"]
    assert (shell.cwd / ".agents" / "skills" / "local" / "flows" / "tidy" / "SKILL.md").exists()
