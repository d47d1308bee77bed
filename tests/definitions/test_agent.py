"""What an agent's file may say."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from agent_worker.core.errors import DefinitionError
from agent_worker.definitions.agent import AgentDefinition, split_model
from agent_worker.definitions.agent_blocks import PromptSettings
from agent_worker.definitions.loading import load_agent

MOCK = "backend: mock\n"
SDK = "model: anthropic/claude-x\nprompt: { system: x }\n"
FULL = """
name: alice
model: anthropic/claude-sonnet-4-5
backend: sdk
provider: {name: anthropic, base_url: https://llm.example/v1, api_key: $MY_KEY}
prompt: {system: You are Alice.}
soul: {role: code-reviewer, expertise: [python], motto: be kind, depth: {n: 1}}
context: {dir: .agents/alice/, thin_thread: 10}
memory: { budget: 2000, auto_load: [core], search: [working] }
tools: [bash, {name: write_file, approve: true}, ./tools/search.py:find_issue]
mcp_servers: { docs: { url: http://127.0.0.1:9000/mcp }, files: {command: [npx, server]} }
skills: [.agents/skills]
cwd: .
env: [GITHUB_TOKEN]
max_tokens: 8000
max_steps: 20
timeout: 10m
limits: { usd_per_day: 5 }
schedule: {wakeup: 5m, prompt: Check, workspace: review}
auto_memory: false
isolate: worktree
"""


def load(tmp_path: Path, text: str, name: str = "alice.yaml") -> AgentDefinition:
    (tmp_path / ".agents").mkdir(exist_ok=True)
    path = tmp_path / ".agents" / name
    path.write_text(text)
    return load_agent(path, root=tmp_path)


def refusal(tmp_path: Path, text: str, name: str = "alice.yaml") -> str:
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path, text, name)
    return str(caught.value)


def test_the_provider_of_an_endpoint_is_the_one_that_the_model_names(tmp_path: Path) -> None:
    mine = "provider: { base_url: https://llm.example/v1, api_key: $MY_KEY }\nprompt: { system: x }\n"
    assert load(tmp_path, f"model: mine/x\n{mine}").served_by == "mine"
    assert load(tmp_path, "model: mine/x\nprovider: other\nprompt: { system: x }\n").served_by == "other"
    told = "provider.name: is required where model names no provider"
    assert told in refusal(tmp_path, f"model: x\n{mine}")


def test_everything_that_may_be_written_is_read(tmp_path: Path) -> None:
    agent = load(tmp_path, FULL)
    assert agent.system == "You are Alice."
    assert agent.provider is not None
    assert agent.provider.key_variable == "MY_KEY"
    assert agent.soul.record() == {
        "role": "code-reviewer", "expertise": ["python"], "motto": "be kind", "depth": {"n": 1},
    }  # fmt: skip
    assert [(tool.name, tool.approve) for tool in agent.tools] == [
        ("bash", False), ("write_file", True), ("./tools/search.py:find_issue", False),
    ]  # fmt: skip
    assert agent.timeout == 600
    assert agent.schedule is not None
    assert agent.schedule.interval == 300
    assert agent.auto_memory is False


def test_the_file_name_is_the_default_name(tmp_path: Path) -> None:
    assert load(tmp_path, MOCK, "bob.yaml").name == "bob"
    assert ".agents/my.bot.yaml:1:1: name: 'my.bot' is not a name" in refusal(tmp_path, MOCK, "my.bot.yaml")


def test_a_definition_cannot_be_changed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        load(tmp_path, MOCK).backend = "sdk"  # type: ignore[misc]


def test_all_mistakes_of_a_file_are_told_at_once_in_order(tmp_path: Path) -> None:
    text = "nme: x\nbackend: claud\nmax_tokens: '12'\nprompt: {system: a, system_file: b}\nlimits: {usd: 1}\n"
    lines = refusal(tmp_path, text).splitlines()
    assert lines == [
        '.agents/alice.yaml:1:1: nme: unknown key (did you mean "name"?)',
        ".agents/alice.yaml:2:10: backend: must be 'sdk', 'claude', 'codex', 'cursor', 'opencode', 'gemini', 'hermes', "
        "'acp' or 'mock' (did you mean \"claude\"?)",
        ".agents/alice.yaml:3:13: max_tokens: must be a whole number (without quotes)",
        ".agents/alice.yaml:4:9: prompt: needs exactly one of system, system_file",
        ".agents/alice.yaml:5:10: limits.usd: unknown key (known here: usd_per_day)",
    ]


def test_an_empty_file_says_what_is_missing(tmp_path: Path) -> None:
    assert "model: is required for backend sdk" in refusal(tmp_path, "")
    assert "must be a mapping" in refusal(tmp_path, "- a\n")
    assert "must be a mapping" in refusal(tmp_path, "hello")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_steps: true", "must be a whole number"),
        ("max_steps: 1.5", "must be a whole number"),
        ("max_steps: 0", "must be at least 1"),
        ("tools: bash", "must be a list"),
        ("memory:", "has no value"),
        ("memory: [1]", "must be a mapping"),
        ("soul: {role: 7}", "soul.role: must be text (put it in quotes)"),
        ("tools: [{name: bash, approve: 'yes'}]", "tools[0].approve: must be true or false"),
        ("timeout: 600", "must be a duration (a number and a unit"),
        ("timeout: 0s", "must be more than 0"),
        ("context: {thin_thread: -1}", "must be at least 0"),
        ("limits: {usd_per_day: much}", "must be an amount in USD, or off"),
        ("limits: {usd_per_day: -1}", "must be at least 0, or off"),
        ("mcp_servers: {docs: {}}", "mcp_servers.docs: needs exactly one of url, command"),
        ("mcp_servers: {docs: {url: 'ftp://x'}}", "is not a URL"),
        ("env: [$TOKEN]", "is not the name of an environment variable"),
        ("isolate: container", "must be 'worktree' or 'none'"),
        ("command: [x]", "is only for backend acp"),
        ("access: read", "is only for coding programs"),
        ("access: full", "is only for coding programs"),
        ("auto_memory: sometimes", "must be a mapping"),
        ("trust: true", "unknown key"),
    ],
)
def test_each_mistake_is_said_in_words_of_the_file(tmp_path: Path, line: str, message: str) -> None:
    assert message in refusal(tmp_path, f"{MOCK}{line}\n")


@pytest.mark.parametrize("value", ["no", "No", "on"])
def test_Y5_a_name_that_yaml_takes_for_a_boolean_stays_a_name(tmp_path: Path, value: str) -> None:
    assert load(tmp_path, f"{MOCK}name: {value}\n").name == value


@pytest.mark.parametrize("value", ["010", "12:30:00", "1e3", "null", "true", "7", "[a]"])
def test_Y5_what_is_no_name_is_an_error_and_never_another_type(tmp_path: Path, value: str) -> None:
    assert "name: " in refusal(tmp_path, f"{MOCK}name: {value}\n")


@pytest.mark.parametrize(
    "name", ["..", "-rf", "a/b", "con", "🙂", "a" * 300, "alice.", "system", "all", "user", "admin"]
)
def test_Y7_M14_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    assert "alice.yaml:2:7: name: " in refusal(tmp_path, f"{MOCK}name: '{name}'\n")


@pytest.mark.parametrize(
    "wakeup", ["0s", "1ms", "9s", "-5m", "9999y", "5", "500d", "* * * * * *", "0 0 31 2 *", "61 * * * *", "x y"]
)
def test_Y8_a_wakeup_that_is_too_short_or_nonsense_is_refused(tmp_path: Path, wakeup: str) -> None:
    assert "schedule.wakeup: " in refusal(tmp_path, f"{MOCK}schedule: {{wakeup: '{wakeup}'}}\n")


@pytest.mark.parametrize(
    "line",
    [
        "backend: ../../x",
        "model: 'a b'",
        'model: "a\\nb"',
        "model: --dangerous",
        "model: ''",
        "model: '${{ env.X }}'",
        "provider: {name: x, base_url: 'https://x/${{ env.X }}'}",
        "mcp_servers: {a: {url: 'http://x/${{ env.X }}'}}",
        "provider: {name: x, base_url: 'https://user:pw@x/'}",
        "tools: [../../x.py:f]",
        "tools: ['rm -rf']",
    ],
)
def test_Y9_Y14_names_that_could_be_options_paths_or_leaks_are_refused(tmp_path: Path, line: str) -> None:
    refusal(tmp_path, f"prompt: {{system: x}}\n{line}\n")


@pytest.mark.parametrize("value", ["sk-ant-secret", "'$'", "$A B", "${KEY}"])
def test_a_literal_secret_is_refused_and_not_repeated(tmp_path: Path, value: str) -> None:
    message = refusal(tmp_path, f"{MOCK}provider: {{name: x, api_key: '{value.strip(chr(39))}'}}\n")
    assert "never contain the key itself" in message
    assert "secret" not in message
    with pytest.raises(ValidationError) as caught:
        AgentDefinition.model_validate({"name": "a", "provider": {"name": "x", "api_key": "sk-secret"}})
    assert "sk-secret" not in str(caught.value)


def test_a_backend_gets_what_it_needs(tmp_path: Path) -> None:
    assert "command: is required for backend acp" in refusal(tmp_path, "backend: acp\nsystem_prompt: x\n")
    assert load(tmp_path, "backend: acp\nsystem_prompt: x\ncommand: [goose, acp]\n").command == ("goose", "acp")
    assert load(tmp_path, "backend: gemini\nsystem_prompt: x\n").model is None
    assert "prompt: is required" in refusal(tmp_path, "backend: claude\n")


def test_a_prompt_can_be_a_file_or_the_shorthand(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.md").write_text("From a file.")
    assert load(tmp_path, f"{MOCK}system_prompt: Just words.\n").system == "Just words."
    assert load(tmp_path, f"{MOCK}system_prompt: ../prompts/a.md\n").system == "From a file."
    agent = load(tmp_path, f"{MOCK}prompt: {{system_file: ../prompts/a.md}}\n")
    assert agent.prompt == PromptSettings.model_construct(system="From a file.", system_file="../prompts/a.md")
    assert "keep one of them" in refusal(tmp_path, f"{MOCK}system_prompt: x\nprompt: {{system: y}}\n")
    assert "only for a member with `ref`" in refusal(tmp_path, f"{MOCK}prompt: {{system: y, append: z}}\n")


def test_F9_a_prompt_file_must_be_a_text_inside_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".agents").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (project / "link.md").symlink_to(tmp_path / "secret.md")
    (project / "loop.md").symlink_to(project / "loop.md")
    (project / "binary.md").write_bytes(b"\x00\x01")
    (project / "latin.md").write_bytes(b"caf\xe9")
    (project / "empty.md").write_text(" \n")
    with (project / "huge.md").open("wb") as huge:
        huge.truncate(1024**3)
    for file in (
        "/etc/passwd",
        "~/x.md",
        "../../secret.md",
        "../link.md",
        "../loop.md",
        "../binary.md",
        "../latin.md",
        "../huge.md",
        "../empty.md",
        "../absent.md",
        "..",
    ):
        message = refusal(project, f"{MOCK}prompt: {{system_file: {file}}}\n")
        assert ".agents/alice.yaml:2:23: prompt.system_file: " in message
    assert ":2:16: system_prompt: " in refusal(project, f"{MOCK}system_prompt: ../absent.md\n")


@pytest.mark.parametrize("path", ["/home/me", "~", "..", "a/../..", ".git/x", ".", ".agents", ".workflows"])
def test_F10_a_personal_directory_must_be_its_own_inside_the_project(tmp_path: Path, path: str) -> None:
    assert "context.dir: " in refusal(tmp_path, f"{MOCK}context: {{dir: '{path}'}}\n")


def test_Y21_other_paths_cannot_lead_out_either(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/")
    for line in ("cwd: ..", "cwd: out", "skills: [out/etc]", "skills: [/etc]", "tools: [out/x.py:f]", "cwd: .git"):
        refusal(tmp_path, f"{MOCK}{line}\n")


def test_a_cron_line_and_a_moment_have_a_time_zone(tmp_path: Path) -> None:
    cron = load(tmp_path, f"{MOCK}schedule: {{wakeup: '0 9 * * 1-5', tz: Europe/Berlin}}\n").schedule
    assert cron is not None
    assert (cron.cron, cron.interval, str(cron.zone)) == ("0 9 * * 1-5", None, "Europe/Berlin")
    once = load(tmp_path, f"{MOCK}schedule: {{at: 2026-08-01T09:00, tz: Europe/Berlin}}\n").schedule
    assert once is not None
    assert once.moment == datetime(2026, 8, 1, 7, tzinfo=UTC)
    zones = [f"wakeup: '0 9 * * *', tz: {zone}" for zone in ("Mars/Base", "../etc", "/etc/passwd", "Europe")]
    for bad in ("wakeup: 5m, at: 2026-08-01", "prompt: x", "wakeup: 5m, tz: UTC", "at: soon", "at: 5", *zones):
        assert "schedule" in refusal(tmp_path, f"{MOCK}schedule: {{{bad}}}\n")


def test_a_script_has_one_action_per_entry(tmp_path: Path) -> None:
    agent = load(
        tmp_path,
        MOCK + "script:\n- say: hi\n- call: {tool: bash, with: {command: ls}}\n  slow: 200ms\n"
        "- call: [{tool: a}, {tool: b}]\n- fail: overloaded\n- steps: 3\n",
    )
    assert agent.script is not None
    say, call, calls, fail, steps = agent.script
    assert say.say == "hi"
    assert call.call is not None
    assert (call.call[0].tool, call.call[0].arguments, call.slow) == ("bash", {"command": "ls"}, 0.2)
    assert calls.call is not None
    assert [each.tool for each in calls.call] == ["a", "b"]
    assert (fail.fail, steps.steps) == ("overloaded", 3)
    for bad in (
        "say: a, fail: crash",
        "slow: 1s",
        "fail: maybe",
        "steps: 0",
        "call: []",
        "call: {}",
        "call: {tool: x, wth: {}}",
    ):
        assert "script[0]" in refusal(tmp_path, f"{MOCK}script: [{{{bad}}}]\n")
    assert "only for backend mock" in refusal(tmp_path, "backend: claude\nsystem_prompt: x\nscript: []\n")


def test_a_model_is_split_at_its_provider() -> None:
    assert split_model("anthropic/claude-sonnet-4-5") == ("anthropic", "claude-sonnet-4-5")
    assert split_model("ollama:qwen3:8b") == ("ollama", "qwen3:8b")
    assert split_model("openrouter/meta/llama") == ("openrouter", "meta/llama")
    assert split_model("sonnet") == (None, "sonnet")


def test_an_agent_can_be_written_in_python_too() -> None:
    agent = AgentDefinition(name="alice", model="a/b", system_prompt="You are Alice.")
    assert agent.system == "You are Alice."
    with pytest.raises(ValidationError):
        AgentDefinition(name="alice", system_prompt="x")


def test_settings_of_a_model_are_for_models_and_leave_alone_what_is_ours(tmp_path: Path) -> None:
    assert load(tmp_path, f"{SDK}settings: {{ temperature: 0.2, stop: [x] }}\n").settings == {
        "temperature": 0.2,
        "stop": ["x"],
    }
    assert "write max_tokens beside model" in refusal(tmp_path, f"{SDK}settings: {{ max_tokens: 9 }}\n")
    assert "settings.messages: cannot be set here" in refusal(tmp_path, f"{SDK}settings: {{ messages: [] }}\n")
    assert "is only for backend sdk" in refusal(tmp_path, "backend: claude\nsystem_prompt: x\nsettings: { a: 1 }\n")
