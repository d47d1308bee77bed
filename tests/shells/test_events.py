"""`GET /events`: everything that happens, resumable, in one order, whatever other readers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import time
from collections.abc import AsyncIterator, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, follow, frames, served

from agent_worker.core.events import number_at, position_of
from agent_worker.daemon.http.routes import STREAMS
from agent_worker.doors.event_stream import EventResponse
from agent_worker.service.events import StreamItem


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("events"), fresh=True) as made:
        made.do("POST", "/workflows", workflow="review")
        yield made


def post(daemon: Served, texts: Sequence[str], *, at: str = "@review") -> None:
    """Quickly: on one connection, waiting for the answers of a few at a time."""
    with daemon.connect() as connection:
        for first in range(0, len(texts), 10):
            few = texts[first : first + 10]
            for text in few:
                body = json.dumps({"to": at, "message": text, "project": str(daemon.project)}).encode()
                connection.sendall(daemon.head("POST", "/send", f"Content-Length: {len(body)}") + b"\r\n" + body)
            received = b""
            while received.count(b"HTTP/1.1 ") < len(few) or not received.endswith(b"}"):
                received += connection.recv(65536)
            assert received.count(b"HTTP/1.1 200") == len(few), received


def flood(daemon: Served, count: int) -> None:
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: post(daemon, ["x" * 4000] * (count // 10)), range(10)))


def newest(daemon: Served) -> str:
    """The id of an event that has just happened."""
    connection, events = follow(daemon, "/events?kind=message")
    with connection:
        post(daemon, ["mark"])
        return str(next(events)["id"])


def until_text(events: Iterator[dict[str, str]], text: str) -> list[dict[str, Any]]:
    seen = []
    for event in events:
        seen.append(json.loads(event["data"]) | {"id": event.get("id")})
        if seen[-1].get("text") == text:
            return seen
    raise AssertionError(f"ended before {text}")


def test_events_have_an_id_each_and_are_told_in_order(daemon: Served) -> None:
    after = newest(daemon)
    connection, events = follow(daemon, f"/events?after={after}")
    with connection:
        post(daemon, ["one", "two", "three"])
        seen = [event for event in until_text(events, "three") if event["event"] == "message"]
    assert [event["text"] for event in seen] == ["one", "two", "three"]
    assert len({event["id"] for event in seen}) == 3
    assert not any("number" in event for event in seen), "where it stands among all is nobody's business"


def test_it_goes_on_after_the_last_event_that_was_seen(daemon: Served) -> None:
    after = newest(daemon)
    post(daemon, ["missed one", "missed two"])
    connection, events = follow(daemon, "/events", f"Last-Event-ID: {after}")
    with connection:
        texts = [event["text"] for event in until_text(events, "missed two") if event["event"] == "message"]
    assert texts == ["missed one", "missed two"]


def test_an_event_is_the_same_live_and_later(daemon: Served) -> None:
    after = newest(daemon)
    connection, events = follow(daemon, "/events?kind=message")
    with connection:
        post(daemon, ["hello", "as it happens"])
        live = until_text(events, "as it happens")
    connection, events = follow(daemon, f"/events?kind=message&after={after}")
    with connection:
        assert until_text(events, "as it happens")[-2:] == live[-2:]


@pytest.mark.parametrize("last", ["x", "7", "-5", "e_", "e_1.5", "e_99999999999999999999999", "1; drop table"])
def test_a_last_event_that_is_none_is_refused(daemon: Served, last: str) -> None:
    assert daemon.ask("GET", "/events", f"Last-Event-ID: {last}").status == 422


def test_an_id_from_the_future_means_from_now_on(daemon: Served) -> None:
    connection, events = follow(daemon, "/events?after=e_999999999999&kind=message")
    with connection:
        post(daemon, ["from now on"])
        assert json.loads(next(events)["data"])["text"] == "from now on"


def test_it_can_be_narrowed_to_a_place_a_kind_and_a_project(daemon: Served, tmp_path: Path) -> None:
    after = newest(daemon)
    daemon.do("POST", "/workflows", workflow="review", tag="other")
    post(daemon, ["elsewhere"], at="@review:other")
    post(daemon, ["@alice here"])
    daemon.do("POST", "/ask", agent="bob", message="personal")
    post(daemon, ["last"])

    def seen(query: str) -> list[dict[str, Any]]:
        connection, events = follow(daemon, daemon.query(f"/events?after={after}{query}"))
        with connection:
            return until_text(events, "last")

    here = seen("&at=@review")
    assert "elsewhere" not in [event.get("text") for event in here]
    assert len({event["workspace"] for event in here}) == 1
    assert {event["event"] for event in seen("&kind=message,workspace")} <= {"message", "workspace"}
    assert "personal" in json.dumps(seen(""))
    connection, events = follow(daemon, daemon.query(f"/events?after={after}&at=bob&kind=ended"))
    with connection:
        assert json.loads(next(events)["data"])["name"] == "bob"

    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "zoe.yaml").write_text("backend: mock\n")
    connection, events = follow(daemon, f"/events?after={after}&project={tmp_path}")
    with connection:
        daemon.client.request("POST", "/ask", {"agent": "zoe", "message": "hi", "project": str(tmp_path)})
        told = (json.loads(event["data"]) for event in events)
        first = next(event for event in told if event["event"] != "tokens")  # a host that shares it has a checkout more
        assert first["event"] == "queued"  # the first of this project: all of the others' was left out
        assert next(event for event in told if event["event"] == "ended")["name"] == "zoe"


@pytest.mark.parametrize("text", ["a\n\nevent: done\ndata: {}\n\n", "a\r\revent: done\rdata: {}\r\r", "a\r\nid: 7\r\n"])
def test_X6_a_text_cannot_become_an_event(daemon: Served, text: str) -> None:
    after = newest(daemon)
    post(daemon, [text, "behind it"])
    connection, events = follow(daemon, f"/events?after={after}&kind=message")
    with connection:
        one, two = next(events), next(events)
    assert json.loads(one["data"])["text"] == text
    assert json.loads(two["data"])["text"] == "behind it"
    assert set(one) == {"id", "event", "data"}
    assert "\r" not in one["data"]


def test_O1_twenty_readers_under_load_see_the_same_without_gap_or_repeat(daemon: Served) -> None:
    """Some from the start, some coming and going all the time, each going on where it was."""
    after = newest(daemon)
    writers, each = 4, 100

    def read(seed: int) -> list[tuple[str, str]]:
        chance, at = random.Random(seed), after
        found: list[tuple[str, str]] = []
        while True:
            connection, events = follow(daemon, "/events?kind=message", f"Last-Event-ID: {at}")
            with connection:
                for event in events:
                    at = event["id"]
                    found.append((at, json.loads(event["data"])["text"]))
                    if found[-1][1] == "the end":
                        return found
                    if seed % 2 and chance.random() < 0.02:
                        break

    def write(number: int) -> None:
        post(daemon, [f"{number}.{count}" for count in range(each)])

    with ThreadPoolExecutor(24) as pool:
        readers = [pool.submit(read, seed) for seed in range(20)]
        writing = [pool.submit(write, number) for number in range(writers)]
        for each_writer in writing:
            each_writer.result()
        post(daemon, ["the end"])
        seen = [reader.result(PATIENCE) for reader in readers]
    assert all(other == seen[0] for other in seen[1:])
    numbers = [number_at(id) for id, _ in seen[0]]
    assert numbers == sorted(set(numbers))
    texts = [text for _, text in seen[0]]
    assert len(texts) == writers * each + 1
    for number in range(writers):  # each sender's own order is kept
        assert [t for t in texts if t.startswith(f"{number}.")] == [f"{number}.{count}" for count in range(each)]


def test_L6_readers_that_stop_reading_hurt_only_themselves(tmp_path: Path) -> None:
    """They are waited for five seconds by people's daemons: here for one."""
    with served(tmp_path, shorter={"agent_worker.doors.event_stream.SEND_PATIENCE": 1.0}) as daemon:
        daemon.do("POST", "/workflows", workflow="review")
        stuck_readers_hurt_only_themselves(daemon)


