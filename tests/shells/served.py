"""The real daemon on a real port, for tests of its doors: one project, two mock agents, a workflow."""

from __future__ import annotations

import hashlib
import json
import re
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import psutil
from tests import engine, stored
from tests.patience import PATIENCE, eventually
from tests.shells import nursery
from tests.shells.forked import SHORTER
from tests.teams import write_project

from agent_worker.client.connection import COMMAND, Client, connect
from agent_worker.client.discovery import LOG_FILE, DaemonFile, is_running, read_daemon, signal_daemon
from agent_worker.daemon.web.views import VIEWS
from agent_worker.service.catalogue import OPERATIONS

T = TypeVar("T")

QUIET = "@alice hello\n"  # a kickoff
WORKFLOW = "workspace: { provider: sqlite }\n"

#: Every door there is, and one that is none, with something for each argument in the path.
ROUTES = sorted(
    {(each.method, re.sub(r"\{\w+(:\w+)?\}", "x", each.path)) for each in OPERATIONS.values()}
    | {("POST", "/shutdown"), ("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/nowhere")}
    | {(method, "/mcp") for method in ("GET", "POST", "DELETE")}
    | {(each.method, each.path) for each in VIEWS}
    | {("POST", "/page/code")}
)


@dataclass(frozen=True)
class Answer:
    status: int  #: 0 when the connection ended without one
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    client: Client
    home: Path
    project: Path

    @property
    def address(self) -> tuple[str, int]:
        return self.client.found.host, self.client.found.port

    @property
    def here(self) -> str:
        return f"127.0.0.1:{self.client.found.port}"

    def beside(self, project: Path) -> Served:
        """The same daemon with another project, for a test that is not alone but should not notice."""
        write_project(project, ["alice", "bob"], workflow=WORKFLOW)
        made = replace(self, project=project)
        made.client.request("GET", made.query("/status"))
        return made

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.client.found.pid)

    def rss(self) -> float:
        """MB"""
        return float(self.process.memory_info().rss) / 1e6

    def settled_rss(self) -> float:
        """Once it has imported what it will need."""
        seen = [self.rss()]
        while len(seen) < 6 or max(seen[-6:]) - min(seen[-6:]) > 0.5:
            time.sleep(0.2)
            seen.append(self.rss())
        return seen[-1]

    def connect(self, *, receive_buffer: int = 0) -> socket.socket:
        connection = socket.socket()
        connection.settimeout(PATIENCE)
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.connect(self.address)
        return connection

    def head(
        self,
        method: str,
        path: str,
        *headers: str,
        host: str | None = "",
        token: str | bytes | None = "",
        kind: str | None = "application/json",
    ) -> bytes:
        """The head of a request as our client makes it; '' is the right value, None leaves it out."""
        lines = [f"{method} {path} HTTP/1.1".encode()]
        if host is not None:
            lines.append(f"Host: {host or self.here}".encode())
        if token is not None:
            given = token if isinstance(token, bytes) else (token or self.client.found.token).encode()
            lines.append(b"Authorization: Bearer " + given)
        if kind is not None and method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Type: {kind}".encode())
        return b"\r\n".join([*lines, *(header.encode("latin-1") for header in headers), b""])

    def ask(self, method: str, path: str, *headers: str, body: object = None, **how: Any) -> Answer:
        """One request on a connection of its own. `body` is JSON, or bytes as they are."""
        if body is None and method in ("POST", "PUT", "PATCH"):
            body = {}
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = self.head(method, path, *headers, "Connection: close", **how)
        length = f"Content-Length: {len(content)}\r\n".encode() if content else b""
        return self.raw(head + length + b"\r\n" + content)

    def raw(self, *pieces: bytes) -> Answer:
        with self.connect() as connection:
            try:
                for piece in pieces:
                    connection.sendall(piece)
            except OSError:
                pass  # refused while we were sending: it has answered already
            return read_answer(connection)

    def do(self, method: str, path: str, **arguments: Any) -> Any:
        """As the command line does it."""
        return self.client.request(method, path, {"project": str(self.project)} | arguments)[1]

    def query(self, path: str) -> str:
        return f"{path}{'&' if '?' in path else '?'}project={self.project}"

    def state(self) -> str:
        """A fingerprint of everything that is stored, but the count of the writes, the lease of the daemon, who follows
        what, and which agents the daemon has not let go of yet."""
        digest = hashlib.sha256()
        tables = self.read(stored.everything)
        for each in ("progress", "last_commit", "host", "watch"):
            tables.pop(each, None)
        tables["agent"] = [{**row, "owner": None} for row in tables["agent"]]
        digest.update(repr(tables).encode())
        for path in sorted(self.project.rglob("*")):
            digest.update(repr((path, path.read_bytes() if path.is_file() else b"")).encode())
        return digest.hexdigest()

    def read(self, view: Callable[..., T], **wanted: object) -> T:
        """What is stored, looked at from outside."""
        return stored.read(self.home / "state.db", view, **wanted)

    def is_done(self, receipt: Mapping[str, str]) -> bool:
        """Whether what was sent has been done."""
        return [row["state"] for row in self.read(stored.instructions, id=receipt["id"])] == ["done"]

    def log(self) -> str:
        return (self.home / LOG_FILE).read_text()

    def alive(self) -> bool:
        return self.ask("GET", "/projects").status == 200


