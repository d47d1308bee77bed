"""OpenCode: its private settings, and a small plugin that reports what its protocol leaves out.

Over ACP it tells neither the status of a failed request, nor that it tries again (for a minute, which nothing turns
off), nor what all steps of a run cost. The plugin prints that on standard error. It starts no project plugin that we
do not know of: it has no switch for that, so a project that has any is refused. Tried with 1.18.33.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_worker.backends.backend import Usage
from agent_worker.backends.models.providers import PROVIDERS, Route, parse_model, route
from agent_worker.backends.programs.acp import PlainWords, refuse_foreign_settings
from agent_worker.backends.programs.failures import by_status
from agent_worker.backends.programs.json_fields import amount, block, count, text
from agent_worker.backends.programs.one_shot import ProgramJob
from agent_worker.backends.programs.program import SERVER, TOKEN, LentModel, Program
from agent_worker.backends.programs.runner import Launch
from agent_worker.backends.programs.signals import Over, ProgramRetries, ProgramSpent, Signal
from agent_worker.core.errors import BackendFailure, Exhausted, Overloaded, Permanent
from agent_worker.files.folder import make_directories

INSTALL = "npm install -g opencode-ai"
_AGENT = "worker"
_TRIES = 2  # its own; ours follow, where they can be seen
_GOOGLE = "https://generativelanguage.googleapis.com/v1beta"  # where its own library asks, unlike ours
_LIBRARIES = {"anthropic": "@ai-sdk/anthropic", "responses": "@ai-sdk/openai", "chat": "@ai-sdk/openai-compatible"}
_LOOKS = ("read", "glob", "grep", "list", "todowrite", "todoread")
_QUIET = {
    name: "1"
    for name in (
        "OPENCODE_DISABLE_PROJECT_CONFIG",
        "OPENCODE_DISABLE_CLAUDE_CODE",
        "OPENCODE_DISABLE_EXTERNAL_SKILLS",
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_SHARE",
    )
}
_MARK = "\x1eagent-worker "
_REPORTER = """\
const tell = (what) => process.stderr.write("\\x1eagent-worker " + JSON.stringify(what) + "\\n")
const ask = globalThis.fetch
globalThis.fetch = Object.assign(async (...request) => {
  const answer = await ask(...request)
  if (!answer.ok) tell({ status: answer.status, after: answer.headers.get("retry-after") })
  return answer
}, ask)
export const AgentWorker = async () => ({
  event: async ({ event: { type, properties } }) => {
    if (type === "session.status" && properties.status.type === "retry") tell({ retry: properties.status })
    if (type === "session.error") tell({ error: properties.error })
    if (type === "message.updated" && properties.info.role === "assistant") {
      const { id, tokens, cost } = properties.info
      tell({ message: id, tokens, cost })
    }
  },
})
"""
# It would fetch this from npm at every start, and wait for it; a lock that names it is enough to have it.
_LOCK = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}


class OpenCode:
    farewell = 3.0

    def launch(self, job: ProgramJob) -> Launch:
        program = job.program
        refuse_foreign_settings(program)
        binary, home, chosen = program.binary("opencode", install=INSTALL), program.home(), _chosen(program)
        _furnish(home, _settings(job, chosen, home))
        key = chosen.key if chosen else ""
        if not key:
            _share_login(home, program)
        scratch = {"TMPDIR": str(job.folder)}  # it leaves five megabytes there at each start
        env = job.environment() | _QUIET | _places(home) | scratch
        return Launch((binary, "acp"), program.cwd, env, job.prompt, (job.entry.token, key))

    def words(self, job: ProgramJob) -> OpenCodeWords:
        return OpenCodeWords(job)


def _chosen(program: Program) -> Route | None:
    """Where the model is and with which key; None when the program knows by itself."""
    if not program.model:
        return None
    written, environ = program.endpoint, program.program_host.environ
    if not (written.base_url or written.api_key):
        known = PROVIDERS.get(parse_model(program.model, written.name)[0])
        if known is None or not any(environ.get(name) for name in known.variables):
            return None
    return route(program.model, written, env=environ, approval=written.approval or program.program_host.approval)


def _settings(job: ProgramJob, chosen: Route | None, home: Path) -> dict[str, Any]:
    program = job.program
    agent: dict[str, Any] = {"mode": "primary", "prompt": job.system}
    if program.max_turns:
        agent["steps"] = program.max_turns
    settings: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "default_agent": _AGENT,
        "agent": {_AGENT: agent, "title": {"disable": True}},
        "plugin": [(home / "reporter.js").as_uri()],
        "permission": _permissions(program),
    }
    return settings | _model(job, chosen)


def _model(job: ProgramJob, chosen: Route | None) -> dict[str, Any]:
    program = job.program
    if not program.model:
        return {}
    provider, model = (chosen.provider, chosen.model) if chosen else parse_model(program.model, program.endpoint.name)
    # Longer than we wait ourselves: when it gives up first, it asks again and makes the same calls again.
    patience = int((program.silence + 60) * 1000)
    options: dict[str, Any] = {"headerTimeout": patience, "chunkTimeout": patience}
    entry: dict[str, Any] = {"options": options, "models": {model: {}}}
    moved = chosen and (program.endpoint.base_url or chosen.base_url != PROVIDERS[provider].base_url)
    if chosen and (moved or chosen.key):
        options |= _address(job, chosen, is_googles=provider == "google" and not moved)
    if chosen and moved:
        entry |= {
            "npm": _LIBRARIES[chosen.speaks],
            "models": {model: {"limit": {"context": 200_000, "output": 32_000}}},
        }
    name = f"{provider}/{model}"
    return {"model": name, "small_model": name, "enabled_providers": [provider], "provider": {provider: entry}}


def _address(job: ProgramJob, chosen: Route, *, is_googles: bool) -> dict[str, str]:
    """Where the program asks its model: with a key, at our address with the run's token, as its commands know all it
    knows."""
    where, own = _GOOGLE if is_googles else chosen.base_url, {}
    if chosen.key:
        where = job.entry.lend(LentModel(where, chosen.key, is_checked=chosen.foreign and not chosen.local))
        own = {"apiKey": _Variable(TOKEN)}
    return own | {"baseURL": f"{where}/v1" if chosen.speaks == "anthropic" else where}


def _permissions(program: Program) -> dict[str, str]:
    if program.access == "full":
        return {"*": "allow"}
    allowed = (*_LOOKS, "edit") if program.access == "edit" else _LOOKS
    return {"*": "deny", **dict.fromkeys(allowed, "allow"), f"{SERVER}_*": "allow", "external_directory": "deny"}


def _furnish(home: Path, settings: dict[str, Any]) -> None:
    # Nobody else works here. Locks of one that was killed keep the next from our tools for a minute.
    shutil.rmtree(home / "state" / "opencode" / "locks", ignore_errors=True)
    own = home / "config" / "opencode"
    make_directories(own / "node_modules")
    (own / "package-lock.json").write_text(json.dumps(_LOCK))
    (own / "opencode.json").write_text(_written(settings))
    (home / "reporter.js").write_text(_REPORTER)


def _places(home: Path) -> dict[str, str]:
    places = {f"XDG_{name.upper()}_HOME": str(home / name) for name in ("config", "data", "state", "cache")}
    # It serves itself over HTTP on loopback: to nobody who does not know this.
    return places | {"OPENCODE_TEST_HOME": str(home), "OPENCODE_SERVER_PASSWORD": secrets.token_hex(16)}


def _share_login(home: Path, program: Program) -> None:
    environ = program.program_host.environ
    data = Path(environ.get("XDG_DATA_HOME") or Path(environ.get("HOME", "/nonexistent"), ".local", "share"))
    login, ours = data / "opencode" / "auth.json", home / "data" / "opencode" / "auth.json"
    if login.exists() and not ours.is_symlink():
        make_directories(ours.parent)
        ours.symlink_to(login)


class _Variable(str):
    """The name of an environment variable whose value the program reads there."""

    __slots__ = ()


def _written(value: Any) -> str:
    """The settings as JSON in which nobody's words are filled in: the program replaces `{env:…}` and `{file:…}`."""
    match value:
        case _Variable():
            return json.dumps(f"{{env:{value}}}")
        case str():
            return json.dumps(value).replace("{", "\\u007b")
        case dict():
            return "{" + ",".join(f"{_written(name)}:{_written(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case _:
            return json.dumps(value)


class OpenCodeWords(PlainWords):
    def __init__(self, job: ProgramJob) -> None:
        super().__init__(job)
        self._status: int | None = None  # of the last request that failed
        self._after: float | None = None
        self._error: Mapping[str, Any] = {}
        self._counted: dict[str, Usage] = {}  # by message: it is told of as it grows

    def overheard(self, line: str) -> Iterable[Signal] | None:
        if not line.startswith(_MARK):
            return None
        try:
            told = json.loads(line.removeprefix(_MARK))
        except (ValueError, RecursionError):
            return ()
        return list(self._reported(told)) if isinstance(told, dict) else ()

    def _reported(self, told: Mapping[str, Any]) -> Iterator[Signal]:
        if "status" in told:
            self._status, self._after = count(told, "status"), _seconds(text(told, "after"))
        if "error" in told:
            self._error = block(told, "error")
        if retry := block(told, "retry"):
            yield ProgramRetries(text(retry, "message"))
            if count(retry, "attempt") >= _TRIES:
                yield Over(failure=self._refused(self._status, text(retry, "message")))
        if message := text(told, "message"):
            self._counted[message] = _usage(told)
            yield ProgramSpent(_sum(self._counted.values()))

    def failure(self, code: int, message: str, data: Mapping[str, Any]) -> BackendFailure:
        about = block(self._error, "data")
        told = text(about, "message") or message
        match text(self._error, "name") or text(data, "errorName"):
            case "APIError":
                return self._refused(count(about, "statusCode") or self._status, told)
            case "ContextOverflowError" | "MessageOutputLengthError":
                return Exhausted(f"opencode: {told}", hint="the conversation is too large for its model")
            case "ProviderAuthError":
                return Permanent(f"opencode: {told}", hint="check the key, or run opencode auth login")
            case "ProviderModelNotFoundError":
                return Permanent(f"opencode does not know the model {self.job.program.model}", hint="opencode models")
        return super().failure(code, told, data)

    def _refused(self, status: int | None, told: str) -> BackendFailure:
        failure = by_status("opencode", status, told)
        if isinstance(failure, Overloaded):
            return Overloaded(failure.message, retry_after=self._after)
        return failure

    def spent(self, answer: Mapping[str, Any], update: Mapping[str, Any]) -> Usage:
        return _sum(self._counted.values()) if self._counted else super().spent(answer, update)


def _usage(told: Mapping[str, Any]) -> Usage:
    tokens, cache = block(told, "tokens"), block(block(told, "tokens"), "cache")
    cached = count(cache, "read")
    read = count(tokens, "input") + cached + count(cache, "write")
    # Nothing is what it thinks a model costs whose price it does not know.
    return Usage(read, cached, count(tokens, "output") + count(tokens, "reasoning"), amount(told, "cost") or None)


def _sum(usages: Iterable[Usage]) -> Usage:
    each = list(usages)
    usd = [usage.usd for usage in each if usage.usd is not None]
    return Usage(
        sum(u.input for u in each), sum(u.cached for u in each), sum(u.output for u in each), sum(usd) if usd else None
    )


def _seconds(told: str) -> float | None:
    try:
        return min(max(float(told), 0.0), 3600.0)
    except ValueError:
        return None
