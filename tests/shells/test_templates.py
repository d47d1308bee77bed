"""What `init` writes: a team that plays well as it is, and that becomes real with one command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from tests.docs.test_guide import Shell

from agent_worker.cli.setup import TEMPLATES
from agent_worker.core.preferred import KEYS
from agent_worker.definitions.project_files import load_project

MODEL = "anthropic/claude-sonnet-5-5"
#: What each team says at its end, and what it leaves.
ENDS = {
    "review": ("@user the review is done", "review.md"),
    "triage": ("@user shall I look again tomorrow?", "triage.md"),
    "research": ("@user over to you", "findings.md"),
    "debate": ("@user we agree, which surprised us both", "decisions.md"),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One daemon for all of them."""
    place = tmp_path_factory.mktemp("templates")
    yield place
    shell_in(place, place).run(["agent-worker", "stop", "--all"])


def shell_in(home: Path, project: Path) -> Shell:
    shell = Shell(home)
    shell.cwd = project
    return shell


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_a_template_plays_to_its_end_as_printed_outside_of_git_too(template: str, home: Path, tmp_path: Path) -> None:
    shell = shell_in(home, tmp_path)
    made = shell.run(["agent-worker", "init", "--template", template, "--backend", "mock"])
    assert made.returncode == 0, made.stderr
    printed = [line.strip() for line in made.stdout.splitlines() if line.startswith("  agent-worker ")]
    assert printed[0] == TEMPLATES[template]
    ran = shell.run(shlex.split(printed[0]))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last, document = ENDS[template]
    assert ran.stdout.count(last) == 1, ran.stdout
    assert f"documents: {document}\n" in ran.stdout


@pytest.mark.parametrize("template", list(TEMPLATES))
def test_mock_agents_become_real_by_the_command_that_init_prints(template: str, home: Path, tmp_path: Path) -> None:
    shell = shell_in(home, tmp_path)
    made = shell.run(["agent-worker", "init", "--template", template, "--backend", "mock"])
    printed = [line.strip() for line in made.stdout.splitlines() if line.startswith("  agent-worker ")]
    assert shell.run(shlex.split(printed[1])).returncode == 0
    project = load_project(tmp_path)
    assert not project.problems
    assert {(agent.backend, agent.model) for agent in project.agents.values()} == {("sdk", MODEL)}
    assert not [member for member in project.workflows[template].agents.values() if member.script]


def test_in_a_git_repository_init_prints_what_keeps_conversations_out_of_it(home: Path, tmp_path: Path) -> None:
    """Else `git add .` would take them along, in the first hour."""
    shell = shell_in(home, tmp_path)
    assert ".gitignore" not in shell.run(["agent-worker", "init", "--template", "triage", "--backend", "mock"]).stdout
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    made = shell.run(["agent-worker", "init", "--backend", "mock"])
    line = next(line for line in made.stdout.splitlines() if ".gitignore" in line)
    subprocess.run(line.strip(), shell=True, cwd=tmp_path, check=True)
    shell.run(["agent-worker", "run", "review"])
    shell.run(["agent-worker", "ask", "alice", "hello"])
    status = ["git", "status", "--short", "--untracked-files=all"]
    new = subprocess.run(status, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()[1::2]
    assert {Path(name).suffix for name in new} == {".yaml", ""}, new
    again = shell.run(["agent-worker", "init", "--template", "debate", "--backend", "mock"])
    assert ".gitignore" not in again.stdout, "it was followed"


def test_a_file_that_somebody_changed_stays_as_it_is(home: Path, tmp_path: Path) -> None:
    shell = shell_in(home, tmp_path)
    shell.run(["agent-worker", "init", "--backend", "mock"])
    bob = tmp_path / ".agents" / "bob.yaml"
    bob.write_text(mine := bob.read_text() + "max_steps: 3\n")
    again = shell.run(["agent-worker", "init", "--model", MODEL])
    assert "= .agents/bob.yaml (kept as it was)" in again.stdout
    assert bob.read_text() == mine
    assert not load_project(tmp_path).problems


@pytest.mark.parametrize("model", KEYS.values())
def test_a_model_that_init_takes_by_itself_has_a_price(model: str) -> None:
    provider, _, name = model.partition("/")
    calc_price(Usage(input_tokens=1000), name, provider_id=provider)  # raises where it is not known
