"""Claude Code: its command line, its files, its stream.

Nothing of the user's or the project's settings is loaded: no hooks, no servers but ours, no CLAUDE.md, no permissions.
It never asks: what its `access` does not allow is denied, and it is told so. Tried with 2.1.325.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_worker.backends.backend import Usage
from agent_worker.backends.programs.failures import by_status
from agent_worker.backends.programs.json_fields import amount, block, blocks, count, text
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
from agent_worker.core.control_files import CONTROL_NAMES
from agent_worker.core.errors import BackendFailure, Crashed, Exhausted, Permanent

INSTALL = "npm install -g @anthropic-ai/claude-code"
_SERVICE = "https://api.anthropic.com"
_LOGIN = "CLAUDE_CODE_OAUTH_TOKEN"
_OURS = f"mcp__{SERVER}__"
_RETRIES = 2  # ours follow, where they can be seen
_PATIENCE = 120_000  # milliseconds to the first byte of an answer
_READS = ("Read", "Glob", "Grep")
_EDITS = ("Edit", "Write", "NotebookEdit")
_ALL = (*_READS, *_EDITS, "Bash", "BashOutput", "KillShell", "WebFetch", "WebSearch", "Task", "TodoWrite", "Skill")
_WITHOUT_ASKING = {"authentication_failed": 401, "billing_error": 402}  # known to it before any request
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_MAX_RETRIES": str(_RETRIES),
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "API_TIMEOUT_MS": str(_PATIENCE),
}


class Claude(PrintingProgram):
    def launch(self, job: ProgramJob) -> Launch:
        program, account = job.program, job.program.account("anthropic")
        argv = [
            program.binary("claude", install=INSTALL),
            *("-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"),
            *("--mcp-config", job.file("mcp.json", _servers(job)), "--strict-mcp-config", "--setting-sources", ""),
            *("--append-system-prompt-file", job.file("system.md", job.system)),
            *("--permission-mode", "dontAsk", *_permissions(program)),
        ]
        if program.model:
            argv += ["--model", without_provider(program.model, "anthropic")]
        if program.max_turns:
            argv += ["--max-turns", str(program.max_turns)]
        if job.session.id:
            argv += ["--resume", job.session.id]
        env = job.environment() | _QUIET | _identity(job, account)
        secrets = (job.entry.token, account.key if account else "")
        return Launch(tuple(argv), program.cwd, env, job.prompt, secrets)

    def parser(self, job: ProgramJob) -> ClaudeStream:
        return ClaudeStream()


def _servers(job: ProgramJob) -> str:
    ours = {
        "type": "http",
        "url": job.entry.url,
        "alwaysLoad": True,  # otherwise it hides them behind a search
        "headers": {"Authorization": f"Bearer ${{{TOKEN}}}"},
    }
    return json.dumps({"mcpServers": {SERVER: ours}})


def _permissions(program: Program) -> list[str]:
    beneath = f"(/{program.cwd.resolve()}/**)"
    match program.access:
        case "read":
            return ["--tools", *_READS, "--allowedTools", f"mcp__{SERVER}", f"Read{beneath}"]
        case "edit":
            allowed = (f"mcp__{SERVER}", f"Read{beneath}", f"Edit{beneath}")
            barred = (f"Edit(/{program.cwd.resolve()}/**/{name}{all})" for name in CONTROL_NAMES for all in ("", "/**"))
            return ["--tools", *_READS, *_EDITS, "--allowedTools", *allowed, "--disallowedTools", *barred]
        case "full":
            return ["--allowedTools", f"mcp__{SERVER}", *_ALL]


def _identity(job: ProgramJob, account: ProgramAccount | None) -> dict[str, str]:
    """The variables that say whose account is used: with a key, sessions are kept apart; without one it is the user's
    login."""
    if account is None:
        places, login = job.program.given("CLAUDE_CONFIG_DIR"), job.program.given(_LOGIN)
        return places | (_lent(job, _LOGIN, LentModel(_SERVICE, login[_LOGIN])) if login else {})
    kind = account.variable if account.variable == "ANTHROPIC_AUTH_TOKEN" else "ANTHROPIC_API_KEY"
    model = LentModel(account.base_url.removesuffix("/v1") or _SERVICE, account.key, account.is_checked)
    return _lent(job, kind, model) | {"CLAUDE_CONFIG_DIR": str(job.program.home())}


def _lent(job: ProgramJob, kind: str, model: LentModel) -> dict[str, str]:
    """The variables by which the program finds its model. Commands that it runs see them too, so the key itself is not
    among them.
    """
    return {kind: job.entry.token, "ANTHROPIC_BASE_URL": job.entry.lend(model)}


class ClaudeStream:
    def __init__(self) -> None:
        self._refused = ""  # why its model did not answer, in claude's own words
        self._counted: dict[str, Usage] = {}  # by message: one is told in several lines, each with its usage
        self._writing: dict[str, str] = {}  # the message that it, or a helper of its own, is writing

    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]:
        match event.get("type"):
            case "system":
                yield from self._system(event)
            case "stream_event":
                yield from self._streamed(block(event, "event"), text(event, "parent_tool_use_id"))
            case "assistant" if event.get("is_api_error_message"):
                self._refused = text(event, "error")
            case "assistant":
                yield from self._assistant(event)
            case "user":
                yield from _results(event)
            case "result":
                yield from self._result(event)

    def died(self, code: int, told: str) -> BackendFailure:
        return Crashed(f"claude ended without a result (exit {code}){told and f': {told}'}")

    def _system(self, event: Mapping[str, Any]) -> Iterator[Signal]:
        match event.get("subtype"):
            case "init":
                yield ProgramStarted(text(event, "session_id"))
                failed = [each for each in blocks(event, "mcp_servers") if each.get("status") == "failed"]
                if any(each.get("name") == SERVER for each in failed):
                    yield Over(failure=Permanent("claude could not reach our tools", hint="agent-worker daemon logs"))
            case "api_retry":
                yield ProgramRetries(f"{event.get('error_status') or 'no answer'} {text(event, 'error')}")

    def _streamed(self, event: Mapping[str, Any], helper: str) -> Iterator[Signal]:
        message, delta = block(event, "message"), block(event, "delta")
        match event.get("type"):
            case "message_start":
                self._writing[helper] = text(message, "id")
                yield from self._count(text(message, "id"), block(message, "usage"))
            case "message_delta":
                yield from self._count(self._writing.get(helper, ""), block(event, "usage"))
        if delta.get("type") == "text_delta" and text(delta, "text") and not helper:
            yield Said(text(delta, "text"), partial=True)

    def _count(self, message: str, written: Mapping[str, Any]) -> Iterator[Signal]:
        """Count a message's tokens. They are told at its beginning and at its end, and in between as at its beginning:
        the largest counts.
        """
        now, before = _usage(written), self._counted.get(message, Usage())
        self._counted[message] = Usage(
            max(now.input, before.input), max(now.cached, before.cached), max(now.output, before.output)
        )
        if spent := _sum(self._counted.values()):
            yield ProgramSpent(spent)

    def _assistant(self, event: Mapping[str, Any]) -> Iterator[Signal]:
        message = block(event, "message")
        yield from self._count(text(message, "id"), block(message, "usage"))
        for part in blocks(message, "content"):
            if part.get("type") == "text" and event.get("parent_tool_use_id") is None and text(part, "text"):
                yield Said(text(part, "text"))
            elif part.get("type") == "tool_use" and not text(part, "name").startswith(_OURS):
                yield Calling(text(part, "id"), text(part, "name"), json.dumps(part.get("input"), ensure_ascii=False))

    def _result(self, event: Mapping[str, Any]) -> Iterator[Signal]:
        # Its other sums are of the whole session, also of what an earlier run of ours has paid for.
        models = block(event, "model_usage_since_last_result")
        if spent := _sum(_model_usage(block(models, name)) for name in models):
            yield ProgramSpent(spent)
        yield Over(text(event, "result"), _failure(event, self._refused))


def _results(event: Mapping[str, Any]) -> Iterator[Signal]:
    for part in blocks(block(event, "message"), "content"):
        if part.get("type") == "tool_result":
            shown = text(part, "content") or "\n".join(text(each, "text") for each in blocks(part, "content"))
            yield ProgramReturned(text(part, "tool_use_id"), shown, ok=not part.get("is_error"))


def _failure(event: Mapping[str, Any], refused: str) -> BackendFailure | None:
    told = text(event, "result") or text(event, "subtype") or "it failed"
    match event.get("subtype"), event.get("terminal_reason"):
        case ("error_max_turns", _):
            return Exhausted("claude: it has used all its turns (max_steps)", hint="say 'continue'")
        case ("error_max_budget_usd", _):
            return Exhausted("claude: its budget is spent", hint="say 'continue'")
        case (_, "prompt_too_long"):
            return Exhausted(f"claude: {told}", hint="the conversation is too large for its model")
        case ("success", _) if not event.get("is_error"):
            return None
        case (_, "api_error"):
            return by_status("claude", count(event, "api_error_status") or _WITHOUT_ASKING.get(refused), told)
    return Crashed(f"claude: {told}")


def _usage(written: Mapping[str, Any]) -> Usage:
    cached = count(written, "cache_read_input_tokens")
    fresh = count(written, "input_tokens") + count(written, "cache_creation_input_tokens")
    return Usage(input=fresh + cached, cached=cached, output=count(written, "output_tokens"))


def _model_usage(written: Mapping[str, Any]) -> Usage:
    cached = count(written, "cacheReadInputTokens")
    fresh = count(written, "inputTokens") + count(written, "cacheCreationInputTokens")
    # It guesses for models it does not know; then our own guess is as good, and says that it is one.
    usd = amount(written, "costUSD") if written.get("costBasis") != "unknown" else None
    return Usage(input=fresh + cached, cached=cached, output=count(written, "outputTokens"), usd=usd)


def _sum(usages: Iterable[Usage]) -> Usage | None:
    each = [usage for usage in usages if usage.tokens]
    if not each:
        return None
    prices = [usage.usd for usage in each if usage.usd is not None]
    usd = sum(prices) if len(prices) == len(each) else None
    return Usage(sum(u.input for u in each), sum(u.cached for u in each), sum(u.output for u in each), usd)
