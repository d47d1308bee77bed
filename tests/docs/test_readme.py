"""Every example in the README runs as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.fakes.model_server import ModelServer
from tests.shells import nursery

from agent_worker.definitions.project_files import load_project

README = (Path(__file__).parent.parent.parent / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What the README's command writes, in a directory that Git knows nothing of."""
    env = {"PATH": "/usr/bin:/bin", "AGENT_WORKER_HOME": str(tmp_path / "home")}
    (tmp_path / "project").mkdir()
    (command,) = re.findall(r"`agent-worker (init --model \S+)`", README)
    made = nursery.run("agent_worker.cli", *command.split(), cwd=tmp_path / "project", env=env)
    assert made.returncode == 0, made.stderr
    return tmp_path / "project"


def test_the_files_in_the_readme_are_the_ones_that_its_command_writes(project: Path) -> None:
    agent, workflow = blocks("yaml")
    assert (project / ".agents" / "alice.yaml").read_text() == agent
    assert (project / ".workflows" / "review.yaml").read_text() == workflow
    loaded = load_project(project)
    assert not loaded.problems
    assert list(loaded.agents) == ["alice", "bob"]


async def test_the_python_example_runs(project: Path) -> None:
    (example,) = blocks("python")
    script = project / "example.py"
    script.write_text(example)
    async with ModelServer() as server:
        env = {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": "sk-test-key", "ANTHROPIC_BASE_URL": server.url("ok")}
        import anyio

        done = await anyio.run_process([sys.executable, str(script)], cwd=project, env=env, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip()
    assert (project / "state" / "state.db").is_file()


def test_the_two_commands_are_the_ones_ci_and_people_use() -> None:
    ci = (Path(__file__).parent.parent.parent / ".ci" / "run").read_text()
    tests = "pip install -q uv && uv run poe test-setup && uv run poe test-all"
    assert "pip install -q uv && uv run agent-worker demo\n" in README
    assert README.count("poe test") == 2
    assert f"\n{tests}\n" in README
    assert ci.splitlines()[-3:] == ["uv run poe lint", "uv run poe types", tests]
    assert "export AGENT_WORKER_NO_SKIPS=1" in ci
