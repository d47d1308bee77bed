"""U, M18, M19: what a process list, a shared temporary directory and those we talk to get to see while agents work."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.attacks.insider import AGENT, Insider, environ_with_insider, holding
from tests.fakes.mcp_library_server import Served as McpServer
from tests.fakes.model_protocols import Answer, Ask
from tests.fakes.model_server import ModelServer
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served

from agent_worker.tools.sandbox import NoSandbox, find_sandbox

KEY = "sk-canary-key-of-the-model"
CANARIES = {"OPENAI_API_KEY": "sk-canary-of-somebody-else", "GITHUB_TOKEN": "ghp-canary", "DATABASE_URL": "db-canary"}
PROMPT = "PROMPT-CANARY"
IN_ADDRESS = "canary-in-an-address"
STDIO = Path(__file__).parents[1] / "fakes" / "mcp_by_hand.py"
#: What somebody who knows us might put into a shared directory before we come.
GUESSES = ("agent-worker", "agent-worker-{uid}", "agent-worker.lock", "agent-worker.sock", "mcp.json", "system.md")


def until(name: str) -> str:
    """A command that waits at a pipe until somebody writes into it."""
    return f"mkfifo {name}.pipe; read end < {name}.pipe"


def let_go(pipe: Path) -> bool:
    """False when nobody waits at it yet."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    os.write(descriptor, b"end\n")
    os.close(descriptor)
    return True


@contextmanager
def beside(server: Any) -> Iterator[Any]:
    """A server in a thread of its own: the tests wait for other processes."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(PATIENCE)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class Busy:
    """A daemon with everything at work: a program, a shell, a server in a pipe, one by HTTP, a set-up command."""

    daemon: Served
    insider: Insider
    shared: Path  #: TMPDIR
    victim: Path
    model: ModelServer
    tools: McpServer

    @property
    def secrets(self) -> dict[str, str]:
        return {"admin token": self.daemon.client.found.token, "run token": self.insider.token}

    def children(self) -> dict[str, psutil.Process]:
        """By something in their command line that tells them apart."""
        found = {}
        for child in self.daemon.process.children(recursive=True):
            with suppress(psutil.Error):
                line = " ".join(child.cmdline())
                kinds = {"claude": "bin/claude", "stdio": STDIO.name, "bash": "bash.pipe", "setup": "setup.pipe"}
                found |= {kind: child for kind, mark in kinds.items() if mark in line}
        return found


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Busy]:
    tmp = tmp_path_factory.mktemp("children")
    shared, victim = tmp / "shared", tmp / "victim"
    plant(shared, victim)
    with ExitStack() as all_of_it:
        model = all_of_it.enter_context(beside(ModelServer()))
        tools = all_of_it.enter_context(beside(McpServer()))
        environ = environ_with_insider(tmp) | {"TMPDIR": str(shared), "TEST_KEY": KEY} | CANARIES
        given = {"alice": AGENT, "bob": worker(model, tools)}
        daemon = all_of_it.enter_context(served(tmp, environ, fresh=True, **given))
        prepared = f"agents: {{ alice: {{ ref: alice }} }}\nsetup:\n  - shell: '{until('setup')}'\n"
        (daemon.project / ".workflows" / "prepared.yaml").write_text(prepared)
        daemon.do("POST", "/trust")
        daemon.do("POST", "/trust", workflow="prepared")
        model.script(thoughts())
        pool = all_of_it.enter_context(ThreadPoolExecutor(1))
        starting = pool.submit(daemon.do, "POST", "/workflows", workflow="prepared")
        asked = daemon.do("POST", "/send", to="bob", message=f"{PROMPT} go")
        insider = all_of_it.enter_context(holding(daemon, "alice", "alice"))
        at_work = Busy(daemon, insider, shared, victim, model, tools)
        assert eventually(lambda: set(at_work.children()) == {"claude", "stdio", "bash", "setup"}), (
            at_work.children(),
            daemon.log()[-3000:],
        )
        try:
            yield at_work
        finally:
            for name in ("bash", "setup"):
                assert eventually(partial(let_go, daemon.project / f"{name}.pipe")), name
            starting.result(PATIENCE)
            assert eventually(lambda: daemon.is_done(asked)), daemon.log()[-3000:]


def plant(shared: Path, victim: Path) -> None:
    shared.mkdir()
    shared.chmod(0o1777)
    victim.mkdir()
    (victim / "file").write_text("untouched")
    for guess in GUESSES:
        (shared / guess.format(uid=os.getuid())).symlink_to(victim if "." not in guess else victim / "file")


def worker(model: ModelServer, tools: McpServer) -> str:
    unsafe = ", unsafe: true" if isinstance(find_sandbox(), NoSandbox) else ""
    return (
        f"backend: sdk\nauto_memory: false\nmodel: anthropic/fake\nprompt: {{ system: You are bob. {PROMPT} }}\n"
        f"provider: {{ name: anthropic, base_url: {model.url('script')}, api_key: $TEST_KEY }}\n"
        f"tools: [{{ name: bash{unsafe} }}]\n"
        f"mcp_servers:\n  pipe: {{ command: {json.dumps([sys.executable, str(STDIO)])} }}\n"
        f"  web: {{ url: {tools.url}?key={IN_ADDRESS} }}\n"
    )


def thoughts() -> list[Any]:
    first = Ask("web_echo", {"text": "hello"}, "a"), Ask("pipe_environment", {}, "b")
    return [Answer("", first), Answer("", (Ask("bash", {"command": until("bash")}, "c"),)), "done"]


def shown(process: psutil.Process) -> tuple[bytes, bytes]:
    """What any process of this user sees of it; of the first, every user."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes(), Path(f"/proc/{process.pid}/environ").read_bytes()


