"""A world for real coding programs: a daemon, a project, and a model API on loopback that a test thinks for.

Programs are installed by `poe test-setup`; where one is missing its tests skip and say so. One world serves many
tests, as a daemon takes seconds to start: each test gives the model its mind and writes to an agent of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests import engine, stored
from tests.fakes.model_protocols import Answer, Ask, Json
from tests.fakes.model_server import ModelServer, Recorded, Step
from tests.needs import NPM, needs
from tests.patience import PATIENCE, eventually

from agent_worker.backends.backend import Reply
from agent_worker.backends.models.providers import Approval, Endpoint
from agent_worker.backends.programs.program import LentModel, Program, ProgramHost, ToolEndpoint
from agent_worker.client.connection import COMMAND, Client, connect
from agent_worker.client.discovery import LOG_FILE, signal_daemon
from agent_worker.database.database import Row
from agent_worker.tools.tool import Call, Result

PROTOCOL = {"claude": "", "codex": "/v1", "opencode": "/v1", "gemini": ""}  # how each program's base address ends
PROVIDER = {"claude": "anthropic", "codex": "openai", "opencode": "openai-chat", "gemini": "google"}
KEY = "sk-test-the-key-of-the-model"
TELLS_ALL = "env; tr '\\0' '\\n' < /proc/$PPID/environ"  #: a command: what it knows, and what its program does


def is_installed(program: str) -> bool:
    return (NPM / ".bin" / program).exists()


def needs_program(program: str) -> pytest.MarkDecorator:
    return needs(program, there=is_installed(program))


def _is_sweeper(process: psutil.Process) -> bool:
    try:
        return "agent-worker-sweeper" in process.cmdline()
    except psutil.Error:
        return False


def _all_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@dataclass
class World:
    home: Path
    project: Path
    model: ModelServer
    environ: dict[str, str] = field(default_factory=dict)
    client: Client = field(init=False)

    def begin(self) -> None:
        """Start the daemon."""
        known = engine.environment(self.home) | self.environ
        given = [f"{name}={value}" for name, value in known.items()]
        command = ("env", "-u", "ANTHROPIC_API_KEY", "-u", "OPENAI_API_KEY", "AGENT_WORKER_PORT=0", *given, *COMMAND)
        self.client = connect(home=self.home, command=command, patience=PATIENCE)

    def kill(self) -> None:
        signal_daemon(self.home, self.client.found, signal.SIGKILL)

    def hire(self, name: str, program: str, mode: str = "think", more: str = "") -> str:
        """An agent of this name with this program, whose model behaves like this."""
        url = self.model.url(mode, PROTOCOL[program])
        (self.project / ".agents" / f"{name}.yaml").write_text(
            f"backend: {program}\nmodel: fake-model\nprompt: {{ system: You are {name}. }}\n"
            f"provider: {{ name: {PROVIDER[program]}, base_url: {url}, api_key: $TEST_KEY }}\n{more}"
        )
        (self.project / ".workflows" / f"{name}.yaml").write_text(
            f"agents:\n  {name}: {{ ref: {name} }}\nworkspace: {{ provider: sqlite }}\n"
        )
        self.do("POST", "/trust")
        return name

    def do(self, method: str, path: str, **arguments: Any) -> Any:
        return self.client.request(method, path, {"project": str(self.project)} | arguments, timeout=PATIENCE)[1]

    def ask(self, agent: str, message: str = "Do it.") -> Json:
        answer: Json = self.do("POST", "/ask", agent=agent, message=message)
        return answer

    def send(self, to: str, message: str = "Do it.") -> Json:
        receipt: Json = self.do("POST", "/send", to=to, message=message)
        return receipt

    def read(self, view: stored.View, **wanted: object) -> list[Row]:
        """What is stored, looked at from outside."""
        return stored.read(self.home / "state.db", view, **wanted)

    def said(self, agent: str) -> list[str]:
        """Its messages."""
        return [row["text"] for row in self.read(stored.messages, sender=agent)]

    def tokens(self, agent: str) -> int:
        """How many it has used."""
        return sum(row["input"] + row["output"] for row in self.read(stored.ledger, name=agent))

    def sessions(self, agent: str) -> list[str]:
        """Of the program, one for each step."""
        return [json.loads(json.loads(row["reply"])["raw"])["session"] for row in self.read(stored.steps, name=agent)]

    def runs(self, agent: str) -> list[tuple[str, str]]:
        """State and reason of each, in order."""
        return [(run["state"], run["reason"]) for run in self.read(stored.runs, name=agent)]

    def own_calls(self, agent: str) -> list[Json]:
        """What the program did with its own tools in its last run, as `explain` tells it."""
        run = self.do("GET", "/runs", agent=agent)[0]["id"]
        steps = self.client.request("GET", f"/runs/{run}")[1]["steps"]
        return [call for step in steps for call in step["calls"] if call["own"]]

    def until_run(self, agent: str, holds: Callable[[list[tuple[str, str]]], bool]) -> Any:
        found = eventually(lambda: (runs := self.runs(agent)) and holds(runs) and runs)
        assert found, (self.runs(agent), self.log()[-3000:])
        return found

    def children(self) -> list[psutil.Process]:
        """The programs that the daemon runs now. Not its sweeper."""
        try:
            daemon = psutil.Process(self.client.found.pid)
            return [each for child in daemon.children() if not _is_sweeper(child) for each in (child, *_all_of(child))]
        except psutil.NoSuchProcess:
            return []

    def program(self, name: str) -> psutil.Process | None:
        return next((each for each in self.children() if name in _name(each)), None)

    def child(self, name: str) -> psutil.Process:
        found = eventually(lambda: self.program(name))
        assert found, f"{name} does not run"
        return psutil.Process(found.pid)

    def asked(self, mode: str = "think") -> list[Recorded]:
        """What models were asked so far."""
        return [each for each in self.model.requests if f"/m/{mode}/" in each.path and each.method == "POST"]

    def log(self) -> str:
        return (self.home / LOG_FILE).read_text()


def _name(process: psutil.Process) -> str:
    try:
        return process.exe()
    except psutil.Error:
        return ""


@contextmanager
def model_api() -> Iterator[ModelServer]:
    """In a thread of its own: the tests that use it wait for other processes."""
    loop, server = asyncio.new_event_loop(), ModelServer()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(PATIENCE)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def on_disk() -> Iterator[Path]:
    """A place for programs whose own sandbox hides what is in memory."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        yield Path(place)