def read_answer(connection: socket.socket) -> Answer:
    """To the end of the connection."""
    received = bytearray()
    try:
        while piece := connection.recv(65536):
            received += piece
    except OSError:
        pass
    return parse_answer(bytes(received))


def parse_answer(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not lines[0].startswith("HTTP/1.1 "):
        return Answer(0)
    pairs = [line.partition(": ") for line in lines[1:]]
    return Answer(int(lines[0].split()[1]), [(name.lower(), value) for name, _, value in pairs], body)


def daemon_command(**environ: str) -> Sequence[str]:
    """What starts a daemon that knows these variables too, by the nursery: in milliseconds."""
    return (*_env(environ), *nursery.started_by("agent_worker.daemon.main"))


def fresh_daemon_command(home: Path, **environ: str) -> Sequence[str]:
    """The same in this home, as people start it."""
    return (*_env(engine.environment(home) | environ), *COMMAND)


def _env(environ: Mapping[str, str]) -> Sequence[str]:
    return ("env", *(f"{name}={value}" for name, value in ({"AGENT_WORKER_PORT": "0"} | dict(environ)).items()))


@contextmanager
def served(
    tmp: Path,
    environ: Mapping[str, str] | None = None,
    *,
    fresh: bool = False,
    limited: Sequence[str] = (),
    shorter: Mapping[str, float] | None = None,
    **files: str,
) -> Iterator[Served]:
    """`environ` is what the daemon knows beyond our own environment, `shorter` how long it waits where that is tested.

    A `fresh` one is for what is asked of the process: its memory, its command line, what it is `limited` by.
    """
    project = tmp / "project"
    write_project(project, ["alice", "bob"], workflow=WORKFLOW, extra=files)
    home, is_fresh = tmp / "home", fresh or limited
    told = dict(environ or {}) | ({SHORTER: json.dumps(shorter)} if shorter else {})
    command = fresh_daemon_command(home, **told) if is_fresh else daemon_command(**told)
    client = connect(home=home, command=(*limited, *command), patience=PATIENCE)
    try:
        made = Served(client, tmp / "home", project)
        client.request("GET", made.query("/status"))
        yield made
    finally:
        # Whichever it is by now: one that was stopped by a command is started again by the next.
        kill_daemon(tmp / "home", read_daemon(tmp / "home") or client.found)


def kill_daemon(home: Path, found: DaemonFile) -> None:
    """`kill -9`, and it is gone: a process that was killed holds its locks until the kernel has come to it."""
    signal_daemon(home, found, signal.SIGKILL)
    assert eventually(lambda: not is_running(found))


def frames(connection: socket.socket) -> Iterator[dict[str, str]]:
    """Server-sent events, read strictly: what is not `name: value` lines in chunks is an error."""
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        buffer += connection.recv(65536)
    head, _, buffer = buffer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    text = b""
    while True:
        while b"\r\n" not in buffer:
            buffer += _more(connection)
        size, _, buffer = buffer.partition(b"\r\n")
        length = int(size, 16)
        while len(buffer) < length + 2:
            buffer += _more(connection)
        text, buffer = text + buffer[:length], buffer[length + 2 :]
        if not length:
            return
        *whole, text = text.split(b"\n\n")
        for frame in whole:
            lines = [line.partition(b": ") for line in frame.split(b"\n")]
            if lines[0][0]:  # not a comment
                yield {name.decode(): value.decode() for name, _, value in lines}


def _more(connection: socket.socket) -> bytes:
    if not (piece := connection.recv(65536)):
        raise ConnectionResetError
    return piece


def follow(served: Served, path: str, *headers: str) -> tuple[socket.socket, Iterator[dict[str, str]]]:
    """A stream that has begun: whatever happens from now on is in it."""
    connection = served.connect()
    connection.sendall(served.head("GET", path, *headers) + b"\r\n")
    wait_readable(connection)
    return connection, frames(connection)


def wait_readable(connection: socket.socket) -> None:
    assert select.select([connection], [], [], PATIENCE)[0], "no answer"


def kinds(events: Sequence[dict[str, str]]) -> list[str]:
    return [each["event"] for each in events]
