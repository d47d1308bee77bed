"""Gemini CLI: its private home, its settings, its errors.

It takes tools only in a folder it trusts, and in such a folder it obeys the project's own settings: our settings stand
above them, and a project that has any is refused unless the agent may do everything. A GEMINI.md of the project is
read all the same: it is words. Tried with 0.61.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.acp import PlainWords, refuse_foreign_settings
from agent_worker.backends.programs.json_fields import block, count, text
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.program import SERVER, LentModel, Program, ProgramAccount, without_provider
from agent_worker.backends.programs.runner import Launch
from agent_worker.core.errors import BackendFailure, Exhausted
from agent_worker.core.later import pattern

INSTALL = "npm install -g @google/gemini-cli"
_SERVICE = "https://generativelanguage.googleapis.com"
_TRIES = 2  # its own; ours follow, where they can be seen
_SHELL = ("run_shell_command", "list_background_processes", "read_background_output")
_WEB = ("google_web_search", "web_fetch")
_WRITES = ("replace", "write_file")
_OTHERS = ("invoke_agent", "activate_skill", "enter_plan_mode")  # who would act for it, or change what it may do
_LOGIN = ("oauth_creds.json", "google_accounts.json")
_ANSWERED = b'"type":"gemini"'  # in its record of a session
_BAD_REQUEST = 400
_OVERFLOW = pattern(r"input token count .* exceeds", re.IGNORECASE)  # there is no code for it


class Gemini:
    farewell = 0.0  # it does not end by itself

    def launch(self, job: ProgramJob) -> Launch:
        program = job.program
        refuse_foreign_settings(program)
        binary, home, account = program.binary("gemini", install=INSTALL), program.home(), program.account("google")
        settings = json.dumps(_settings(program, account))
        (home / ".gemini").mkdir(mode=0o700, exist_ok=True)
        (home / ".gemini" / "settings.json").write_text(settings)
        (home / "above-all.json").write_text(settings)
        _save(home, job.session.id)
        argv = [binary, "--acp", "--skip-trust", "--allowed-mcp-server-names", SERVER, "--extensions", "none"]
        if program.model:
            argv += ["--model", without_provider(program.model, "google", "gemini")]
        env = job.environment() | _places(job, home) | _identity(job, home, account)
        return Launch(tuple(argv), program.cwd, env, job.prompt, (job.entry.token, account.key if account else ""))

    def words(self, job: ProgramJob) -> GeminiWords:
        return GeminiWords(job)


def _settings(program: Program, account: ProgramAccount | None) -> dict[str, Any]:
    return {
        "security": {"auth": {"selectedType": "gemini-api-key" if account else "oauth-personal"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        # What it takes for broken it would delete.
        "general": {"enableAutoUpdate": False, "maxAttempts": _TRIES, "sessionRetention": {"enabled": False}},
        "advanced": {"ignoreLocalEnv": True},
        "mcp": {"allowed": [SERVER], "serverCommand": ""},
        "tools": {"exclude": list(_excluded(program)), "discoveryCommand": "", "callCommand": ""},
        "hooksConfig": {"enabled": False},
        "skills": {"enabled": False},
        "experimental": {"enableAgents": False},
        "model": {"maxSessionTurns": program.max_turns or -1},
    }


def _excluded(program: Program) -> tuple[str, ...]:
    match program.access:
        case "read":
            return (*_OTHERS, *_SHELL, *_WEB, *_WRITES)
        case "edit":
            return (*_OTHERS, *_SHELL, *_WEB)
        case "full":
            return _OTHERS


def _places(job: ProgramJob, home: Path) -> dict[str, str]:
    return {
        "GEMINI_CLI_HOME": str(home),
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(home / "above-all.json"),
        "GEMINI_CLI_NO_RELAUNCH": "true",  # with a second process it would not hear that it should end
        "GEMINI_SYSTEM_MD": job.file("system.md", job.system),
        "TMPDIR": str(job.folder),  # where it leaves reports with the whole conversation
        "NO_BROWSER": "true",
    }


def _save(home: Path, session: str) -> None:
    """Save a session from the program itself, which empties one that was begun in the same minute, by its file's
    name."""
    short = re.sub(r"[^0-9a-f]", "", session)[:8]
    for file in home.glob(f".gemini/tmp/*/chats/session-*-{short}.jsonl") if short else ():
        if _ANSWERED in file.read_bytes():
            file.rename(file.with_name(f"session-2000-01-01T00-00-{short}.jsonl"))
        else:
            file.unlink()


def _identity(job: ProgramJob, home: Path, account: ProgramAccount | None) -> dict[str, str]:
    """Whose account is used: that of the key, or without one the user's login."""
    if account:
        # Both are always given: what is not there, it would take from files in the project.
        where = job.entry.lend(LentModel(account.base_url or _SERVICE, account.key, account.is_checked))
        return {"GEMINI_API_KEY": job.entry.token, "GOOGLE_GEMINI_BASE_URL": where}
    environ = job.program.program_host.environ
    theirs = Path(environ.get("GEMINI_CLI_HOME") or environ.get("HOME", "/nonexistent"), ".gemini")
    for name in _LOGIN:
        ours = home / ".gemini" / name
        if (theirs / name).exists() and not ours.is_symlink():
            ours.symlink_to(theirs / name)
    return {}


class GeminiWords(PlainWords):
    def failure(self, code: int, message: str, data: Mapping[str, Any]) -> BackendFailure:
        told = _inner(message)
        if code == _BAD_REQUEST and _OVERFLOW.search(told):
            return Exhausted(f"gemini: {told}", hint="the conversation is too large for its model")
        return super().failure(code, told, data)

    def spent(self, answer: Mapping[str, Any], update: Mapping[str, Any]) -> Usage:
        tokens = block(block(block(answer, "_meta"), "quota"), "token_count")
        return Usage(input=count(tokens, "input_tokens"), output=count(tokens, "output_tokens"))


def _inner(message: str) -> str:
    """The sentence in the body of an answer, which the program passes on as it came."""
    try:
        body = json.loads(message)
    except (ValueError, RecursionError):
        return message
    return (text(block(body, "error"), "message") or message) if isinstance(body, dict) else message
