"""Thousands at once, and a process without descriptors: each gets an answer, nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import stored
from tests.faults.report import LONG, report
from tests.patience import PATIENCE, eventually
from tests.shells.served import Answer, Served, parse_answer, served

from agent_worker.daemon.http.connection import _MOMENT, Capacity, OpenConnections
from agent_worker.daemon.process.logs import LogFile


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("crowds")) as running:
        yield running


@pytest.fixture
def many_files() -> Iterator[None]:
    """We need as many descriptors as there are connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sending(daemon: Served, key: str) -> bytes:
    body = json.dumps({"project": str(daemon.project), "to": "alice", "message": f"{key} hello", "key": key}).encode()
    return daemon.head("POST", "/send", f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body


class Asker(asyncio.Protocol):
    """One request on a connection of its own, perhaps after another. Cut off, it has an answer with status 0."""

    def __init__(self, request: bytes, first: bytes) -> None:
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._requests = [request, first] if first else [request]
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._requests.pop())

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._requests and self._received.endswith(b"}"):
            self._received = b""
            self._transport.write(self._requests.pop())

    def connection_lost(self, error: Exception | None) -> None:
        self.answer.set_result(parse_answer(self._received))


async def at_once(daemon: Served, keys: list[str], *, first: bytes = b"") -> list[Answer]:
    loop = asyncio.get_running_loop()
    askers = [Asker(sending(daemon, key), first) for key in keys]
    await asyncio.gather(*(loop.create_connection(lambda asker=asker: asker, *daemon.address) for asker in askers))
    return await asyncio.gather(*(asker.answer for asker in askers))


@pytest.mark.parametrize("proved", [False, True], ids=["with the token at once", "as our own client"])
@pytest.mark.parametrize("count", [1000, 2000] if LONG else [1000])
async def test_L11_thousands_of_sends_at_once_are_each_answered(
    daemon: Served, many_files: None, count: int, proved: bool
) -> None:
    keys = [f"{count}.{proved}.{number}" for number in range(count)]
    health = daemon.head("GET", "/health", token=None) + b"\r\n" if proved else b""
    began = asyncio.get_running_loop().time()
    answers = await at_once(daemon, keys, first=health)
    statuses = Counter(answer.status for answer in answers)
    # On a slow machine it is we who keep it waiting, and then it may cut some of us off, who have asked nothing yet.
    were_slow = asyncio.get_running_loop().time() - began >= _MOMENT
    assert set(statuses) <= {200, 503, *([0] if were_slow else [])}, statuses
    for answer in answers:
        if answer.status == 503:
            assert dict(answer.headers)["retry-after"]
    kept = {row["text"].split()[0] for row in daemon.read(stored.instructions)}
    accepted = {key for key, answer in zip(keys, answers, strict=True) if answer.status == 200}
    assert accepted <= kept
    assert not (set(keys) - accepted) & kept
    assert daemon.alive()
    report.count("L11 sends at once", count)
    report.count("L11 accepted", len(accepted))


def test_L11_capacity_is_made_of_the_descriptors_there_are() -> None:
    for descriptors in (64, 256, 1024, 2**20):
        capacity = Capacity.within(descriptors)
        assert capacity.strangers + capacity.connections < descriptors
    open_connections, guests = OpenConnections(Capacity(strangers=2, connections=3)), [Guest(), Guest(), Guest()]
    for guest in guests:
        assert not open_connections.is_full
        open_connections.came(guest)
        open_connections.trust(guest)
    assert open_connections.is_full  # the next one is told to come again
    assert not open_connections.is_crowded
    open_connections.went(guests[0])
    assert not open_connections.is_full


def test_L11_only_who_keeps_us_waiting_makes_room() -> None:
    open_connections = OpenConnections(Capacity(strangers=2, connections=10))
    served, silent = Guest(silent=0.0), Guest(silent=60.0)
    open_connections.came(served)
    assert not open_connections.make_room()
    open_connections.came(silent)
    assert open_connections.is_crowded
    assert open_connections.make_room()
    assert (served.dropped, silent.dropped) == (False, True)
    assert not open_connections.is_crowded


@dataclass(eq=False)
class Guest:
    silent: float = 0.0
    dropped: bool = False

    def silent_for(self) -> float:
        return self.silent

    def drop(self) -> None:
        self.dropped = True


def test_L12_without_descriptors_those_who_are_here_go_on(tmp_path: Path, many_files: None) -> None:
    """A hundred descriptors, and five hundred who want one."""
    limited = ("prlimit", "--nofile=160:160")
    with served(tmp_path, limited=limited) as daemon, ExitStack() as held:
        connected = held.enter_context(daemon.connect())
        connected.sendall(daemon.head("GET", "/projects") + b"\r\n")
        assert _status(connected) == 200
        crowd = [held.enter_context(_idle(daemon)) for _ in range(500)]
        for number in range(20):  # one that was here keeps being served
            body = json.dumps({"project": str(daemon.project), "to": "alice", "message": f"m{number}"}).encode()
            head = daemon.head("POST", "/send", f"Content-Length: {len(body)}")
            connected.sendall(head + b"\r\n" + body)
            assert _status(connected) == 200, number
        for connection in crowd:
            connection.close()
        assert eventually(daemon.alive)  # by itself
        assert daemon.ask("GET", daemon.query("/status")).json["agents"]
        complaints = [line for line in daemon.log().splitlines() if "WARNING" in line or "ERROR" in line]
        assert len(complaints) < 10, complaints[:10]


def test_L12_whoever_is_refused_is_told_so_and_writes_nothing_into_the_log(tmp_path: Path) -> None:
    """The answer says it; a line for each would push out of the log what somebody must read."""
    with served(tmp_path, limited=("prlimit", "--nofile=96:96")) as daemon, ExitStack() as held:
        before = daemon.log().splitlines()
        for nonsense in (b"nonsense\r\n\r\n", b"GET nowhere HTTP/1.1\r\n\r\n", daemon.head("GET", "/" + 40_000 * "x")):
            assert daemon.raw(nonsense + b"\r\n").status in (400, 414)
        statuses = []
        while 503 not in statuses[:-10]:  # all that there is room for, and ten more
            connection = held.enter_context(daemon.connect())
            connection.sendall(daemon.head("GET", "/projects") + b"\r\n")
            statuses.append(_status(connection))
        assert set(statuses) == {200, 503}
        assert daemon.log().splitlines() == before


def _status(connection: socket.socket) -> int:
    """Of an answer on a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    answer = parse_answer(received)
    missing = int(dict(answer.headers)["content-length"]) - len(answer.body)
    while missing > 0:
        missing -= len(connection.recv(missing))
    return answer.status


def _idle(daemon: Served) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(PATIENCE)
    connection.connect(daemon.address)
    return connection


def test_L12_a_log_becomes_the_next_one_without_a_descriptor_left(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    log = LogFile(path, limit=1000, keep=3)
    line = b"x" * 99 + b"\n"
    with ExitStack() as taken:
        _take_all(taken)
        for _ in range(25):
            log.write(line)
        with pytest.raises(OSError, match="Too many open files"):  # they really are all taken
            os.open(path, os.O_RDONLY)
    for file in (path, path.with_name("daemon.log.1"), path.with_name("daemon.log.2")):
        assert file.read_bytes().replace(line, b"") == b""
        assert 0 < file.stat().st_size <= 1000
    log.write(b"last\n")
    assert path.read_bytes().endswith(b"last\n")
    log.close()


def _take_all(taken: ExitStack) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    with suppress(OSError):
        while True:
            taken.callback(os.close, os.open(os.devnull, os.O_RDONLY))
