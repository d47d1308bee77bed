"""The client: a real daemon answers it, strangers learn nothing from it, and many who start one start one."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.minimal import COMMAND, end, running
from tests.patience import eventually

from agent_worker.client.connection import Client, connect, find
from agent_worker.client.discovery import DAEMON_FILE, DaemonFile, birth_of, make_home, proof, read_daemon, write_daemon
from agent_worker.client.plain_http import ServerEvent, events
from agent_worker.core.errors import AgentWorkerError, BadInput, NotFound, Overloaded, Permanent, Refused, Stale

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = make_home(tmp_path / "home")
    yield home
    end(home)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("shared") / "home") as (client, _):
        yield client


class Listener:
    """Somebody else on a port: answers each connection as told, and keeps all it heard."""

    def __init__(self, answer: Callable[[socket.socket, Callable[[bytes], None]], None]) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._answer(connection, self._hear)

    def _hear(self, data: bytes) -> None:
        self.heard += data


def answering(make: Callable[[bytes], bytes]) -> Callable[[socket.socket, Callable[[bytes], None]], None]:
    def answer(connection: socket.socket, hear: Callable[[bytes], None]) -> None:
        while data := connection.recv(65536):
            hear(data)
            connection.sendall(make(data))

    return answer


def http(body: object, status: str = "200 OK", headers: str = "") -> bytes:
    content = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content


def nonce_in(request: bytes) -> str:
    return re.findall(r"nonce: ([0-9a-f]+)", request.decode().lower())[0]


def claiming(port: int, **fields: Any) -> DaemonFile:
    return replace(DaemonFile(2**22 + 1, "127.0.0.1", port, TOKEN, "d_1", "then", "boot:1"), **fields)


def test_a_request_comes_back_as_status_and_json(daemon: Client) -> None:
    status, answer = daemon.request("POST", "/echo", {"text": "größer\n"})
    assert status == 200
    assert answer["allowed"]
    assert answer["body"] == {"text": "größer\n"}


def test_a_large_body_goes_both_ways(daemon: Client) -> None:
    body = "x" * 3_000_000
    assert daemon.request("POST", "/echo", body)[1]["body"] == body


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "not_found", NotFound),
        (409, "stale", Stale),
        (503, "overloaded", Overloaded),
        (400, "bad_definition", BadInput),
        (409, "of_tomorrow", Refused),
        (500, "of_tomorrow", AgentWorkerError),
    ],
)
def test_an_error_is_raised_as_what_it_was(daemon: Client, status: int, code: str, kind: type[Exception]) -> None:
    with pytest.raises(AgentWorkerError, match="no such thing") as raised:
        daemon.request("GET", f"/fail?status={status}&code={code}")
    assert type(raised.value) is kind
    assert raised.value.hint == "look elsewhere"


def test_a_redirect_is_not_followed(daemon: Client) -> None:
    with pytest.raises(AgentWorkerError, match="302"):
        daemon.request("GET", "/elsewhere")


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "http://evil.example/", "", "/ä"])
def test_a_path_cannot_smuggle_anything(daemon: Client, path: str) -> None:
    with pytest.raises(BadInput):
        daemon.request("GET", path)


def test_events_stream_as_they_come(daemon: Client) -> None:
    stream = daemon.stream("GET", "/ticks")
    assert [next(stream) for _ in range(3)] == [ServerEvent("tick", str(n), "first\ngrößer") for n in range(3)]
    stream.close()  # type: ignore[attr-defined]


def test_what_is_no_stream_is_not_read_as_one(daemon: Client) -> None:
    with pytest.raises(AgentWorkerError, match="without a stream"):
        next(daemon.stream("GET", "/health"))
    with pytest.raises(NotFound):
        next(daemon.stream("GET", "/fail?status=404&code=not_found"))


def test_events_may_be_cut_anywhere() -> None:
    text = b": hello\r\n\r\nid: 7\r\ndata: a\r\ndata:  b\r\n\r\nevent: end\ndata\n\ndata: unfinished"
    expected = [ServerEvent("message", "7", "a\n b"), ServerEvent("end", "7", "")]
    for cut in range(len(text)):
        assert list(events(iter([text[:cut], text[cut:]]))) == expected
    assert list(events(text[i : i + 1] for i in range(len(text)))) == expected


def test_a_request_that_takes_too_long_is_given_up(daemon: Client) -> None:
    with pytest.raises(AgentWorkerError, match=r"did not answer within 0\.2 s"):
        list(daemon.stream("GET", "/silent", silence=0.2))


def test_a_daemon_that_dies_is_told_with_the_next_command(home: Path) -> None:
    with running(home) as (client, _):
        with pytest.raises(AgentWorkerError, match="ended before it had answered") as raised:
            client.request("POST", "/die", {})
        assert "logs" in raised.value.hint
        with pytest.raises(AgentWorkerError, match="no longer running") as raised:
            client.request("GET", "/health")
        assert "again" in raised.value.hint
        assert find(home) is None


def test_requests_wait_for_an_application_that_is_still_made(home: Path) -> None:
    client = connect(home=home, command=("env", 'MINIMAL={"fault": "slow"}', *COMMAND))
    assert client.request("GET", "/health") == (200, {"status": "ok"})


STRANGERS: dict[str, Callable[[bytes], bytes]] = {
    "polite": lambda _: http({"status": "ok"}),
    "guesses": lambda _: http({"proof": "0" * 64}),
    "echoes": lambda request: http({"proof": nonce_in(request)}),
    "asks for the token": lambda _: http({}, "401 Unauthorized", "WWW-Authenticate: Bearer\r\n"),
    "redirects": lambda _: http({}, "302 Found", "Location: http://127.0.0.1:1/\r\n"),
    "knows the old instance": lambda request: http(
        {"proof": proof("another" * 9, nonce=nonce_in(request), port=1, instance="d_1")}
    ),
    "speaks something else": lambda _: b"SSH-2.0-OpenSSH_9.6\r\n",
    "speaks nonsense": lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
    "never ends its head": lambda _: b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000,
    "answers no object": lambda _: http([1]),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_S4_a_stranger_on_the_port_never_sees_the_token(home: Path, stranger: str) -> None:
    with Listener(answering(STRANGERS[stranger])) as listener:
        found = claiming(listener.port)
        write_daemon(home, found)
        assert find(home) is None
        with pytest.raises(Refused, match="not running"):
            connect(home=home, start=False)
        with pytest.raises(AgentWorkerError, match="nothing was sent"):
            Client(found).request("POST", "/send", {"text": "secret"})
        assert b"nonce" in listener.heard.lower()
        for word in (TOKEN.encode(), b"authorization", b"bearer", b"secret"):
            assert word not in listener.heard.lower()


def test_S4_a_stranger_who_relays_to_the_real_daemon_gets_nothing(home: Path) -> None:
    with running(home, token=TOKEN) as (client, _):
        real, answers = client.found, list[bytes]()

        def relay(connection: socket.socket, hear: Callable[[bytes], None]) -> None:
            with socket.create_connection((real.host, real.port)) as onward:
                threading.Thread(target=back, args=(onward, connection), daemon=True).start()
                while data := connection.recv(65536):
                    hear(data)
                    host = f"127.0.0.1:{listener.port}".encode()
                    onward.sendall(data.replace(host, f"127.0.0.1:{real.port}".encode()))

        def back(onward: socket.socket, connection: socket.socket) -> None:
            with suppress(OSError):
                while data := onward.recv(65536):
                    answers.append(data)
                    connection.sendall(data)

        with Listener(relay) as listener:
            write_daemon(home, replace(real, port=listener.port))
            assert find(home) is None
            with pytest.raises(AgentWorkerError, match="nothing was sent"):
                Client(replace(real, port=listener.port)).request("GET", "/health")
            assert b'"proof"' in b"".join(answers)  # the daemon did answer, but for its own port
            assert TOKEN.encode() not in listener.heard


def test_M21_the_next_instance_is_not_the_one_that_was_found(home: Path) -> None:
    with running(home, token=TOKEN) as (client, _):
        earlier = client.found
    with (
        running(home, token=TOKEN, port=earlier.port) as (client, _),
        pytest.raises(AgentWorkerError, match="nothing was sent"),
    ):
        Client(earlier).request("GET", "/health")


def test_S3_silent_and_dripping_listeners_block_nobody(tmp_path: Path) -> None:
    def silent(connection: socket.socket, hear: Callable[[bytes], None]) -> None:
        while connection.recv(65536):
            pass

    def dripping(connection: socket.socket, hear: Callable[[bytes], None]) -> None:
        pause = threading.Event()
        while True:
            connection.sendall(b"H")
            pause.wait(0.05)

    def look(found: DaemonFile) -> object:
        home = make_home(tmp_path / str(found.port) / found.instance)
        write_daemon(home, found)
        try:
            return find(home)
        except AgentWorkerError as error:
            return error.message

    mine = {"pid": os.getpid(), "born": birth_of(os.getpid()), "instance": "d_2"}
    with Listener(silent) as one, Listener(dripping) as other, ThreadPoolExecutor() as pool:
        claims = [claiming(one.port), claiming(other.port), claiming(one.port, **mine)]
        stale, dripped, stuck = pool.map(look, claims)
    assert stale is None
    assert dripped is None
    assert stuck == f"the daemon at 127.0.0.1:{one.port} (process {os.getpid()}) does not answer"


def test_S5_twenty_first_commands_share_one_daemon(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agent_worker.client.connection import connect\n"
        "client = connect(home=Path(sys.argv[1]), command=sys.argv[2:], patience=100)\n"
        "print(client.request('POST', '/echo', {})[1]['pid'])"
    )
    counted = ("sh", "-c", 'echo >> starts; exec "$@"', "sh", *COMMAND)
    argv = [sys.executable, "-c", code, str(home), *counted]
    commands = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(20)]
    answers = [command.communicate()[0].strip() for command in commands]
    found = read_daemon(home)
    assert found
    assert answers == [str(found.pid)] * 20
    assert (home / "starts").read_text() == "\n"


def test_a_started_daemon_is_on_its_own(home: Path) -> None:
    client = connect(home=home, command=COMMAND)
    pid = client.found.pid
    assert os.getsid(pid) == pid
    assert os.readlink(f"/proc/{pid}/cwd") == str(home)
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # it opens and closes some while we look
            assert "start.lock" not in os.readlink(f"/proc/{pid}/fd/{number}")
    assert connect(home=home, command=("false",)).found == client.found


def test_a_daemon_that_has_ended_is_gone_from_the_table_of_processes_with_the_next_start(home: Path) -> None:
    """A program may go on for weeks, and daemons that it has started may end."""
    first = connect(home=home, command=COMMAND).found.pid
    end(home)
    eventually(lambda: birth_of(first) is None)
    connect(home=home, command=COMMAND)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_start_that_is_refused_says_why(home: Path) -> None:
    with pytest.raises(Permanent, match="from the future") as raised:
        connect(home=home, command=("env", 'MINIMAL={"fault": "refuses"}', *COMMAND))
    assert raised.value.hint == "update agent-worker"
    assert not (home / DAEMON_FILE).exists()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("env", 'MINIMAL={"fault": "raises"}', *COMMAND), r"(?s)exit code 1.*ZeroDivisionError: a bug"),
        (("env", 'MINIMAL={"fault": "dies"}', *COMMAND), "exit code 9"),
        ((sys.executable, "-c", "import no_such_module"), r"(?s)exit code 1.*No module named 'no_such_module'"),
        (("/no/such/python",), "cannot be started: No such file"),
    ],
)
def test_a_start_that_fails_is_explained_from_the_log(home: Path, command: tuple[str, ...], told: str) -> None:
    (home / "daemon.log").write_text("an old story\n")
    with pytest.raises(AgentWorkerError, match=told) as raised:
        connect(home=home, command=command)
    assert "an old story" not in raised.value.message


def test_a_start_that_takes_too_long_is_given_up(home: Path) -> None:
    with pytest.raises(AgentWorkerError, match="not ready yet"):
        connect(home=home, command=("sleep", "30"), patience=0.1)


def test_S3_a_start_succeeds_whatever_the_file_says(home: Path) -> None:
    for content in (b'{"format"', b'{"format": 99, "pid": 1}'):
        (home / DAEMON_FILE).write_bytes(content)
        client = connect(home=home, command=COMMAND)
        assert client.request("GET", "/health")[0] == 200
        end(home)
    write_daemon(home, claiming(1, pid=os.getpid(), born="boot:1"))  # our own number, recycled
    assert connect(home=home, command=COMMAND).request("GET", "/health")[0] == 200
