"""What gemini is started with, and what we make of its answers. The real one runs in test_acp_programs.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.gemini import Gemini
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.program import LentModel, Program, ProgramHost, ToolEndpoint, without_provider
from agent_worker.backends.programs.sessions import Session
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Overloaded, Permanent, Transient
from agent_worker.definitions.agent import Access


def job(tmp: Path, *, environ: dict[str, str] | None = None, **more: Any) -> ProgramJob:
    for name in ("project", "run", "user", "bin"):
        (tmp / name).mkdir(exist_ok=True)
    (tmp / "bin" / "gemini").write_text("#!/bin/sh\n")
    (tmp / "bin" / "gemini").chmod(0o755)
    known = {"PATH": str(tmp / "bin"), "HOME": str(tmp / "user")} | (environ or {})
    program_host = ProgramHost(None, tmp / "state", known)
    program = Program("gemini", "alice", tmp / "project", tmp / "project", program_host, **more)
    return ProgramJob(
        program, ToolEndpoint("http://127.0.0.1:9/mcp", "t"), tmp / "run", "You are Alice.", "Go.", Session("gemini")
    )


def settings_of(tmp: Path) -> dict[str, Any]:
    (file,) = tmp.glob("state/gemini/*/.gemini/settings.json")
    settings: dict[str, Any] = json.loads(file.read_text())
    return settings


def test_its_key_and_address_are_always_ours(tmp_path: Path) -> None:
    """What is not in its environment, it takes from files in the project."""
    asked = job(tmp_path, environ={"GEMINI_API_KEY": "sk-secret"}, model="google/gemini-3-pro")
    launch = Gemini().launch(asked)
    assert launch.env["GEMINI_API_KEY"] == asked.entry.token
    assert launch.env["GOOGLE_GEMINI_BASE_URL"] == "http://127.0.0.1:9/model"
    assert asked.entry.model == LentModel("https://generativelanguage.googleapis.com", "sk-secret")
    assert "sk-secret" not in repr(dict(launch.env))
    assert "sk-secret" not in " ".join(launch.argv)
    assert launch.argv[-2:] == ("--model", "gemini-3-pro")
    assert settings_of(tmp_path)["security"]["auth"]["selectedType"] == "gemini-api-key"


def test_its_prompt_and_its_reports_are_in_the_folder_of_the_run(tmp_path: Path) -> None:
    launch = Gemini().launch(job(tmp_path))
    assert Path(launch.env["GEMINI_SYSTEM_MD"]).read_text() == "You are Alice."
    assert Path(launch.env["GEMINI_SYSTEM_MD"]).parent == tmp_path / "run" == Path(launch.env["TMPDIR"])


def test_without_a_key_it_uses_the_login_of_the_user(tmp_path: Path) -> None:
    login = tmp_path / "user" / ".gemini" / "oauth_creds.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    launch = Gemini().launch(job(tmp_path))
    (ours,) = tmp_path.glob("state/gemini/*/.gemini/oauth_creds.json")
    assert ours.resolve() == login
    assert settings_of(tmp_path)["security"]["auth"]["selectedType"] == "oauth-personal"
    assert "GEMINI_API_KEY" not in launch.env


@pytest.mark.parametrize(
    ("access", "writes", "runs"), [("read", False, False), ("edit", True, False), ("full", True, True)]
)
def test_tools_it_may_not_use_are_not_offered(tmp_path: Path, access: Access, writes: bool, runs: bool) -> None:
    Gemini().launch(job(tmp_path, access=access))
    excluded = settings_of(tmp_path)["tools"]["exclude"]
    assert ("write_file" not in excluded) is writes
    assert ("run_shell_command" not in excluded) is runs


def test_a_session_is_kept_from_being_written_over(tmp_path: Path) -> None:
    begun = job(tmp_path)
    chats = begun.program.home() / ".gemini" / "tmp" / "project" / "chats"
    chats.mkdir(parents=True)
    (chats / "session-2026-11-16T00-15-1c71ed44.jsonl").write_text('{"type":"gemini","content":"hello"}')
    (chats / "session-2026-11-16T00-16-1c71ed44.jsonl").write_text('{"type":"user","content":"nothing came of it"}')
    (chats / "session-2026-11-16T00-15-6f06813b.jsonl").write_text("{}")
    Gemini().launch(replace(begun, session=Session("gemini", "1c71ed44-e5af-49a1-9857-d72ab57b9fb2")))
    assert sorted(file.name for file in chats.iterdir()) == [
        "session-2000-01-01T00-00-1c71ed44.jsonl",
        "session-2026-11-16T00-15-6f06813b.jsonl",
    ]


def test_its_turns_are_capped_when_the_definition_says_so(tmp_path: Path) -> None:
    Gemini().launch(job(tmp_path))
    assert settings_of(tmp_path)["model"]["maxSessionTurns"] == -1
    Gemini().launch(job(tmp_path, max_turns=7))
    assert settings_of(tmp_path)["model"]["maxSessionTurns"] == 7


@pytest.mark.parametrize("name", ["gemini-3-pro", "google/gemini-3-pro", "google:gemini-3-pro", "gemini/gemini-3-pro"])
def test_a_model_is_called_by_its_own_name(name: str) -> None:
    assert without_provider(name, "google", "gemini") == "gemini-3-pro"


@pytest.mark.parametrize(
    ("code", "message", "failure", "told"),
    [
        (401, '{"error": {"code": 401, "message": "bad key"}}', Permanent, "gemini: bad key"),
        (429, "slow down", Overloaded, "gemini: slow down"),
        (500, '{"error": {"message": "oops"}}', Transient, "gemini: oops"),
        (400, '{"error": {"message": "bad"}}', Permanent, "gemini: bad"),
        (400, "The input token count (2000000) exceeds the maximum", Exhausted, "input token count"),
        (-32000, "Authentication required", Permanent, "Authentication"),
        (-32603, "[1]", Crashed, "gemini: [1]"),
    ],
)
def test_its_errors_are_classified_by_status(
    tmp_path: Path, code: int, message: str, failure: type[BackendFailure], told: str
) -> None:
    made = Gemini().words(job(tmp_path)).failure(code, message, {})
    assert type(made) is failure
    assert told in made.message


def test_what_it_used_is_in_its_answer(tmp_path: Path) -> None:
    answer = {"_meta": {"quota": {"token_count": {"input_tokens": 200, "output_tokens": 40}}}}
    assert Gemini().words(job(tmp_path)).spent(answer, {}) == Usage(200, 0, 40)
