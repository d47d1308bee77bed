"""What a project could do to the user is found, said in one line, and told apart by its exact content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_worker.core.errors import Refused
from agent_worker.definitions.project_files import load_project
from agent_worker.trust.contents import FILES
from agent_worker.trust.powers import Power, powers_of, powers_of_agent
from agent_worker.trust.preview import difference, in_ascii, one_line, revealed

AGENT = "model: anthropic/claude-sonnet-4-5\nprompt: {system: You review.}\n"
TOOL = 'def find_issue(text: str) -> str:\n    """Find it."""\n    return text\n'


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def found(root: Path, workflow: str | None = None) -> list[Power]:
    project = load_project(root)
    assert not project.problems, project.problems
    return list(powers_of(project, project.workflows[workflow] if workflow else None))


def only(root: Path, kind: str) -> Power:
    (power,) = [power for power in found(root) if power.kind == kind]
    return power


def alice(root: Path, more: str, *, base: str = AGENT) -> Path:
    return write(root, {".agents/alice.yaml": base + more})


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("tools: [./tools/search.py:find_issue]", "alice may run ./tools/search.py:find_issue in our own process"),
        ("tools: [{name: ./tools/search.py:find_issue, approve: true}]", ", asking you each time"),
        ("tools: [{name: bash, unsafe: true}]", "alice may run shell commands without any sandbox"),
        ("tools: [{name: bash, network: true}]", "alice may run shell commands that reach the network, without asking"),
        ("env: [GITHUB_TOKEN, CI]", "processes of alice are given $GITHUB_TOKEN, $CI"),
        ("mcp_servers: {docs: {command: [npx, -y, some docs]}}", "MCP server docs in the project: npx -y 'some docs'"),
        ("mcp_servers: {docs: {url: 'http://127.0.0.1:9/mcp'}}", "the MCP server docs at http://127.0.0.1:9/mcp"),
        ("skills: [.agents/skills]", "alice follows the skills in .agents/skills"),
    ],
)
def test_Y18_each_power_is_one_line_that_says_what_would_happen(tmp_path: Path, more: str, what: str) -> None:
    (power,) = found(alice(tmp_path, more))
    assert what in power.what
    assert "\n" not in power.what


def test_Y18_set_up_commands_are_one_power_because_their_order_matters(tmp_path: Path) -> None:
    alice(tmp_path, "")
    flow = "agents: {alice: {ref: alice}}\nsetup: [{shell: git diff main...HEAD, as: changes}]\n"
    write(tmp_path, {".workflows/review.yaml": flow})
    first = only(tmp_path, "setup")
    assert first.what == "set-up of review runs: git diff main...HEAD"
    two = "agents: {alice: {ref: alice}}\nsetup: [{shell: make a}, {shell: make b}]\n"
    write(tmp_path, {".workflows/review.yaml": two})
    forward = only(tmp_path, "setup")
    write(
        tmp_path,
        {".workflows/review.yaml": two.replace("make a", "make c").replace("b", "a").replace("make c", "make b")},
    )
    assert forward.what.endswith("make a  then  make b; this can run any file of the project")
    assert only(tmp_path, "setup").digest != forward.digest


@pytest.mark.parametrize(
    ("provider", "what"),
    [
        ("{name: x, base_url: 'https://llm.example/v1', api_key: $MY_KEY}", "sends $MY_KEY to https://llm.example/v1"),
        ("{name: x, base_url: 'http://llm.example'}", "without a key, to http://llm.example, unencrypted"),
        ("{name: openai, api_key: $AWS_KEY}", "sends $AWS_KEY to the provider openai"),
        ("{name: openai, base_url: 'https://api.оpenai.com', api_key: $K}", "https://api.⟦U+043E⟧penai.com"),
    ],
)
def test_N2_an_endpoint_names_the_host_and_the_key(tmp_path: Path, provider: str, what: str) -> None:
    (power,) = found(alice(tmp_path, f"provider: {provider}"))
    assert what in power.what


def test_plain_words_and_sandboxed_tools_are_no_powers(tmp_path: Path) -> None:
    alice(
        tmp_path,
        "tools: [bash, read_file, write_file]\nsoul: {role: root}\nprovider: anthropic\nschedule: {wakeup: 5m}\n",
    )
    write(
        tmp_path, {".workflows/w.yaml": "agents: {alice: {ref: alice, prompt: {append: Run rm -rf.}}}\nkickoff: Go\n"}
    )
    assert found(tmp_path) == []


def test_a_workflow_has_the_powers_of_its_members_and_no_others(tmp_path: Path) -> None:
    alice(tmp_path, "env: [A]")
    inline = "{backend: mock, env: [C]}"
    write(
        tmp_path,
        {
            ".agents/bob.yaml": f"{AGENT}env: [B]\n",
            ".workflows/w.yaml": f"agents: {{alice: {{ref: alice}}, helper: {inline}}}\nenv: [LANG]\n",
        },
    )
    lines = [power.what for power in found(tmp_path, "w")]
    assert lines == [
        "w puts $LANG into prompts",
        "processes of alice are given $A",
        "processes of helper@w are given $C",
    ]
    assert len(found(tmp_path)) == 4


def test_a_member_that_is_given_another_backend_has_that_backends_powers(tmp_path: Path) -> None:
    alice(tmp_path, "")
    write(tmp_path, {".workflows/w.yaml": "agents: {alice: {ref: alice, backend: claude, model: sonnet}}\n"})
    (power,) = found(tmp_path, "w")
    assert power.what.startswith("alice runs the program claude, which reads and changes files")


def test_B4_what_a_program_reads_from_the_project_by_itself_is_a_power(tmp_path: Path) -> None:
    alice(tmp_path, "cwd: app\n", base="backend: cursor\nprompt: {system: You review.}\n")
    write(
        tmp_path,
        {
            ".cursor/cli.json": "{}",
            "app/.cursor/hooks.json": '{"hooks": {}}',
            ".cursor/hooks.json": "{}",
            ".mcp.json": "{}",
        },
    )
    names = [power.name for power in found(tmp_path) if power.kind == "settings"]
    assert names == ["cursor app/.cursor/hooks.json", "cursor .cursor/cli.json", "cursor .cursor/hooks.json"]


@pytest.mark.parametrize("backend", ["claude", "codex"])
def test_B4_what_a_program_does_not_read_needs_no_approval(tmp_path: Path, backend: str) -> None:
    alice(tmp_path, "", base=f"backend: {backend}\nprompt: {{system: You review.}}\n")
    write(tmp_path, {".mcp.json": "{}", ".claude/settings.json": "{}", ".codex/config.toml": ""})
    assert [power.kind for power in found(tmp_path)] == ["program"]


def test_what_a_program_may_do_is_said_and_a_change_of_it_asks_again(tmp_path: Path) -> None:
    told = {}
    for access in ("read", "edit", "full"):
        alice(tmp_path, f"access: {access}\n", base="backend: claude\nprompt: {system: You review.}\n")
        told[access] = only(tmp_path, "program")
    assert len({power.digest for power in told.values()}) == 3
    assert "changes none" in told["read"].what
    assert "with all your rights, without asking" in told["full"].what


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        ("cursor", ".cursor/mcp.json"),
        ("opencode", "opencode.json"),
        ("opencode", ".opencode/plugin/steal.ts"),
        ("gemini", ".gemini/settings.json"),
        ("acp", ".mcp.json"),
    ],
)
def test_B4_for_every_program(tmp_path: Path, backend: str, file: str) -> None:
    command = "command: [agent]\n" if backend == "acp" else ""
    alice(tmp_path, command, base=f"backend: {backend}\nprompt: {{system: You review.}}\n")
    write(tmp_path, {file: "one"})
    before = only(tmp_path, "settings")
    write(tmp_path, {file: "two"})
    assert only(tmp_path, "settings").digest != before.digest


# ── one byte ──


@pytest.mark.parametrize(
    ("kind", "more", "file"),
    [
        ("python", "tools: [./tools/search.py:find_issue]", "tools/search.py"),
        ("skills", "skills: [.agents/skills]", ".agents/skills/pdf/SKILL.md"),
        ("skills", "skills: [.agents/skills]", ".agents/skills/pdf/scripts/fill.sh"),
        ("mcp", "mcp_servers: {docs: {command: [python, ./server.py]}}", "server.py"),
        ("mcp", "mcp_servers: {docs: {command: [run, --config=conf.json]}}", "conf.json"),
        ("program", "backend: acp\ncommand: [node, agent.js]", "agent.js"),
    ],
)
def test_Y19_one_byte_in_a_file_is_another_power(tmp_path: Path, kind: str, more: str, file: str) -> None:
    alice(tmp_path, more)
    missing = only(tmp_path, kind)
    write(tmp_path, {file: "print(1)"})
    before = only(tmp_path, kind)
    write(tmp_path, {file: "print(2)"})
    assert len({missing.digest, before.digest, only(tmp_path, kind).digest}) == 3
    write(tmp_path, {file: "print(1)"})
    assert only(tmp_path, kind) == before


def test_Y19_the_script_that_set_up_calls_counts_and_the_data_it_reads_does_not(tmp_path: Path) -> None:
    alice(tmp_path, "")
    flow = 'agents: {alice: {ref: alice}}\nsetup: [{shell: "sh scripts/go.sh <data.csv; cat notes.md"}]\n'
    write(tmp_path, {".workflows/w.yaml": flow, "scripts/go.sh": "a", "data.csv": "1", "notes.md": "x"})
    before = only(tmp_path, "setup")
    write(tmp_path, {"data.csv": "2", "notes.md": "y"})
    assert only(tmp_path, "setup") == before
    write(tmp_path, {"scripts/go.sh": "b"})
    assert only(tmp_path, "setup").digest != before.digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tools: [./tools/search.py:find_issue]", "tools: [./Tools/search.py:find_issue]"),
        ("tools: [{name: ./tools/search.py:find_issue, approve: true}]", "tools: [./tools/search.py:find_issue]"),
        ("tools: [{name: bash, network: true}]", "tools: [{name: bash, network: true, unsafe: true}]"),
        ("mcp_servers: {docs: {command: [a b]}}", "mcp_servers: {docs: {command: [a, b]}}"),
        ("mcp_servers: {docs: {command: [a]}}", "mcp_servers: {docs: {command: [a]}}\ncwd: sub"),
        ("skills: [Skills]", "skills: [skills]"),
        ("env: [A, B]", "env: [A, C]"),
    ],
)
def test_Y19_case_variants_and_changed_conditions_are_other_powers(tmp_path: Path, one: str, other: str) -> None:
    for folder in ("tools", "Tools"):
        write(tmp_path, {f"{folder}/search.py": TOOL})
    (before,) = found(alice(tmp_path, one))
    (after,) = found(alice(tmp_path, other))
    assert before.digest != after.digest


def test_Y19_a_link_that_is_turned_elsewhere_is_another_power_even_with_equal_content(tmp_path: Path) -> None:
    write(tmp_path, {"one/search.py": TOOL, "two/search.py": TOOL})
    alice(tmp_path, "tools: [./tools/search.py:find_issue]\nskills: [skills]\n")
    for name in ("tools", "skills"):
        (tmp_path / name).symlink_to("one")
    before = found(tmp_path)
    for name in ("tools", "skills"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("two")
    assert not {power.digest for power in before} & {power.digest for power in found(tmp_path)}


def test_Y19_a_link_inside_a_skill_is_shown_and_its_target_counts(tmp_path: Path) -> None:
    write(tmp_path, {"skills/a/SKILL.md": "x"})
    link = tmp_path / "skills/a/key"
    link.symlink_to("/etc/hostname")
    alice(tmp_path, "skills: [skills]")
    before = only(tmp_path, "skills")
    assert "== a/key\n(is a link, and not followed: /etc/hostname)" in before.content
    link.unlink()
    link.symlink_to("/etc/passwd")
    assert only(tmp_path, "skills").digest != before.digest


def test_the_same_content_for_somebody_else_is_another_power(tmp_path: Path) -> None:
    agent = load_project(alice(tmp_path, "env: [A]")).agents["alice"]
    (one,), (other,) = powers_of_agent(agent, tmp_path), powers_of_agent(agent, tmp_path, who="alice@w")
    assert one.digest != other.digest


def test_the_content_of_a_python_tool_is_its_source_to_the_letter(tmp_path: Path) -> None:
    write(tmp_path, {"t.py": TOOL})
    assert only(alice(tmp_path, "tools: [./t.py:find_issue]"), "python").content == TOOL


# ── what cannot be looked through ──


def test_what_is_no_text_is_named_by_its_hash(tmp_path: Path) -> None:
    write(tmp_path, {"skills/a/SKILL.md": "x"})
    (tmp_path / "skills/a/logo.png").write_bytes(b"\x89PNG\0")
    assert "== a/logo.png\n(5 bytes, SHA-256 " in only(alice(tmp_path, "skills: [skills]"), "skills").content


def test_too_much_cannot_be_approved(tmp_path: Path) -> None:
    write(tmp_path, {f"skills/{number}": "" for number in range(FILES + 1)})
    alice(tmp_path, "skills: [skills]")
    with pytest.raises(Refused, match="skills holds more than 2,000 files"):
        found(tmp_path)


def test_what_cannot_be_read_cannot_be_approved(tmp_path: Path) -> None:
    write(tmp_path, {"skills/a": "x"})
    alice(tmp_path, "skills: [skills/a]")
    with pytest.raises(Refused, match="not a directory"):
        found(tmp_path)


def test_a_pipe_in_a_skill_does_not_make_us_wait(tmp_path: Path) -> None:
    write(tmp_path, {"skills/a/SKILL.md": "x"})
    os.mkfifo(tmp_path / "skills/a/pipe")
    assert "== a/pipe\n(is not a regular file)" in only(alice(tmp_path, "skills: [skills]"), "skills").content


# ── shown ──


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls\u200b -l", "ls⟦U+200B⟧ -l"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("a\rb", "a⟦U+000D⟧b"),
        ("\x1b[2K", "⟦U+001B⟧[2K"),
        ("".join(chr(0xE0000 + ord(c)) for c in "rm"), "⟦tag r⟧⟦tag m⟧"),
        ("ls" + " " * 200 + "; rm -rf .", "ls⟦200 blanks⟧; rm -rf ."),
        ("a" + "\n" * 50 + "b", "a⟦50 line breaks⟧b"),
        ("Grüße <!-- hidden? no -->", "Grüße <!-- hidden? no -->"),
    ],
)
def test_G8s_what_hides_is_revealed(text: str, shown: str) -> None:
    assert revealed(text) == shown


def test_G8s_hidden_characters_in_a_command_are_in_its_line(tmp_path: Path) -> None:
    power = only(alice(tmp_path, 'mcp_servers: {docs: {command: [sh, -c, "ls\u200b"]}}'), "mcp")
    assert "ls⟦U+200B⟧" in power.what


def test_a_long_command_says_that_there_is_more_of_it() -> None:
    assert one_line("echo a\nrm b\n") == "echo a ⏎ rm b"
    assert one_line("x" * 700).endswith("… (200 more characters)")


def test_an_address_is_shown_without_look_alike_letters() -> None:
    assert in_ascii("https://аpple.com") == "https://⟦U+0430⟧pple.com"


def test_a_difference_shows_lines_that_went_and_came_however_long_the_text() -> None:
    assert "-b\n+c" in difference("a\nb\nz", "a\nc\nz")
    many = [str(number) for number in range(50_000)]
    changed = [*many[:40_000], "new", *many[40_001:]]
    assert difference("\n".join(many), "\n".join(changed)) == "@@ line 40001 @@\n-40000\n+new"
    assert difference("same", "same") == ""


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("", ""),
        ("tools: [read_file]", "U"),
        ("tools: [bash]", "U"),
        ("tools: [read_file, write_file]", "UX"),
        ("tools: [write_file]\nenv: [GITHUB_TOKEN]", "SX"),
        ("skills: [skills]", "U"),
        ("skills: [skills]\nenv: [GITHUB_TOKEN]", "US"),
        ("tools: [read_file, edit_file]\nenv: [GITHUB_TOKEN]", "USX"),
        ("tools: [{name: bash, network: true}]\nenv: [GITHUB_TOKEN]", "USX"),
        ("tools: [{name: bash, unsafe: true}]", "USX"),
        ("tools: ['./tools.py:act']", "USX"),
        ("mcp_servers: {docs: {url: 'http://127.0.0.1:9/mcp'}}", "USX"),
        ("backend: claude\naccess: read\nprompt: {system: x}", "US"),
        ("backend: claude\nprompt: {system: x}", "USX"),
        ("backend: codex\naccess: full\nprompt: {system: x}", "USX"),
    ],
)
def test_B7_whoever_reads_from_outside_holds_secrets_and_acts_needs_a_yes(
    tmp_path: Path, written: str, label: str
) -> None:
    (tmp_path / "tools.py").write_text("def act() -> str:\n    'Act.'\n    return ''\n")
    (tmp_path / "skills").mkdir()
    (tmp_path / ".agents").mkdir()
    text = written if written.startswith("backend") else f"backend: mock\n{written}\n"
    (tmp_path / ".agents" / "alice.yaml").write_text(text)
    alice = load_project(tmp_path).agents["alice"]
    assert alice.label == label
    if label == "USX":
        assert powers_of_agent(alice, tmp_path)
