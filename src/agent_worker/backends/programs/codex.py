"""Codex: its command line, its files, its stream.

Nothing of the user's or the project's settings is loaded: no servers but ours, no rules, no AGENTS.md. What it may do
is held by its own sandbox. It tells no costs, and no status of a failed request but in words. Tried with 0.166.0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.failures import by_status
from agent_worker.backends.programs.json_fields import block, blocks, count, text
from agent_worker.backends.programs.one_shot import PrintingProgram, ProgramJob
from agent_worker.backends.programs.program import SERVER, TOKEN, LentModel, Program, ProgramAccount, without_provider
from agent_worker.backends.programs.runner import Launch
from agent_worker.backends.programs.signals import (
    Calling,
    Over,
    ProgramRetries,
    ProgramReturned,
    ProgramSpent,
    ProgramStarted,
    Said,
    Signal,
)
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted
from agent_worker.core.later import pattern

INSTALL = "npm install -g @openai/codex"
_SERVICE = "https://api.openai.com/v1"
_OWN_KEY = "CODEX_API_KEY"
_SANDBOX = {"read": "read-only", "edit": "workspace-write", "full": "danger-full-access"}
_CALLS = frozenset({"command_execution", "file_change", "web_search", "mcp_tool_call"})
_STATUS = pattern(r"\b(?:status|HTTP|code)\D{0,3}([45]\d\d)\b")
_IDLE = 120_000  # milliseconds without anything from the model
#: No news from home, nothing fetched, nothing left running, and an end to its waiting for the network.
_QUIET = {
    "project_doc_max_bytes": "0",
    "analytics.enabled": "false",
    "features.plugins": "false",
    "features.apps": "false",
    "features.hooks": "false",
    "features.daemon_auto_start": "false",
    "features.skill_search": "false",
    "features.skip_host_skill_discovery": "true",
    "skills.include_instructions": "false",
    "skills.bundled.enabled": "false",
    "sandbox_workspace_write.exclude_slash_tmp": "true",  # it has a place of its own
    "check_for_update_on_startup": "false",
    "features.unbounded_connection_retries": "false",
    "allow_login_shell": "false",  # which would have another PATH than ours
}


class Codex(PrintingProgram):
    def launch(self, job: ProgramJob) -> Launch:
        program, account = job.program, _account(job.program)
        settings = _QUIET | {
            "model_instructions_file": _quoted(job.file("system.md", job.system or "You are an agent.")),
            f"mcp_servers.{SERVER}": _table(_server(job)),
            **_provider(job, account),
        }
        argv = [native(program.binary("codex", install=INSTALL)), "exec"]
        if job.session.id:
            argv += ["resume", job.session.id]
        argv += ["--json", "--skip-git-repo-check", "--ignore-user-config", "--ignore-rules"]
        argv += ["-c", f"sandbox_mode={_quoted(_SANDBOX[program.access])}"]
        if program.model:
            argv += ["-m", without_provider(program.model, "openai")]
        for name, value in settings.items():
            argv += ["-c", f"{name}={value}"]
        argv.append("-")
        env = job.environment() | _identity(program, account)
        secrets = (job.entry.token, account.key if account else "")
        return Launch(tuple(argv), program.cwd, env, job.prompt, secrets)

    def parser(self, job: ProgramJob) -> CodexStream:
        return CodexStream()


def native(found: str) -> str:
    """The program itself, where npm has put a script before it: the script would outlive us, or be outlived."""
    script = Path(os.path.realpath(found))
    if script.suffix == ".js":
        package = script.parent.parent
        for beside in (package.parent, package / "node_modules" / "@openai", package):
            for binary in beside.glob("*codex-*/vendor/*/bin/codex"):
                return str(binary)
    return found


def _server(job: ProgramJob) -> dict[str, str]:
    return {
        "url": _quoted(job.entry.url),
        "bearer_token_env_var": _quoted(TOKEN),
        "default_tools_approval_mode": _quoted("approve"),
        "required": "true",
        "tool_timeout_sec": "60",
    }


def _account(program: Program) -> ProgramAccount | None:
    """The key to use: of its provider, or the one that the user has for codex alone."""
    own = program.given(_OWN_KEY)
    return program.account("openai") or (ProgramAccount(own[_OWN_KEY], variable=_OWN_KEY) if own else None)


def _provider(job: ProgramJob, account: ProgramAccount | None) -> dict[str, str]:
    """Settings of a provider, with few retries of its own: ours follow, where they can be seen."""
    if account is None:
        return {}
    where = job.entry.lend(LentModel(account.base_url or _SERVICE, account.key, account.is_checked))
    ours = {
        "name": _quoted("model"),
        "base_url": _quoted(where),
        "env_key": _quoted(TOKEN),
        "wire_api": _quoted("responses"),
        "request_max_retries": "1",
        "stream_max_retries": "2",
        "stream_idle_timeout_ms": str(_IDLE),
    }
    return {"model_provider": _quoted("ours"), "model_providers.ours": _table(ours)}


def _identity(program: Program, account: ProgramAccount | None) -> dict[str, str]:
    """The variables that say whose account is used: with a key, sessions are kept apart; without one it is the user's
    login."""
    if account is None:
        return program.given("CODEX_HOME")
    return {"CODEX_HOME": str(program.home())}


def _quoted(value: str) -> str:
    return json.dumps(value)  # a basic string of TOML escapes the same way


def _table(values: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{name} = {value}' for name, value in values.items())}}}"


class CodexStream:
    def __init__(self) -> None:
        self._last = ""  # what its model said last is its answer
        self._begun: set[str] = set()  # calls that it has told of

    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]:
        match event.get("type"):
            case "thread.started":
                yield ProgramStarted(text(event, "thread_id"))
            case "item.started":
                yield from self._begin(block(event, "item"))
            case "item.completed":
                yield from self._done(block(event, "item"))
            case "error":
                yield ProgramRetries(text(event, "message"))
            case "turn.completed":
                yield ProgramSpent(_usage(block(event, "usage")))
                yield Over(self._last)
            case "turn.failed":
                yield Over(failure=_failure(text(block(event, "error"), "message")))

    def died(self, code: int, told: str) -> BackendFailure:
        return Crashed(f"codex ended without a result (exit {code}){told and f': {told}'}")

    def _done(self, item: Mapping[str, Any]) -> Iterator[Signal]:
        if item.get("type") == "agent_message":
            self._last = text(item, "text")
            yield Said(self._last)
        elif _is_own_call(item):
            yield from self._begin(item)  # of some it tells only when they are done
            failed = item.get("status") in ("failed", "declined") or count(item, "exit_code") != 0
            yield ProgramReturned(text(item, "id"), _outcome(item), ok=not failed)

    def _begin(self, item: Mapping[str, Any]) -> Iterator[Signal]:
        id = text(item, "id")
        if _is_own_call(item) and id not in self._begun:
            self._begun.add(id)
            kept = {name: item[name] for name in ("command", "changes", "query", "arguments") if item.get(name)}
            yield Calling(id, text(item, "type"), json.dumps(kept, ensure_ascii=False))


def _outcome(item: Mapping[str, Any]) -> str:
    code, failed = count(item, "exit_code"), text(block(item, "error"), "message")
    returned = [text(each, "text") for each in blocks(block(item, "result"), "content")]
    told = [text(item, "aggregated_output"), *returned, failed, f"[exit {code}]" if code else ""]
    return "\n".join(filter(None, told))


def _is_own_call(item: Mapping[str, Any]) -> bool:
    return text(item, "type") in _CALLS and item.get("server") != SERVER


def _failure(message: str) -> BackendFailure:
    """What an error means. The program tells no status, so its words decide."""
    if "context_length_exceeded" in message or "ran out of room in the model's context window" in message:
        return Exhausted(f"codex: {message}"[:500], hint="the conversation is too large for its model")
    found = _STATUS.search(message)
    return by_status("codex", int(found[1]) if found else None, message)


def _usage(written: Mapping[str, Any]) -> Usage:
    return Usage(
        input=count(written, "input_tokens"),
        cached=count(written, "cached_input_tokens"),
        output=count(written, "output_tokens"),
    )