def stuck_readers_hurt_only_themselves(daemon: Served) -> None:
    after = newest(daemon)
    flood(daemon, 1200)  # more than the system buffers for a connection
    before = daemon.settled_rss()
    with contextlib.ExitStack() as opened:
        stuck = [opened.enter_context(daemon.connect(receive_buffer=4096)) for _ in range(STREAMS - 4)]
        for connection in stuck:
            connection.sendall(daemon.head("GET", f"/events?after={after}") + b"\r\n")
        _is_told_of_each(daemon)
        assert daemon.rss() - before < 20
        # They are let go, and their places are free again; what they have seen is where they go on.
        assert eventually(lambda: _streams_free(daemon))
        seen = _numbers_until_cut(stuck[0])
    assert seen == list(range(seen[0], seen[-1] + 1))
    connection, events = follow(daemon, "/events", f"Last-Event-ID: {position_of(seen[-1])}")
    with connection:
        assert next(events)["id"] == position_of(seen[-1] + 1)
    assert "without completing response" not in daemon.log()  # they were cut off on purpose: that is no error


def _is_told_of_each(daemon: Served) -> None:
    """A healthy reader hears of every message before the next is sent; if it were held up, this would never end."""
    connection, events = follow(daemon, "/events?kind=message")
    with connection:
        for number in range(100):
            post(daemon, [f"quick {number}"])
            while json.loads(next(events)["data"])["text"] != f"quick {number}":
                pass


