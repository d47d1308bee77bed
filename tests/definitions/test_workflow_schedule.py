"""A workflow that runs by itself needs everything written down; and one model for all of a team."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.definitions.project_files import load_project
from agent_worker.definitions.workflow import with_model

AGENTS = "agents: { ann: { backend: mock } }\n"


def problems(root: Path, text: str) -> list[str]:
    (root / ".workflows").mkdir(exist_ok=True)
    (root / ".workflows" / "triage.yaml").write_text(text)
    return [str(problem) for problem in load_project(root).problems]


@pytest.mark.parametrize(
    "schedule",
    ["{ wakeup: 10s }", "{ wakeup: '0 9 * * 1-5', tz: Europe/Berlin }", "{ at: 2026-08-01T09:00, prompt: once }"],
)
def test_a_schedule_is_an_interval_a_cron_line_or_a_moment(tmp_path: Path, schedule: str) -> None:
    assert not problems(tmp_path, f"{AGENTS}kickoff: '@ann go'\nschedule: {schedule}\n")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("kickoff: x\nschedule: { wakeup: 9s }", "at least 10s"),
        ("kickoff: x\nschedule: { wakeup: soon }", "must be a time that recurs"),
        ("kickoff: x\nschedule: {}", "exactly one of wakeup, at"),
        ("kickoff: x\nschedule: { wakeup: 5m, workspace: review }", "does not belong here"),
        ("kickoff: x\nschedule: { wakeup: 5m, tz: UTC }", "makes no sense for an interval"),
        ("schedule: { wakeup: 5m }", "says nothing"),
        (
            "kickoff: x\nparams: [{ name: what, required: true }]\nschedule: { wakeup: 5m }",
            "the param what is required",
        ),
        ("kickoff: x\nschedule: { wakeup: 5m, params: { what: x } }", "no such param"),
    ],
)
def test_what_could_not_run_unattended_is_refused_with_its_line(tmp_path: Path, more: str, words: str) -> None:
    (problem,) = problems(tmp_path, f"{AGENTS}{more}\n")
    assert words in problem
    assert ".workflows/triage.yaml:" in problem


def test_one_model_takes_the_place_of_scripts_and_models_and_leaves_programs_alone(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "alice.yaml").write_text("backend: mock\nscript: [{ say: hello }]\n")
    (tmp_path / ".agents" / "claude.yaml").write_text("backend: claude\nprompt: { system: You are Claude. }\n")
    inline = "ann: { backend: mock, prompt: { system: You are Ann. }, script: [{ say: hi }] }"
    text = f"agents: {{ alice: {{ ref: alice }}, claude: {{ ref: claude }}, {inline} }}\n"
    assert not problems(tmp_path, text)
    project = load_project(tmp_path)
    changed = with_model(project.workflows["triage"], project.agents, "openai/gpt-5").agents
    assert [(name, member.backend, member.model) for name, member in changed.items()] == [
        ("alice", "sdk", "openai/gpt-5"),
        ("claude", None, None),
        ("ann", "sdk", "openai/gpt-5"),
    ]
