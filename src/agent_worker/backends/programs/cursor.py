"""Cursor's agent by its documented stream. Experimental: it could not be tried against a model of ours.

It has no flag for servers, system prompt or settings: ours go into a home of its own, and what the workspace says
(`.cursor/`) is loaded, so it needs the user's approval (trust/powers.py). It tells no usage, and no failure but by
its exit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_worker.backends.models.providers import lacks_named
from agent_worker.backends.programs.json_fields import block, blocks, text
from agent_worker.backends.programs.one_shot import PrintingProgram, ProgramJob
from agent_worker.backends.programs.program import SERVER, TOKEN
from agent_worker.backends.programs.runner import Launch
from agent_worker.backends.programs.signals import Calling, Over, ProgramReturned, ProgramStarted, Said, Signal
from agent_worker.core.errors import BackendFailure, Crashed
from agent_worker.core.provider_variables import KEYS

INSTALL = "see cursor.com/cli, then: agent-worker key set cursor"
(KEY,) = KEYS["cursor"]
_ACCESS = {"read": ("--mode", "ask"), "edit": ("--force", "--sandbox", "enabled"), "full": ("--force",)}


class Cursor(PrintingProgram):
    def launch(self, job: ProgramJob) -> Launch:
        program = job.program
        if missing := lacks_named(KEY, program.program_host.environ):
            raise missing  # it would wait for a browser
        key = program.program_host.environ[KEY]
        argv = [
            program.binary("cursor-agent", "agent", install=INSTALL),
            *("-p", "--output-format", "stream-json", "--trust", "--approve-mcps"),
            *("--workspace", str(program.cwd), *_ACCESS[program.access]),
        ]
        if program.model:
            argv += ["--model", program.model.rpartition("/")[2]]
        if job.session.id:
            argv += ["--resume", job.session.id]
        home = program.home()
        (home / ".cursor").mkdir(mode=0o700, exist_ok=True)
        (home / ".cursor" / "mcp.json").write_text(_servers(job))
        env = job.environment() | {"HOME": str(home), KEY: key}
        prompt = f"{job.system}\n\n{job.prompt}" if job.system else job.prompt
        return Launch(tuple(argv), program.cwd, env, prompt, (job.entry.token, key))

    def parser(self, job: ProgramJob) -> CursorStream:
        return CursorStream()


def _servers(job: ProgramJob) -> str:
    ours = {"url": job.entry.url, "headers": {"Authorization": f"Bearer ${{env:{TOKEN}}}"}}
    return json.dumps({"mcpServers": {SERVER: ours}})


class CursorStream:
    def read(self, event: Mapping[str, Any]) -> Iterable[Signal]:
        match event.get("type"), event.get("subtype"):
            case ("system", "init"):
                yield ProgramStarted(text(event, "session_id"))
            case ("assistant", _):
                for part in blocks(block(event, "message"), "content"):
                    if text(part, "text"):
                        yield Said(text(part, "text"))
            case ("tool_call", _):
                yield from _call(event)
            case ("result", _):
                failed = event.get("subtype") != "success" or event.get("is_error")
                told = text(event, "result")
                yield Over(told, Crashed(f"cursor: {told or 'it failed'}") if failed else None)

    def died(self, code: int, told: str) -> BackendFailure:
        return Crashed(f"cursor ended without a result (exit {code}){told and f': {told}'}")


def _call(event: Mapping[str, Any]) -> Iterator[Signal]:
    id, made = text(event, "call_id"), block(event, "tool_call")
    kind = next((name for name in made if name.endswith("ToolCall")), "")
    if not kind or kind == "mcpToolCall":
        return
    if event.get("subtype") == "started":
        yield Calling(id, kind.removesuffix("ToolCall"), json.dumps(block(made, kind).get("args")))
    elif event.get("subtype") == "completed":
        result = block(block(made, kind), "result")
        yield ProgramReturned(id, json.dumps(result)[:2000], ok="success" in result)
