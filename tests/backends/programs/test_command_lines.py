"""How claude, codex and cursor are called: with which rights, whose account, and nothing that others may not see."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_worker.backends.programs.claude import Claude
from agent_worker.backends.programs.codex import Codex, native
from agent_worker.backends.programs.cursor import Cursor
from agent_worker.backends.programs.one_shot import PrintingProgram, ProgramJob
from agent_worker.backends.programs.program import LentModel, Program, ProgramHost, ToolEndpoint
from agent_worker.backends.programs.runner import Launch
from agent_worker.backends.programs.sessions import Session
from agent_worker.core.errors import Permanent
from agent_worker.definitions.agent import Access

CLIS: dict[str, tuple[type[PrintingProgram], str]] = {
    "claude": (Claude, "claude"),
    "codex": (Codex, "codex"),
    "cursor": (Cursor, "cursor-agent"),
}
every = pytest.mark.parametrize("name", CLIS)
BYPASSES = ("dangerously", "bypass", "yolo", "danger-full-access", "--force")


def launched(tmp: Path, name: str, access: Access = "edit", session: str = "", **environ: str) -> Launch:
    return started(tmp, name, access, session, **environ)[1]


def started(
    tmp: Path, name: str, access: Access = "edit", session: str = "", **environ: str
) -> tuple[ProgramJob, Launch]:
    cli, binary = CLIS[name]
    for folder in ("bin", "repo", "run"):
        (tmp / folder).mkdir(exist_ok=True)
    (tmp / "bin" / binary).write_text("#!/bin/sh\n")
    (tmp / "bin" / binary).chmod(0o755)
    keys = {"CURSOR_API_KEY": "sk-cursor"} if name == "cursor" else {}
    program_host = ProgramHost(None, tmp / "state", {"PATH": str(tmp / "bin"), "HOME": str(tmp), **keys, **environ})
    program = Program(name, "alice", tmp / "repo", tmp / "repo", program_host, model="m", access=access)
    entry = ToolEndpoint("http://127.0.0.1:1/mcp", "the-token")
    job = ProgramJob(program, entry, tmp / "run", "You are Alice.", "The prompt.", Session(name, session))
    return job, cli().launch(job)


@every
def test_a_command_line_holds_no_secret_and_no_prompt(tmp_path: Path, name: str) -> None:
    made = launched(tmp_path, name, ANTHROPIC_API_KEY="sk-anthropic", OPENAI_API_KEY="sk-openai")
    shown = " ".join(made.argv)
    for hidden in ("the-token", "sk-", "The prompt.", "You are Alice."):
        assert hidden not in shown
    assert "The prompt." in made.prompt
    assert made.env["AGENT_WORKER_RUN_TOKEN"] == "the-token"
    assert "the-token" in made.secrets
    assert not any("the-token" in file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "the-token" not in repr(made)


@pytest.mark.parametrize("name", ["claude", "codex"])
@pytest.mark.parametrize("access", ["read", "edit"])
def test_B7_no_program_is_let_loose_by_default(tmp_path: Path, name: str, access: Access) -> None:
    shown = " ".join(launched(tmp_path, name, access).argv)
    assert not [each for each in BYPASSES if each in shown]


def test_B7_cursor_edits_in_its_sandbox(tmp_path: Path) -> None:
    assert {"--sandbox", "enabled"} <= set(launched(tmp_path, "cursor").argv)
    assert "--force" not in launched(tmp_path, "cursor", "read").argv


@every
def test_a_session_is_gone_on_with(tmp_path: Path, name: str) -> None:
    assert "s-1" in launched(tmp_path, name, session="s-1").argv
    assert not [word for word in launched(tmp_path, name).argv if "resume" in word]


@pytest.mark.parametrize(
    ("name", "key", "variable", "place"),
    [
        ("claude", "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR"),
        ("claude", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
        ("codex", "OPENAI_API_KEY", "AGENT_WORKER_RUN_TOKEN", "CODEX_HOME"),
        ("codex", "CODEX_API_KEY", "AGENT_WORKER_RUN_TOKEN", "CODEX_HOME"),
    ],
)
def test_with_a_key_a_program_keeps_its_sessions_with_us_and_knows_only_its_token(
    tmp_path: Path, name: str, key: str, variable: str, place: str
) -> None:
    job, launch = started(tmp_path, name, **{key: "sk-1"})
    assert job.entry.model is not None
    assert job.entry.model.key == "sk-1"
    assert launch.env[variable] == "the-token"
    assert Path(launch.env[place]).is_relative_to(tmp_path / "state")
    assert "sk-1" not in repr(dict(launch.env))
    assert "sk-1" in launch.secrets  # which is cut out of whatever it prints


def test_a_login_that_the_user_put_into_the_environment_is_lent_too(tmp_path: Path) -> None:
    job, launch = started(tmp_path, "claude", CLAUDE_CODE_OAUTH_TOKEN="sk-login", CLAUDE_CONFIG_DIR="/mine")
    assert job.entry.model is not None
    assert job.entry.model.key == "sk-login"
    assert launch.env["CLAUDE_CODE_OAUTH_TOKEN"] == "the-token"
    assert launch.env["CLAUDE_CONFIG_DIR"] == "/mine"
    assert "sk-login" not in repr(dict(launch.env))


@pytest.mark.parametrize(("name", "place"), [("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")])
def test_without_a_key_it_uses_the_users_own_login(tmp_path: Path, name: str, place: str) -> None:
    assert place not in launched(tmp_path, name).env  # where it is by itself, in the user's home
    assert launched(tmp_path, name, **{place: "/elsewhere"}).env[place] == "/elsewhere"
    assert launched(tmp_path, name).env["HOME"] == str(tmp_path)


def test_the_key_of_one_provider_does_not_reach_the_program_of_another(tmp_path: Path) -> None:
    assert "sk-openai" not in launched(tmp_path, "claude", OPENAI_API_KEY="sk-openai").env.values()
    assert "sk-anthropic" not in launched(tmp_path, "codex", ANTHROPIC_API_KEY="sk-anthropic").env.values()


def test_the_users_own_address_of_a_provider_is_respected(tmp_path: Path) -> None:
    given = {"ANTHROPIC_API_KEY": "sk", "ANTHROPIC_BASE_URL": "https://gateway.example/v1"}
    job, launch = started(tmp_path, "claude", **given)
    assert job.entry.model == LentModel("https://gateway.example", "sk")
    assert launch.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/model"
    given = {"OPENAI_API_KEY": "sk", "OPENAI_BASE_URL": "https://gateway.example/v1"}
    job, launch = started(tmp_path, "codex", **given)
    assert job.entry.model == LentModel("https://gateway.example/v1", "sk")
    assert 'base_url = "http://127.0.0.1:1/model"' in " ".join(launch.argv)


def test_cursor_without_a_key_would_wait_for_a_browser(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="CURSOR_API_KEY is not set"):
        launched(tmp_path, "cursor", CURSOR_API_KEY="")


def test_codex_itself_is_started_and_not_the_script_before_it(tmp_path: Path) -> None:
    """The script is its parent where Node is old: killed with us, it would leave codex behind."""
    packages = tmp_path / "node_modules" / "@openai"
    script = packages / "codex" / "bin" / "codex.js"
    binary = packages / "codex-linux-x64" / "vendor" / "x86_64-unknown-linux-musl" / "bin" / "codex"
    for file in (script, binary):
        file.parent.mkdir(parents=True)
        file.touch()
    (tmp_path / "codex").symlink_to(script)
    assert native(str(tmp_path / "codex")) == str(binary)
    assert native(str(binary)) == str(binary)
    binary.unlink()
    assert native(str(tmp_path / "codex")) == str(tmp_path / "codex")
