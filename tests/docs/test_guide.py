"""Every command and file of the guides works as it stands there, in an empty directory, as a new user would try it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shells import nursery

from agent_worker.definitions.project_files import load_project

GUIDES = Path(__file__).parent.parent.parent / "docs" / "guides"


def commands(guide: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (GUIDES / guide).read_text(), re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "project").mkdir()
    shell = Shell(tmp_path)
    yield shell
    shell.run(["agent-worker", "stop", "--all"])


class Shell:
    def __init__(self, tmp: Path) -> None:
        self.cwd = tmp / "project"
        keep = ("PATH", "TERM")
        self._env = {name: os.environ[name] for name in keep if name in os.environ}
        self._env |= {"AGENT_WORKER_HOME": str(tmp / "home"), "AGENT_WORKER_PORT": "0", "HOME": str(tmp)}

    def known(self, **env: str) -> None:
        """Variables that are set in this terminal from now on."""
        self._env |= env

    def write(self, name: str, text: str) -> None:
        (self.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (self.cwd / name).write_text(text)

    def run(self, command: list[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        assert command[0] == "agent-worker"
        return nursery.run("agent_worker.cli", *command[1:], cwd=self.cwd, env=self._env, stdin=stdin)


#: What a page writes for the id of a run, which only exists once there is work.
RUN = ("RUN", "r_…")


def last_run(shell: Shell, agent: str = "alice") -> str:
    """The newest run of an agent; if it has none, it gets something to do."""
    for _ in range(2):
        for run in json.loads(shell.run(["agent-worker", "runs", "--json"]).stdout):
            if run["agent"] == agent:
                return str(run["id"])
        assert shell.run(["agent-worker", "ask", agent, "hello"]).returncode == 0
    raise AssertionError(f"{agent} has not worked")


def follow(shell: Shell, guide: str, worker: str = "carol") -> dict[str, str]:
    """Type every command of a guide, in order; what each printed."""
    said: dict[str, str] = {}
    for words in commands(guide):
        command = [last_run(shell, worker) if word in RUN else word for word in words]
        done = shell.run(command)
        line = shlex.join(command[1:])
        allowed = (0, 1) if command[1] == "doctor" else (0,)  # it tells what this machine lacks
        assert done.returncode in allowed, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        said[line] = done.stdout
    return said


def test_the_first_team(shell: Shell) -> None:
    said = follow(shell, "first-team.md")
    assert "ok: 2 agents and 1 workflow" in said["validate"]
    assert "done: " in said["run review"]
    assert "woke bob" in said["send @review '@bob what would you test first?'"]
    assert said["doc read @review plan.md"] == "- release on Friday"
    assert "release-day" in said["agent memory carol"]
    assert "collect the release notes" in said["agent todo carol add 'collect the release notes'"]
    assert "weekdays at 09:00 Europe/Berlin" in said["schedule list"]
    assert "## plan.md" in said["export @review"]
    assert (shell.cwd / ".agents" / "carol" / "memory" / "core.yaml").read_text().startswith("release-day:")
    assert (shell.cwd / ".workspace" / "review" / "main" / "channel.jsonl").exists()


def test_memory(shell: Shell) -> None:
    said = follow(shell, "memory.md")
    assert "Friday" in said["agent memory carol"]
    assert (shell.cwd / ".agents" / "carol" / "memory" / "core.yaml").read_text().startswith("release-day:")


@pytest.mark.sqlite("it types `backup`, and PostgreSQL makes its own")
def test_keeping_it_safe(shell: Shell) -> None:
    said = follow(shell, "keeping-it-safe.md")
    assert said["backup ../before.db"].startswith("../before.db")
    assert "messages from ../before.db" in said["restore ../before.db"]
    assert "is kept as " in said["restore ../before.db"]
    assert "database: whole" in said["doctor"]
    assert "disk: " in said["doctor"]
    assert said["gc"] == "nothing to remove\n"


def test_the_files_of_the_first_team_are_valid(tmp_path: Path) -> None:
    (agent,) = re.findall(r"```yaml\n(.*?)```", (GUIDES / "first-team.md").read_text(), re.DOTALL)
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "alice.yaml").write_text(agent)
    project = load_project(tmp_path)
    assert not project.problems
    assert [tool.name for tool in project.agents["alice"].tools] == ["read_file", "search_files", "bash"]