@contextmanager
def world(tmp: Path, **environ: str) -> Iterator[World]:
    project = tmp / "project"
    for folder in (".agents", ".workflows"):
        (project / folder).mkdir(parents=True)
    with model_api() as model:
        path = os.pathsep.join([str(NPM / ".bin"), os.environ["PATH"]])
        (tmp / "tmp").mkdir()  # codex puts no helpers beneath what it takes for a temporary directory
        given = {"PATH": path, "TEST_KEY": KEY, "HOME": str(tmp), "TMPDIR": str(tmp / "tmp"), **environ}
        made = World(tmp / "home", project, model, given)
        made.begin()
        try:
            yield made
        finally:
            made.kill()


# --- without our tools


class WrongDoor:
    """Gives a token that the daemon does not know."""

    def __init__(self, url: str) -> None:
        self._url = url

    def open(self, run: str) -> ToolEndpoint:
        return NothingLent(self._url, "a-token-that-nobody-issued")


class NothingLent(ToolEndpoint):
    """Its program finds its model without us."""

    def lend(self, model: LentModel) -> str:
        return model.base_url


class NoSink:
    def say(self, text: str) -> None: ...

    def show(self, call: Call, result: Result | None = None) -> None: ...

    def preface(self, text: str) -> None: ...

    def asking(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def keep(self, step: int, reply: Reply) -> None: ...

    async def call(self, step: int, call: Call) -> Result:
        raise AssertionError("it has no tools")


def shut_out(there: World, program: str, state: Path) -> Program:
    """A program that the daemon answers with 401."""
    program_host = ProgramHost(
        WrongDoor(f"http://127.0.0.1:{there.client.found.port}/mcp"),
        state,
        there.environ,
        Approval(local=True, hosts=frozenset({"127.0.0.1"})),
    )
    endpoint = Endpoint(PROVIDER[program], there.model.url("think", PROTOCOL[program]), "$TEST_KEY")
    return Program(program, "alice", there.project, there.project, program_host, model="fake", endpoint=endpoint)


# --- minds


def say(text: str) -> Callable[[Json], Step]:
    return lambda body: text


def use(tool: str, then: str, **arguments: Any) -> Callable[[Json], Step]:
    """Call a tool of ours first, whatever the program calls it; then say something."""

    def mind(body: Json) -> Step:
        if has_result(body):
            return then
        return Answer("", (call(body, tool, **arguments),))

    return mind


def call(body: Json, tool: str, /, *, id: str = "", **arguments: Any) -> Ask:
    """A call under the name that this program gives the tool."""
    names = tool_names(body)
    group, name = next(((g, n) for g, n in names if n.endswith(tool)), ("", f"(no {tool} among {names})"))
    return Ask(name, arguments, id or f"call_{tool}", namespace=group)


def tool_names(body: Json) -> list[tuple[str, str]]:
    """Group and name of each."""
    found = []
    for offered in body.get("tools", []):
        group = str(offered.get("name", "")) if "tools" in offered else ""
        members = offered.get("tools") or offered.get("functionDeclarations") or [offered.get("function", offered)]
        found += [(group, str(each.get("name", ""))) for each in members]
    return found


def has_result(body: Json) -> bool:
    last = (body.get("messages") or body.get("input") or body.get("contents") or [{}])[-1]
    if last.get("role") == "tool" or last.get("type") == "function_call_output":
        return True
    return any(word in json.dumps(last) for word in ("tool_result", "functionResponse"))


def words(body: Json) -> str:
    """Everything that the model was told, as one text."""
    return json.dumps(body, ensure_ascii=False)
