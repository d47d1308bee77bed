"""What opencode is started with, and what we make of what it reports. The real one runs in test_acp_programs.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.opencode import OpenCode, OpenCodeWords
from agent_worker.backends.programs.program import LentModel, Program, ProgramHost, ToolEndpoint
from agent_worker.backends.programs.sessions import Session
from agent_worker.backends.programs.signals import Over, ProgramRetries, ProgramSpent, Signal
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient
from agent_worker.definitions.agent import Access

TOKEN = "the-token-of-this-run"


@pytest.fixture
def bin(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "opencode").write_text("#!/bin/sh\n")
    (folder / "opencode").chmod(0o755)
    return folder


def job(tmp: Path, *, system: str = "You are Alice.", environ: dict[str, str] | None = None, **more: Any) -> ProgramJob:
    for name in ("project", "run", "user"):
        (tmp / name).mkdir(exist_ok=True)
    known = {"PATH": str(tmp / "bin"), "HOME": str(tmp / "user")} | (environ or {})
    program_host = ProgramHost(None, tmp / "state", known)
    program = Program("opencode", "alice", tmp / "project", tmp / "project", program_host, **more)
    return ProgramJob(
        program, ToolEndpoint("http://127.0.0.1:9/mcp", TOKEN), tmp / "run", system, "Go.", Session("opencode")
    )


def settings_of(tmp: Path) -> dict[str, Any]:
    """As it will read them: variables are filled in before it is parsed."""
    (file,) = tmp.glob("state/opencode/*/config/opencode/opencode.json")
    filled = re.sub(r"\{(env|file):([^}]+)\}", r"<\1 \2>", file.read_text())
    settings: dict[str, Any] = json.loads(filled)
    return settings


def test_words_of_others_are_never_filled_in(tmp_path: Path, bin: Path) -> None:
    """It replaces {env:…} and {file:…} wherever they stand in its settings."""
    bait = "You are Alice. {env:AGENT_WORKER_RUN_TOKEN} {file:/etc/passwd} {{env:HOME}}"
    OpenCode().launch(job(tmp_path, system=bait))
    assert settings_of(tmp_path)["agent"]["worker"]["prompt"] == bait


def test_locks_of_one_that_was_killed_do_not_hold_up_the_next(tmp_path: Path, bin: Path) -> None:
    OpenCode().launch(job(tmp_path))
    (home,) = tmp_path.glob("state/opencode/*")
    left = home / "state" / "opencode" / "locks" / "mcp-auth"
    left.mkdir(parents=True)
    OpenCode().launch(job(tmp_path))
    assert not left.exists()


def test_the_key_itself_is_never_given_to_it(tmp_path: Path, bin: Path) -> None:
    asked = job(tmp_path, model="anthropic/claude-sonnet-4-5", environ={"ANTHROPIC_API_KEY": "sk-secret"})
    launch = OpenCode().launch(asked)
    options = settings_of(tmp_path)["provider"]["anthropic"]["options"]
    assert options["apiKey"] == "<env AGENT_WORKER_RUN_TOKEN>"
    assert options["baseURL"] == "http://127.0.0.1:9/model/v1"
    assert asked.entry.model == LentModel("https://api.anthropic.com", "sk-secret")
    assert "sk-secret" not in repr((launch.argv, dict(launch.env)))
    assert not any("sk-secret" in file.read_text() for file in (tmp_path / "state").rglob("*") if file.is_file())
    assert "ANTHROPIC_API_KEY" not in launch.env


@pytest.mark.parametrize(
    ("provider", "library", "address", "path"),
    [
        ("anthropic", "@ai-sdk/anthropic", "https://llm.example", "/v1"),
        ("openai", "@ai-sdk/openai-compatible", "https://llm.example/v1", ""),
        ("mine", "@ai-sdk/openai-compatible", "https://llm.example/v1", ""),
    ],
)
def test_an_endpoint_of_ones_own_is_spoken_to_in_its_protocol(
    tmp_path: Path, bin: Path, provider: str, library: str, address: str, path: str
) -> None:
    endpoint = Endpoint(provider, "https://llm.example/v1", "$MY_KEY")
    asked = job(tmp_path, model="large", endpoint=endpoint, environ={"MY_KEY": "k"})
    OpenCode().launch(asked)
    assert asked.entry.model == LentModel(address, "k", is_checked=True)
    settings = settings_of(tmp_path)
    assert settings["model"] == settings["small_model"] == f"{provider}/large"
    assert settings["enabled_providers"] == [provider]
    assert settings["provider"][provider]["npm"] == library
    assert settings["provider"][provider]["options"]["baseURL"] == f"http://127.0.0.1:9/model{path}"


def test_google_is_asked_where_its_own_library_asks_it(tmp_path: Path, bin: Path) -> None:
    asked = job(tmp_path, model="google/gemini-3-pro", environ={"GEMINI_API_KEY": "k"})
    OpenCode().launch(asked)
    assert asked.entry.model == LentModel("https://generativelanguage.googleapis.com/v1beta", "k")


def test_a_model_that_needs_no_key_is_asked_where_it_is(tmp_path: Path, bin: Path) -> None:
    endpoint = Endpoint("ollama", "http://127.0.0.1:11434/v1", approval=Approval(local=True))
    asked = job(tmp_path, model="ollama/small", endpoint=endpoint)
    OpenCode().launch(asked)
    assert asked.entry.model is None
    assert settings_of(tmp_path)["provider"]["ollama"]["options"]["baseURL"] == "http://127.0.0.1:11434/v1"


def test_without_a_key_it_uses_the_login_of_the_user(tmp_path: Path, bin: Path) -> None:
    login = tmp_path / "user" / ".local" / "share" / "opencode" / "auth.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    OpenCode().launch(job(tmp_path, model="anthropic/claude-sonnet-4-5"))
    (ours,) = tmp_path.glob("state/opencode/*/data/opencode/auth.json")
    assert ours.resolve() == login


@pytest.mark.parametrize(("access", "edits"), [("read", None), ("edit", "allow"), ("full", None)])
def test_what_it_may_do(tmp_path: Path, bin: Path, access: Access, edits: str | None) -> None:
    OpenCode().launch(job(tmp_path, access=access))
    permission = settings_of(tmp_path)["permission"]
    assert permission["*"] == ("allow" if access == "full" else "deny")
    assert permission.get("edit") == edits


def test_its_own_server_is_closed_to_others(tmp_path: Path, bin: Path) -> None:
    first, second = (OpenCode().launch(job(tmp_path)).env["OPENCODE_SERVER_PASSWORD"] for _ in range(2))
    assert len(first) == 32
    assert first != second


def test_one_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(Permanent, match="opencode is not installed") as missing:
        OpenCode().launch(job(tmp_path))
    assert missing.value.hint == "npm install -g opencode-ai"


def hear(words: OpenCodeWords, *told: dict[str, Any]) -> list[Signal]:
    lines = [f"\x1eagent-worker {json.dumps(each)}" for each in told]
    return [signal for line in lines for signal in words.overheard(line) or ()]


def test_it_may_try_once_more_and_then_it_is_our_turn(tmp_path: Path) -> None:
    words = OpenCode().words(job(tmp_path))
    first = hear(words, {"status": 429, "after": "7"}, {"retry": {"attempt": 1, "message": "slow down"}})
    assert first == [ProgramRetries("slow down")]
    _, over = hear(words, {"status": 429, "after": "7"}, {"retry": {"attempt": 2, "message": "slow down"}})
    assert isinstance(over, Over)
    assert isinstance(over.failure, Overloaded)
    assert over.failure.retry_after == 7


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"name": "APIError", "data": {"statusCode": 401, "message": "no"}}, Permanent),
        ({"name": "APIError", "data": {"statusCode": 500, "message": "no"}}, Transient),
        ({"name": "APIError", "data": {"message": "connection refused"}}, Transient),
        ({"name": "ContextOverflowError", "data": {"message": "too long"}}, Exhausted),
        ({"name": "ProviderAuthError", "data": {"message": "no key"}}, Permanent),
        ({"name": "ProviderModelNotFoundError", "data": {}}, Permanent),
        ({"name": "UnknownError", "data": {"message": "?"}}, Crashed),
        ({}, Crashed),
        ("nonsense", Crashed),
    ],
)
def test_its_errors_are_classified_by_name_and_status(
    tmp_path: Path, error: Any, failure: type[BackendFailure]
) -> None:
    words = OpenCode().words(job(tmp_path))
    hear(words, {"error": error})
    assert type(words.failure(-32603, "Internal error: no", {"service": "session"})) is failure


def test_all_steps_of_a_run_are_counted_once(tmp_path: Path) -> None:
    words = OpenCode().words(job(tmp_path))
    growing = [(10, 1, 0.0), (100, 20, 0.5)]
    told = [
        {"message": name, "tokens": {"input": read, "output": written, "cache": {"read": 5}}, "cost": cost}
        for name in ("m1", "m2")
        for read, written, cost in growing
    ]
    *_, last = hear(words, *told)
    assert isinstance(last, ProgramSpent)
    assert (last.usage.input, last.usage.cached, last.usage.output, last.usage.usd) == (210, 10, 40, 1.0)
    assert words.spent({}, {}) == last.usage


def test_what_else_it_prints_is_left_to_be_quoted(tmp_path: Path) -> None:
    words = OpenCode().words(job(tmp_path))
    assert words.overheard("Error: no such file") is None
    assert list(words.overheard("\x1eagent-worker {broken") or ()) == []
    assert list(words.overheard('\x1eagent-worker ["list"]') or ()) == []