@pytest.mark.parametrize("kind", ["claude", "stdio", "bash", "setup"])
def test_U5_a_child_is_told_nothing_it_does_not_need(busy: Busy, kind: str) -> None:
    child = busy.children()[kind]
    seen = [shown(child)]
    for process in child.children(recursive=True):
        with suppress(ProcessLookupError, FileNotFoundError):  # it was only there to start another
            seen.append(shown(process))
    for argv, environ in seen:
        allowed = {"run token"} if kind == "claude" else set()
        for what, secret in busy.secrets.items():
            assert secret.encode() not in argv, what
            assert what in allowed or secret.encode() not in environ, what
        for canary in (*CANARIES.values(), KEY):
            assert canary.encode() not in argv + environ
        for words in (PROMPT, "SYSTEM-CANARY", "hold alice"):
            assert words.encode() not in argv + environ


def test_U5_the_daemon_itself_shows_no_token(busy: Busy) -> None:
    argv, environ = shown(busy.daemon.process)
    for secret in busy.secrets.values():
        assert secret.encode() not in argv + environ


def test_U8_a_shared_directory_is_used_for_nothing_that_can_be_guessed(busy: Busy) -> None:
    planted = {guess.format(uid=os.getuid()) for guess in GUESSES}
    ours = [path for path in busy.shared.iterdir() if path.name not in planted]
    assert ours, "the program has its folder somewhere"
    for path in ours:
        status = path.lstat()
        assert (stat.filemode(status.st_mode), status.st_uid) == ("drwx------", os.getuid()), path
    assert [path.name for path in busy.victim.iterdir()] == ["file"]
    assert (busy.victim / "file").read_text() == "untouched"


def test_M18_our_tokens_go_to_nobody_else(busy: Busy) -> None:
    heard = eventually(lambda: len(busy.model.requests) >= 2 and busy.tools.requests)
    assert heard
    model = [json.dumps([each.path, each.headers, each.body]) for each in busy.model.requests]
    tools = [json.dumps(each) for each in busy.tools.requests]
    for what, secret in busy.secrets.items():
        assert not [each for each in model + tools if secret in each], what
    assert all(KEY in each for each in model)  # whose it is
    assert not [each for each in tools if KEY in each or "authorization" in each]
    for canary in CANARIES.values():
        assert not [each for each in model + tools if canary in each]


def test_N5_a_key_in_an_address_is_not_logged(busy: Busy) -> None:
    assert busy.tools.requests  # it was used
    assert IN_ADDRESS not in busy.daemon.log()


def test_M19_there_is_one_listener(busy: Busy) -> None:
    pids = [busy.daemon.process, *busy.daemon.process.children(recursive=True)]
    listening = [
        (each.pid, connection.laddr)
        for each in pids
        for connection in connections(each)
        if connection.status == psutil.CONN_LISTEN or (connection.type.name == "SOCK_DGRAM")
    ]
    assert listening == [(busy.daemon.process.pid, busy.daemon.address)]
    assert not [name for each in pids for name in unix_listeners(each.pid)]


def connections(process: psutil.Process) -> list[Any]:
    """None of one that has ended meanwhile."""
    with suppress(psutil.NoSuchProcess):
        return process.net_connections(kind="inet")
    return []


def unix_listeners(pid: int) -> list[str]:
    """Sockets in the file system, or beside it, that wait for somebody."""
    inodes = set()
    with suppress(FileNotFoundError):  # it has ended meanwhile
        for descriptor in list(Path(f"/proc/{pid}/fd").iterdir()):
            with suppress(OSError):
                inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [" ".join(row) for row in rows if row[6] in inodes and int(row[3], 16) & 0x10000]
