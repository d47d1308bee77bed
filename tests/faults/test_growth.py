"""What may grow, and how far: the write-ahead log, and what is kept of clients that left without a word."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import apsw
import pytest

from agent_worker.core.events import Bus
from agent_worker.database.database import Transaction
from agent_worker.database.sqlite import WAL_KEPT, SqliteDatabase
from tests.faults.report import LONG, report
from tests.patience import eventually
from tests.shells.served import Served, served

MB = 1_000_000
LONGEST = 64 * MB  # what the log may have when nobody holds it

pytestmark = pytest.mark.timeout(600 if LONG else 300)


@pytest.mark.sqlite("the log beside its file")
async def test_G5_the_log_is_short_again_when_a_long_reader_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = await SqliteDatabase.open(path, Bus())
    with_a_reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with_a_reader.execute("begin; select count(*) from resource")
    written = 0
    while size_of_log(path) < (4 if LONG else 1.5) * LONGEST:
        written += 1
        await database.write(keep, f"{written}", 4 * MB)
    report.count("G5 MB behind a reader", size_of_log(path) // MB)
    with_a_reader.close()
    for number in range(10):
        await database.write(keep, f"later {number}", 1000)
    assert size_of_log(path) <= WAL_KEPT <= LONGEST
    await database.close()


@pytest.mark.sqlite("the log beside its file")
async def test_G5_steady_writing_and_reading_keep_the_log_short(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = await SqliteDatabase.open(path, Bus())
    longest = 0
    for number in range(2000 if LONG else 200):
        await database.write(keep, f"{number}", 100_000)
        await database.read(lambda tx: tx.one("select sum(size) as all_of_it from resource"))
        longest = max(longest, size_of_log(path))
    report.count("G5 MB written", (number + 1) // 10)
    assert longest <= LONGEST
    await database.close()


@pytest.mark.sqlite("the log beside its file")
def test_G5_streams_that_are_not_read_hold_no_look_at_the_database(tmp_path: Path) -> None:
    with served(tmp_path) as daemon, contextlib.ExitStack() as opened:
        daemon.do("POST", "/workflows", workflow="review")
        for _ in range(20):
            stuck = opened.enter_context(daemon.connect(receive_buffer=4096))
            stuck.sendall(daemon.head("GET", "/events?after=beginning") + b"\r\n")
        longest = 0
        for number in range(3000 if LONG else 150):
            daemon.do("POST", "/send", to="@review", message=f"{number} {'x' * 200_000}")
            longest = max(longest, size_of_log(daemon.home / "state.db"))
        report.count("G5 MB written beside streams that are not read", (number + 1) // 5)
        assert longest <= (LONGEST if LONG else LONGEST / 4)


def test_L9_clients_of_MCP_that_say_hello_and_leave_are_not_kept(tmp_path: Path) -> None:
    with served(tmp_path, fresh=True) as daemon:
        say_hello(daemon, 50)  # what it imports for the first is no growth
        memory, descriptors = daemon.settled_rss(), daemon.process.num_fds()
        say_hello(daemon, 10_000 if LONG else 300)
        assert eventually(lambda: daemon.process.num_fds() <= descriptors + 5)
        assert daemon.settled_rss() - memory < 10


def say_hello(daemon: Served, count: int) -> None:
    """Every second one does not even wait for the answer."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode()
    accept = "Accept: application/json, text/event-stream"
    head = daemon.head("POST", "/mcp", accept, f"Content-Length: {len(body)}")
    for number in range(count):
        with daemon.connect() as connection:
            connection.sendall(head + b"\r\n" + body)
            if number % 2:
                answer = connection.recv(65536)
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"mcp-session-id" not in answer.lower()
    report.count("L9 abandoned clients", count)


def keep(tx: Transaction, id: str, size: int) -> None:
    tx.run(
        "insert into resource(project, workspace, id, size, text) values ('p', 'w', :id, :size, :body)",
        id=id,
        size=size,
        body="x" * size,
    )


def size_of_log(path: Path) -> int:
    return path.with_name("state.db-wal").stat().st_size