def _streams_free(daemon: Served) -> bool:
    opened = []
    try:
        for _ in range(STREAMS - 2):
            connection = daemon.connect()
            opened.append(connection)
            connection.sendall(daemon.head("GET", "/events") + b"\r\n")
            if not connection.recv(100).startswith(b"HTTP/1.1 200"):
                time.sleep(0.1)
                return False
        return True
    finally:
        for connection in opened:
            connection.close()


def _numbers_until_cut(connection: socket.socket) -> list[int]:
    seen = []
    try:
        for event in frames(connection):
            seen.append(number_at(event["id"]))
    except OSError:
        pass
    return seen


def test_so_many_streams_and_no_more(daemon: Served) -> None:
    assert eventually(lambda: _streams_free(daemon))
    opened = []
    answers = []
    for _ in range(STREAMS + 5):
        connection = daemon.connect()
        opened.append(connection)
        connection.sendall(daemon.head("GET", "/events") + b"\r\n")
        answers.append(connection.recv(65536)[:12])
    assert answers.count(b"HTTP/1.1 200") >= STREAMS - 1  # one of those before may just be going
    assert answers.count(b"HTTP/1.1 429") >= 5
    assert daemon.alive()
    for connection in opened:
        connection.close()
    assert eventually(lambda: _streams_free(daemon))


def test_R6_at_the_end_every_reader_gets_a_last_event(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        opened = [follow(daemon, "/events") for _ in range(20)]
        post_to_alice = daemon.do("POST", "/ask", agent="alice", message="hi")
        assert post_to_alice["state"] == "done"
        daemon.client.request("POST", "/shutdown", {})
        for connection, events in opened:
            last = list(events)[-1]
            assert (last["event"], json.loads(last["data"])["reason"]) == ("end", "stopping")
            connection.close()
        daemon.process.wait(timeout=PATIENCE)
        assert '"CRITICAL"' not in daemon.log()  # nobody had to be left behind


def test_R6_one_who_does_not_read_is_cut_off_at_the_end_and_that_is_no_error(tmp_path: Path) -> None:
    with served(tmp_path) as daemon:
        daemon.do("POST", "/workflows", workflow="review")
        flood(daemon, 1500)
        with daemon.connect(receive_buffer=4096) as stuck:
            stuck.sendall(daemon.head("GET", "/events?after=beginning") + b"\r\n")
            daemon.settled_rss()  # it has sent as much as the system takes
            daemon.client.request("POST", "/shutdown", {})
            daemon.process.wait(timeout=PATIENCE)
        assert '"ERROR"' not in daemon.log()


async def test_a_silent_stream_shows_that_it_is_alive() -> None:
    pinged_twice = asyncio.Event()
    sent: list[bytes] = []

    class Silent:
        closed = False

        async def __aiter__(self) -> AsyncIterator[Sequence[StreamItem]]:
            await pinged_twice.wait()
            yield [StreamItem("late", "{}", 7)]

        async def close(self) -> None:
            self.closed = True

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if sent.count(b": ping\n\n") == 2:
            pinged_twice.set()

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        return {}

    stream = Silent()
    response = EventResponse(stream, ended=lambda: None, closing=asyncio.Event(), ping=0.01)
    await response({}, receive, send)
    assert sent[-2:] == [b"id: 7\nevent: late\ndata: {}\n\n", b""]
    assert stream.closed
