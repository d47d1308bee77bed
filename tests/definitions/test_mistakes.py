"""What people mistype: each mistake is told at its line, in words of the file, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.definitions.project_files import load_project
from agent_worker.offline.definitions import checked

AGENT = "backend: mock\n"
MEMBERS = "agents:\n  alice: { ref: alice }\n"
FLOW = f"{MEMBERS}kickoff: '@alice go'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder, name in ((".agents", "alice"), (".agents", "bob")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.yaml").write_text("backend: mock\nprompt: { system: x }\n")
    (tmp_path / ".workflows").mkdir()
    return tmp_path


def told(root: Path, file: str, text: str) -> list[str]:
    (root / file).write_bytes(text.encode())
    return [str(problem) for problem in checked(root).problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a value of another kind than its key takes
        ("env: GITHUB_TOKEN\n", "2:6: env: must be a list (write it in brackets: [ … ])"),
        ("tools: { bash: true }\n", "2:8: tools: must be a list (lines of `- …`)"),
        ("max_steps: '20'\n", "2:12: max_steps: must be a whole number (without quotes)"),
        ("max_tokens: 99999999999999999999\n", "2:13: max_tokens: must be a whole number (with at most 18 digits)"),
        ("prompt:\n  system: {name}\n", "3:11: prompt.system: must be text (put it in quotes)"),
        ("prompt:\n  system: { text: hi }\n", "3:11: prompt.system: must be text"),
        ("prompt:\n  system: [hi]\n", "3:11: prompt.system: must be text"),
        # what YAML does not take for what was meant
        ("<<<<<<< HEAD\nname: a\n=======\n", "2:1: is in the middle of a merge (keep one of the two versions"),
        ("name: a\n=======\nname: b\n>>>>>>> other\n", "3:1: is in the middle of a merge"),
        (
            "prompt:\n  system: Note: be kind\n",
            "3:15: is not YAML: there is a second `: ` in this line (put the text in",
        ),
        ("prompt:\n  system: @bob hello\n", "3:11: is not YAML: a text cannot begin with @ (put it in quotes)"),
        ("prompt: { system: `x` }\n", "2:19: is not YAML: a text cannot begin with ` (put it in quotes)"),
        (" name: a\n", "2:6: is not YAML: this line is indented deeper than the one above it (the keys of one block"),
        ("soul:\n  role: x\n style: y\n", "4:2: is not YAML: this line is indented differently from those above"),
        ("prompt:\n  system: |\n  hello\n", "is not YAML: here is neither a key nor a part of the text above"),
        # when it is due
        ("schedule: { wakeup: '0 0 31 2 *', prompt: x }\n", "2:21: schedule.wakeup: this cron line never comes"),
        ("schedule: { wakeup: '61 * * * *', prompt: x }\n", "schedule.wakeup: is not a cron line: its minute"),
        # names
        ("tools: [bash, { name: bash, approve: true }]\n", "2:15: tools[1]: bash is listed twice (keep one of them)"),
        ("temperature: 5\n", "2:1: temperature: unknown key (it belongs under settings: { temperature: … })"),
        ("usd_per_day: 5\n", "2:1: usd_per_day: unknown key (it belongs under limits: { usd_per_day: … })"),
        # what other programs call it
        ("instructions: Be kind.\n", "2:1: instructions: unknown key (write prompt: { system: … })"),
        (
            "mcp: { fs: { command: [npx] } }\n",
            "2:1: mcp: unknown key (write mcp_servers: { files: { command: [ … ] } })",
        ),
        ("prompt: { system: x, file: who.md }\n", "2:22: prompt.file: unknown key (write system_file: …)"),
        ("schedule: { wakeup: 5m, prompt: x, every: 5m }\n", "2:36: schedule.every: unknown key (write wakeup: …)"),
        (
            "script: [{ call: { tool: bash, args: {} } }]\n",
            "2:32: script[0].call[0].args: unknown key (write with: { … })",
        ),
    ],
)
def test_a_mistake_in_an_agent_is_told_with_what_to_write(root: Path, text: str, expected: str) -> None:
    (problem,) = told(root, ".agents/zed.yaml", AGENT + text)
    assert problem.startswith(".agents/zed.yaml:")
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: bob\n", "2:7: name: bob is taken by .agents/bob.yaml"),
        ("context: { dir: .agents/bob/ }\n", "2:17: context.dir: is, or overlaps, the folder of agent bob"),
    ],
)
def test_what_another_file_has_already_is_told_where_it_is_written(root: Path, text: str, expected: str) -> None:
    (problem,) = told(root, ".agents/zed.yaml", AGENT + text)
    assert problem.startswith(f".agents/zed.yaml:{expected}")


def test_a_provider_in_capitals_is_told_as_it_is_written(root: Path) -> None:
    (problem,) = told(root, ".agents/zed.yaml", "model: OpenAI/gpt-5\nprompt: { system: x }\n")
    assert problem.endswith("1:8: model: there is no provider 'OpenAI' (did you mean openai?)")


def test_an_unknown_provider_is_told_where_it_is_named(root: Path) -> None:
    text = "model: gpt\nprompt: { system: x }\nprovider: opnai\n"
    assert told(root, ".agents/zed.yaml", text) == [
        ".agents/zed.yaml:3:11: provider: there is no provider 'opnai' (did you mean openai?)"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "params: [{ name: t, type: integer, default: 1.5 }]\n",
            "default: must be an integer, like the param",
        ),
        ("params: [{ name: t, short: tt }]\n", "4:28: params[0].short: must be one letter (such as t)"),
        ("params: [{ name: help }]\n", "4:18: params[0].name: --help and -h are taken (choose another name)"),
        ("params: [{ name: t, short: h }]\n", "4:28: params[0].short: --help and -h are taken (choose another letter)"),
        (
            "setup: [{ shell: 'echo ${{ b }}', as: a }, { shell: ls, as: b }]\n",
            "4:18: setup[0].shell: b is only known after this step (move the step that prints it up",
        ),
        ("steps: []\n", "4:1: steps: unknown key (write kickoff: …, and let the members call on each other)"),
    ],
)
def test_a_mistake_in_a_workflow_is_told_with_what_to_write(root: Path, text: str, expected: str) -> None:
    (problem,) = told(root, ".workflows/flow.yaml", FLOW + text)
    assert problem.startswith(".workflows/flow.yaml:")
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "agents: [.agents/alcie.yaml]\n",
            "moniro.yaml:1:10: agents[0]: there is no file .agents/alcie.yaml (",
        ),
        (
            "agents: [alice]\n",
            'moniro.yaml:1:10: agents[0]: there is no file alice (did you mean ".agents/alice',
        ),
        ("workflows: { review: nowhere.yaml }\n", "moniro.yaml:1:22: workflows.review: there is no file nowhere.yaml"),
    ],
)
def test_a_file_that_the_project_names_and_that_is_not_there_is_told_where_it_is_named(
    root: Path, text: str, expected: str
) -> None:
    (problem,) = told(root, "moniro.yaml", text)
    assert problem.startswith(expected)
    project = load_project(root)
    for agent in project.broken:
        assert project.wrong_with(agent), "whoever asks for it is told why it cannot be had"


def test_what_a_sink_is_not_is_found_by_validate_too(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would only be said in the log, and the person would not be told of anything."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("AGENT_WORKER_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "notify.yaml").write_text("sinks: { phone: { to: ntfi, url: 'https://ntfy.sh/x' } }\n")
    (problem,) = [str(problem) for problem in checked(root).problems]
    assert "notify.yaml:1:23: sinks.phone.to: must be" in problem
    assert 'did you mean "ntfy"?' in problem


@pytest.mark.parametrize(
    ("file", "text", "remark"),
    [
        (
            ".agents/zed.yaml",
            AGENT + "schedule: { wakeup: 5m, prompt: x, workspace: flwo }\n",
            "no workflow is called flwo",
        ),
        (".agents/zed.yaml", AGENT + "schedule: { at: 2020-01-01T00:00, prompt: x }\n", "2020-01-01 has passed"),
        (
            ".agents/zed.yaml",
            "model: openai/gpt-5\nprompt: { system: x }\nsettings: { temprature: 1, of_theirs: 2 }\n",
            'settings.temprature: is sent to the model as it is written (did you mean "temperature"?)',
        ),
        (
            ".workflows/more.yaml",
            FLOW.replace("go", "go ${ x } {{ x }}") + "setup: [{ shell: ls, as: x }]\n",
            "${{ x }}",
        ),
    ],
)
def test_what_can_be_used_but_is_hardly_meant_is_a_remark(root: Path, file: str, text: str, remark: str) -> None:
    (root / ".workflows" / "flow.yaml").write_text(FLOW)
    assert told(root, file, text) == []
    (found,) = checked(root).remarks
    assert found.startswith(f"{file}: ")
    assert remark in found


def test_the_name_of_a_file_begins_no_line_of_its_own_and_turns_no_words_round(root: Path) -> None:
    problems = told(root, ".agents/zed.yaml\n.agents: all is \u202ewell.yaml", AGENT)
    assert len(problems) == 1
    assert problems[0].startswith(".agents/zed.yaml⟦U+000A⟧.agents: all is ⟦U+202E⟧well.yaml:1:1: ")
