"""Every example runs as its README says, in a copy of its folder, on mock agents."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.source import parse_source

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("examples")) as made:
        yield made


@pytest.fixture
def example(daemon: Served, tmp_path: Path, request: pytest.FixtureRequest) -> Terminal:
    """A terminal in a copy of the example that the test is called after."""
    name = request.node.name.removeprefix("test_").partition("__")[0].replace("_", "-")
    shutil.copytree(EXAMPLES / name, tmp_path / name)
    return Terminal(replace(daemon, project=tmp_path / name))


def ran(terminal: Terminal, *words: str) -> dict[str, Any]:
    """What came of `agent-worker run`."""
    lines = terminal.says("run", "--trust", "--json", *words).splitlines()
    last: dict[str, Any] = json.loads(lines[-1])
    assert last["outcome"] == "done", last
    return last


def said(terminal: Terminal, workspace: str) -> list[str]:
    return [json.loads(line)["text"] for line in terminal.says("peek", f"@{workspace}", "--json").splitlines()]


def test_there_are_examples_of_the_field_and_each_has_its_line() -> None:
    assert len(NAMES) >= 8
    lines = re.findall(r"^\| \[([\w-]+)\]\(\1\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(lines) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_its_files_are_right_and_every_member_has_a_prompt_for_a_real_model(name: str) -> None:
    project = load_project(EXAMPLES / name)
    assert not project.problems
    inline = [m for flow in project.workflows.values() for m in flow.agents.values() if not hasattr(m, "ref")]
    for member in [*project.agents.values(), *inline]:
        assert member.system  # type: ignore[union-attr]


def test_review__a_reviewer_and_an_author_go_back_and_forth(example: Terminal) -> None:
    done = ran(example)
    assert done["runs"] == {"finn": 2, "rita": 3}
    assert done["documents"] == ["fixes/1.md", "fixes/2.md"]
    assert said(example, "review")[-1].endswith("I approve.")
    assert ran(example)["runs"] == done["runs"], "and again"


def test_debate__a_vote_decides_and_it_is_written_down(example: Terminal) -> None:
    done = ran(example)
    assert len(done["decisions"]) == 1
    assert "one repository" in done["decisions"][0]
    assert "one repository" in example.says("doc", "read", "@debate", "decisions.md")
    assert said(example, "debate")[-1].startswith("It is decided")


def test_triage__it_sorts_and_comes_again_by_itself(example: Terminal) -> None:
    assert ran(example)["documents"] == ["triage.md"]
    assert "roll back" in example.says("doc", "read", "@triage", "triage.md")
    (item,) = example.json("inbox")
    assert item["kind"] == "mention"
    (schedule,) = example.json("schedule", "list")
    assert (schedule["target"], schedule["wakeup"], schedule["tz"]) == ("triage", "0 8 * * 1-5", "Europe/Berlin")
    assert schedule["due_at"]


def test_research__only_the_scribe_writes(example: Terminal) -> None:
    done = ran(example, "--", "--question", "How many queues?")
    assert done["documents"] == ["report.md"]
    assert "with a limit" in example.says("doc", "read", "@research", "report.md")
    assert said(example, "research")[0].endswith("How many queues?")
    assert any(text.startswith("@sam I suggest for report.md") for text in said(example, "research"))


def test_parallel__three_look_at_once(example: Terminal) -> None:
    done = ran(example)
    assert {"sec": 1, "perf": 1, "style": 1}.items() <= done["runs"].items()
    findings = example.says("doc", "read", "@parallel", "findings.md").splitlines()
    assert sorted(line.split(":")[0] for line in findings) == ["- security", "- speed", "- style"]


def test_release__nothing_leaves_without_a_person(example: Terminal) -> None:
    running = subprocess.Popen(
        [sys.executable, "-m", "agent_worker.cli", "run", "--json", "--wait"],
        cwd=example.daemon.project,
        env={"PATH": "/usr/bin:/bin", "AGENT_WORKER_HOME": str(example.daemon.home)},
        stdout=subprocess.DEVNULL,
    )
    try:
        question = eventually(lambda: example.json("inbox"))[0]
        assert "Shall 1.2 go out?" in question["text"]
        example.says("inbox", "answer", question["id"], "yes")
        approval = eventually(lambda: example.json("inbox"))[0]
        assert "out/RELEASE" in approval["text"]
        assert not (example.daemon.project / "out").exists()
        example.says("inbox", "approve", approval["id"])
        assert running.wait(timeout=PATIENCE) == 0
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    assert (example.daemon.project / "out" / "RELEASE").read_text() == "1.2\n"


def test_memory__what_was_learned_in_one_workflow_is_known_in_the_other(example: Terminal) -> None:
    ran(example, "learn")
    assert "deploy-window" in example.says("agent", "memory", "sage")
    ran(example, "apply")
    assert "Before noon" in said(example, "apply")[-1]
    run = example.json("runs", "--agent", "sage")[0]
    steps = json.dumps(example.json("explain", run["id"])["steps"])
    assert "went wrong twice; deploy before noon" in steps, "found in its memory"
    assert "went wrong again" not in json.dumps(said(example, "apply")), "and not in the other channel"


def test_pull_request__the_review_is_a_document_for_a_comment(example: Terminal) -> None:
    assert ran(example, "--", "--base", "main")["documents"] == ["review.md"]
    assert "greet.py:1" in example.says("doc", "read", "@pull-request", "review.md")


def test_review__with_a_model_its_script_is_not_played(example: Terminal) -> None:
    done = example.run("run", "--trust", "--model", "anthropic/claude-sonnet-5-5")
    assert done.returncode == 4, "it waits for the model's key"
    assert "agent-worker key set anthropic" in done.stderr
    assert "I approve" not in done.stdout
    assert example.run("run", "--trust", "--model", "not a model").returncode == 2


def test_the_actions_file_runs_what_the_example_has() -> None:
    text = (EXAMPLES / "pull-request" / "github-actions.yml").read_text()
    actions = parse_source(text, file="github-actions.yml").data
    (job,) = actions["jobs"].values()
    commands = " ".join(step.get("run", "") for step in job["steps"])
    assert "agent-worker run pull-request --trust --model" in commands
    assert "agent-worker doc read @pull-request review.md" in commands
    assert not re.search(r"\$\{\{[^}]*(title|body|head_ref|head\.ref)", commands), (
        "nothing a stranger writes is a command"
    )
    assert actions["permissions"] == {"contents": "read", "pull-requests": "write"}
