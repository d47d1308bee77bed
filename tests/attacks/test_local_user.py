"""U: another user of this machine, who can connect but has no token."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import engine
from tests.patience import PATIENCE, eventually
from tests.shells.served import ROUTES, Served, fresh_daemon_command, kill_daemon, served

from agent_worker.client.connection import connect
from agent_worker.client.discovery import DaemonFile, make_home, write_daemon
from agent_worker.daemon.http.asgi import Message, Receive, Send
from agent_worker.daemon.http.connection import CROWD, STRANGERS
from agent_worker.daemon.http.request_guard import Admin, RequestGuard, Tokens
from agent_worker.tools.tool import RunIdentity


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("local"), fresh=True) as made:
        yield made


def test_U1_the_database_and_what_is_beside_it_is_private(daemon: Served) -> None:
    daemon.do("POST", "/send", to="alice", message="hello")
    modes = {path: path.stat().st_mode & 0o777 for path in daemon.home.iterdir()}
    state = set() if engine.is_postgresql() else {"state.db", "state.db-wal"}
    assert state | {"daemon.json", "daemon.log"} <= {path.name for path in modes}
    assert [path for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)] == []
    assert daemon.home.stat().st_mode & 0o777 == 0o700


def test_U1_so_is_what_is_made_of_what_was_said_to_search_in_it(daemon: Served) -> None:
    daemon.do("POST", "/workflows", workflow="review")
    daemon.do("POST", "/send", to="@review", message="hello all of you")
    assert daemon.client.request("GET", daemon.query("/search?query=hello"))[1]
    made = {path: path.stat().st_mode & 0o777 for path in daemon.home.rglob("*")}
    made |= {path: path.stat().st_mode & 0o777 for path in daemon.project.rglob(".index/*")}
    assert any(path.name == "recall.db" for path in made)
    assert {path: oct(mode) for path, mode in made.items() if mode & 0o077} == {}


def _other(letter: str) -> str:
    return "A" if letter != "A" else "B"


def test_U4_wrong_tokens_are_refused_however_many_and_the_right_one_still_works(daemon: Served) -> None:
    right = daemon.client.found.token
    wrong = [right[:-1] + _other(right[-1]), _other(right[0]) + right[1:], right[:-1], right + "A", right[::-1]]

    def guess(number: int) -> int:
        return daemon.ask("GET", "/projects", token=wrong[number % len(wrong)]).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(guess, range(1000))) == {401}
    assert daemon.alive()


def test_U4_the_time_of_a_refusal_tells_nothing(daemon: Served) -> None:
    """Measured where it is decided: over a socket the noise would hide anything."""
    right = daemon.client.found.token
    tokens = Tokens(right)
    first = ("!" + right[1:]).encode()
    last = (right[:-1] + "!").encode()

    def cost(token: bytes) -> float:
        began = time.perf_counter_ns()
        for _ in range(200):
            tokens.caller(token)
        return float(time.perf_counter_ns() - began)

    costs: list[tuple[float, float]] = []

    def are_alike() -> bool:
        """At their best: whatever else the machine does makes both of them longer, and never shorter."""
        costs.extend((cost(first), cost(last)) for _ in range(200))
        return 0.8 < min(a for a, _ in costs) / min(b for _, b in costs) < 1.25

    assert eventually(are_alike)


def test_U5_the_token_is_in_no_process_list(daemon: Served) -> None:
    token = daemon.client.found.token.encode()
    for process in (daemon.process, *daemon.process.children(recursive=True)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child may end while we look
            for shown in ("cmdline", "environ"):
                assert token not in Path(f"/proc/{process.pid}/{shown}").read_bytes()


@pytest.mark.parametrize(
    "token",
    [
        "ä".encode(),
        b"\xff\xfe\x80",
        "\N{GREEK SMALL LETTER ALPHA}".encode() * 40,
        b"undefined",
        b"null",
        b"",
        b" ",
        b" RIGHT",
        b"RIGHT, Bearer RIGHT",
        b'"RIGHT"',
        b"x" * 30_000,
    ],
)
def test_U6_odd_tokens_are_wrong_and_nothing_more(daemon: Served, token: bytes) -> None:
    given = token.replace(b"RIGHT", daemon.client.found.token.encode())
    for method, path in ROUTES:
        assert daemon.ask(method, path, token=given).status in {400, 401}, path


@pytest.mark.parametrize("bytes", [b"a\0b", b"a" * 1_000_000, b"a\nb: c", b"a\r"])
def test_U6_tokens_that_are_no_header_are_refused(daemon: Served, bytes: bytes) -> None:
    assert daemon.ask("GET", "/projects", token=bytes).status in {400, 401, 431, 0}
    assert daemon.alive()


def test_U6_two_tokens_are_none_and_other_schemes_are_unknown(daemon: Served) -> None:
    token = daemon.client.found.token
    assert daemon.ask("GET", "/projects", f"Authorization: Bearer {token}").status == 401
    for scheme in ("Basic", "Token", "", "Bearer Bearer"):
        assert daemon.ask("GET", "/projects", f"Authorization: {scheme} {token}", token=None).status == 401
    assert daemon.ask("GET", "/projects", f"authorization: bearer {token}", token=None).status == 200  # as HTTP has it
    assert daemon.ask("GET", "/projects", f"X-Token: {token}", f"Cookie: token={token}", token=None).status == 401


@pytest.mark.parametrize(
    "header",
    [
        "X-Forwarded-For: 127.0.0.1",
        "X-Real-IP: 127.0.0.1",
        "Forwarded: for=127.0.0.1;host=127.0.0.1",
        "X-Forwarded-Host: 127.0.0.1",
        "X-Original-URL: /health",
        "X-Rewrite-URL: /health",
        "X-HTTP-Method-Override: GET",
        "X-Agent-Id: alice",
    ],
)
@pytest.mark.parametrize("token", ["wrong", None])
def test_U9_presence_is_not_validity(daemon: Served, header: str, token: str | None) -> None:
    for method, path in ROUTES:
        assert daemon.ask(method, path, header, token=token).status == 401, path


@pytest.mark.parametrize("path", ["/health/../projects", "/health/", "/HEALTH", "//health", "/health%2f..%2fprojects"])
def test_U9_only_the_open_path_itself_is_open(daemon: Served, path: str) -> None:
    assert daemon.ask("GET", path, token=None).status in {400, 401}
    assert daemon.ask("POST", "/health", token=None).status == 401


def test_U7_a_hostile_listener_on_a_stale_port_learns_nothing(tmp_path: Path) -> None:
    """The next daemon starts beside it. What else a listener may try is S4, in tests/daemon/test_client.py."""
    home, heard = make_home(tmp_path / "home"), bytearray()
    with socket.create_server(("127.0.0.1", 0)) as hostile:
        threading.Thread(target=overhear, args=(hostile, heard), daemon=True).start()
        stale = DaemonFile(2**22 + 1, "127.0.0.1", hostile.getsockname()[1], "x" * 43, "d_1", "then", "boot:1")
        write_daemon(home, stale)
        client = connect(home=home, command=fresh_daemon_command(home), patience=PATIENCE)
        try:
            assert client.found.port != stale.port
            assert client.request("GET", "/projects")[0] == 200
        finally:
            kill_daemon(home, client.found)
    assert heard  # it was asked to prove itself
    for word in (stale.token, client.found.token, "authorization", "bearer"):
        assert word.lower().encode() not in heard.lower()


def overhear(listener: socket.socket, heard: bytearray) -> None:
    """Takes whatever is sent, and says that it is the daemon."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                heard += connection.recv(65536)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"status": "ok"}')


# --- tokens of runs


SEAT = RunIdentity(agent="a1", name="alice", project="p1", run="r1", root="i1", hop=0)


def test_C7_a_runs_token_ends_with_the_run_and_is_not_kept() -> None:
    tokens = Tokens("the-admin-token")
    token, other = tokens.issue(SEAT), tokens.issue(SEAT)
    assert tokens.caller(token.encode()) == SEAT
    assert tokens.caller(b"the-admin-token") == Admin()
    assert token not in repr(vars(tokens))
    tokens.end_run("another")
    assert tokens.caller(token.encode()) == SEAT
    tokens.end_run("r1")
    assert tokens.caller(token.encode()) is tokens.caller(other.encode()) is None


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_M1_a_runs_token_opens_its_tools_and_nothing_else(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    reached: list[object] = []
    statuses: list[int] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        reached.append(scope["caller"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    tokens = Tokens("the-admin-token")
    headers = {"host": "127.0.0.1:1", "authorization": f"Bearer {tokens.issue(SEAT)}"}
    headers |= {"content-type": "application/json"} if method in ("POST", "PUT", "PATCH") else {}
    scope: Message = {"type": "http", "http_version": "1.1", "method": method, "path": path, "query_string": b""}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
    await RequestGuard(app, tokens, "127.0.0.1", 1)(scope, receive, send)
    if path == "/mcp":
        assert (reached, statuses[0]) == ([SEAT], 200)
    else:
        assert (reached, statuses[0]) == ([], 403)
        assert f"alice (run r1) asked for {method} {path}" in caplog.text


def established(daemon: Served) -> int:
    """Connections to its port: it may have others, with its database."""
    at = daemon.client.found.port
    return len([c for c in daemon.process.net_connections() if c.status == "ESTABLISHED" and c.laddr.port == at])


def test_L8_strangers_cannot_keep_the_person_out(daemon: Served) -> None:
    """2,000 connections that say nothing, half a head, or an upgrade: those who waited longest make room."""
    beginnings = [b"", b"GET / HTTP/1.1\r\nHost: ", b"GET /events HTTP/1.1\r\nUpgrade: h2c\r\n"]
    waiting = []
    waited: list[float] = []
    try:
        for number in range(2000):
            connection = socket.create_connection(daemon.address, timeout=PATIENCE)
            waiting.append(connection)
            with_words = beginnings[number % len(beginnings)]
            if with_words:
                with contextlib.suppress(OSError):
                    connection.sendall(with_words)
            if number % 100 == 99:
                began = time.monotonic()
                assert daemon.alive()
                waited.append(time.monotonic() - began)
            if len(waiting) > 500:  # our own descriptors are limited too
                waiting.pop(0).close()
        assert min(waited[10:]) < 4  # a busy machine is slow at times; a door that is shut, always
        assert established(daemon) <= CROWD + 2
        assert eventually(lambda: established(daemon) <= STRANGERS + 2)
    finally:
        for connection in waiting:
            connection.close()
    assert eventually(lambda: established(daemon) <= 2)
    assert json.loads(daemon.ask("GET", "/projects").body)
