"""D: requests made to break whoever reads them."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.shells.served import ROUTES, Served, parse_answer, read_answer, served

MIB = 1024 * 1024
WRITES = [(method, path) for method, path in ROUTES if method in ("POST", "PUT", "PATCH") and path != "/shutdown"]
IMPATIENT = {
    "agent_worker.daemon.http.connection.HEAD_PATIENCE": 2.0,
    "agent_worker.daemon.http.request_guard._BODY_PATIENCE": 2.0,
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("parser"), fresh=True) as made:
        made.do("POST", "/workflows", workflow="review")
        yield made


@pytest.mark.parametrize("token", ["", None])
def test_D1p_L10_a_body_of_100_mb_is_refused_unread(daemon: Served, token: str | None) -> None:
    before = daemon.settled_rss()
    for method, path in (("POST", "/send"), ("PUT", "/documents/x"), ("POST", "/mcp")):
        head = daemon.head(method, path, f"Content-Length: {100 * MIB}", token=token)
        answer = daemon.raw(head + b"\r\n", *[b"x" * MIB] * 100)
        assert answer.status == (413 if token == "" else 401)
    assert daemon.rss() - before < 5
    assert daemon.alive()


@pytest.mark.parametrize("length", ["4194305", "99999999999999999999", "-1", "1e3", "0x10", "+5", "5, 5", " "])
def test_D1p_a_length_must_be_a_small_number(daemon: Served, length: str) -> None:
    answer = daemon.raw(daemon.head("POST", "/send", f"Content-Length: {length}") + b"\r\n")
    assert answer.status in {400, 413}


def test_D1p_chunks_without_end_are_refused_at_the_limit(daemon: Served) -> None:
    before = daemon.settled_rss()
    piece = b"%x\r\n%s\r\n" % (MIB, b"x" * MIB)
    answer = daemon.raw(daemon.head("POST", "/send", "Transfer-Encoding: chunked") + b"\r\n", *[piece] * 30)
    assert answer.status == 413
    assert daemon.rss() - before < 20  # what had to be held until the limit was known to be passed


def test_D1p_the_largest_body_that_is_allowed_arrives(daemon: Served) -> None:
    """And is refused with a sentence: a message is smaller than a request."""
    body = json.dumps({"to": "alice", "message": "x" * (4 * MIB - 200), "project": str(daemon.project)}).encode()
    assert len(body) <= 4 * MIB
    answer = daemon.ask("POST", "/send", body=body)
    assert answer.status == 422
    assert "256 KiB" in answer.json["error"]["message"]


def test_L10_a_client_that_sends_too_much_can_read_why(daemon: Served) -> None:
    with pytest.raises(Exception, match="at most 4,096 KiB"):
        daemon.do("POST", "/send", to="alice", message="x" * (5 * MIB))


def test_D2p_slow_heads_slow_bodies_and_idle_connections_end(tmp_path: Path) -> None:
    """All at once, since each takes its ten seconds: two of them are enough here."""
    with served(tmp_path, shorter=IMPATIENT) as daemon:
        slow_ones_end(daemon)


def slow_ones_end(daemon: Served) -> None:
    head = daemon.head("POST", "/send", "Content-Length: 1000")
    with contextlib.ExitStack() as open_connections:

        def beginning(with_words: bytes) -> socket.socket:
            connection = open_connections.enter_context(daemon.connect())
            connection.sendall(with_words)
            return connection

        slow_body = beginning(head + b"\r\n{")
        idle = [beginning(daemon.head("GET", "/projects") + b"\r\n") for _ in range(100)]
        slow_heads = [beginning(head[:40]), beginning(head), beginning(b"")]
        dripped, dripping = 0, {slow_body, *slow_heads[:2]}
        while dripping:  # drops are no reason to wait longer, or this would never end
            assert daemon.alive()
            answered, _, _ = select.select(dripping, [], [], 0)
            dripping -= set(answered)
            for connection in dripping:
                connection.send(b"x")
            dripped += 1
            time.sleep(0.2)
        assert dripped > 1
        assert read_answer(slow_body).status == 408
        assert [read_answer(connection).status for connection in slow_heads] == [408, 408, 408]
        for connection in idle:
            assert read_answer(connection).status == 200  # and then the end: it was closed for us


BODIES = {
    "deep lists": b'{"message": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a little too deep": b'{"message": ' + b"[" * 70 + b"]" * 70 + b"}",
    "NaN": b'{"message": NaN}',
    "Infinity": b'{"message": -Infinity}',
    "a number that overflows": b'{"message": 1e999}',
    "a number of 3 MB": b'{"message": ' + b"9" * 3_000_000 + b"}",
    "a number of 100 digits": b'{"limit": ' + b"9" * 100 + b"}",
    "a name twice": b'{"to": "alice", "to": "bob", "message": "hi"}',
    "a name twice, deeper": b'{"params": {"a": 1, "a": 2}}',
    "half a pair": b'{"to": "alice", "message": "\\ud800"}',
    "half a pair as a name": b'{"\\udfff": 1}',
    "NUL": b'{"to": "alice", "message": "a\\u0000b"}',
    "a bare NUL": b'{"to": "alice", "message": "a\0b"}',
    "bytes that are no text": b'{"message": "\xff\xfe"}',
    "another encoding": '{"message": "hi"}'.encode("utf-16"),
    "a mark before it": b'\xef\xbb\xbf{"message": "hi"}',
    "not an object": b'["to"]',
    "a word": b"null",
    "cut off": b'{"to": "alice"',
    "two": b"{}{}",
    "not quoted": b"{to: alice}",
    "blanks": b"   ",
}


@pytest.mark.parametrize("name", BODIES)
def test_D3p_what_is_no_json_is_refused_at_every_door(daemon: Served, name: str) -> None:
    before = daemon.state()
    for method, path in WRITES:
        if path != "/mcp":  # that door reads for itself
            assert daemon.ask(method, path, body=BODIES[name]).status in {400, 404}, path
    assert daemon.state() == before


@pytest.mark.parametrize(
    "text", ["\r\n\t\x0b\x1b[2J", "\u2028\u0085\ufeff", "🦄" * 100, "\x7f\x80\x9f", "e\u0301\u202e", "\U0010ffff"]
)
def test_D3p_every_character_that_is_one_comes_back_as_it_was(daemon: Served, text: str) -> None:
    sent = f"<{text}>"
    daemon.do("POST", "/send", to="@review", message=sent)
    (line,) = daemon.client.request("GET", daemon.query("/messages?at=@review&last=true&limit=1"))[1]
    assert line["text"] == sent


@pytest.mark.parametrize(
    "query",
    [
        "at=@review&at=@x",
        "unknown=1",
        "limit=9999999999999999999999",
        "limit=NaN",
        "at=%00",
        "at=%ff",
        "at=%ed%a0%80",
        "&".join(f"a{n}=1" for n in range(200)),
        "since=-99999999999999999999",
        "last=maybe",
        "at=a%0d%0ab: c",
    ],
)
def test_D3p_odd_queries_are_refused(daemon: Served, query: str) -> None:
    assert daemon.ask("GET", daemon.query(f"/messages?{query}")).status in {400, 422}


@pytest.mark.parametrize(
    "name", ["..", "%2e%2e", "..%2f..%2fetc", "%00", "%ff", "a%0ab", "x" * 5000, "%f0%9f%a6%84", "..%5c..", "~", "-x"]
)
def test_D3p_odd_names_in_a_path_are_refused(daemon: Served, name: str) -> None:
    for path in ("/agents/{}", "/documents/{}", "/resources/{}", "/runs/{}", "/agents/alice/notes/{}", "/schedules/{}"):
        asked = daemon.query(path.format(name) + "?at=@review") if "doc" in path or "res" in path else None
        answer = daemon.ask("GET", asked or daemon.query(path.format(name)))
        assert 400 <= answer.status < 500, (path, answer)


def test_D3p_a_name_cannot_be_given_twice_in_two_places(daemon: Served) -> None:
    assert daemon.ask("POST", "/inbox/x?item=y", body={"action": "dismiss"}).status == 400
    assert daemon.ask("POST", "/inbox/x", body={"item": "y", "action": "dismiss"}).status == 400
    assert daemon.ask("POST", "/send?to=alice", body={"to": "bob", "message": "hi"}).status == 400


def test_D4p_a_message_calls_on_fifty_and_no_more_and_is_read_in_one_pass(daemon: Served) -> None:
    for text in (
        " ".join(f"@nobody{number}" for number in range(10_000)),
        "@a" * 100_000,
        "@all " * 40_000,
        "`" * 200_000,
        "@" * 250_000,
    ):
        answer = daemon.ask("POST", "/send", body={"to": "@review", "message": text, "project": str(daemon.project)})
        assert answer.status in {200, 422}  # what is not linear takes minutes, and there would be no answer
    assert daemon.alive()


GET = b"GET /projects HTTP/1.1\r\nHost: HERE\r\n"
POST = b"POST /send HTTP/1.1\r\nHost: HERE\r\n"
REST = b" HTTP/1.1\r\nHost: HERE\r\nAuthorization: Bearer TOKEN\r\nConnection: close\r\n\r\n"
HEADS = {
    "a header of 100 KB": GET + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "a header without end": GET + b"X: " + b"x" * 5_000_000,
    "a name of 100 KB": GET + b"x" * 100_000 + b": 1\r\n\r\n",
    "10,000 headers": GET + b"X: 1\r\n" * 10_000 + b"\r\n",
    "a path of 100 KB": b"GET /" + b"x" * 100_000 + REST,
    "HTTP/1.0": b"GET /projects" + REST.replace(b"/1.1", b"/1.0"),
    "HTTP/0.9": b"GET /projects\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.7": b"GET /projects" + REST.replace(b"/1.1", b"/3.7"),
    "another language": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a made-up method": b"STEAL /projects" + REST,
    "CONNECT": b"CONNECT evil.example:80" + REST,
    "TRACE": b"TRACE /projects" + REST,
    "bytes in the path": b"GET /\xff\xfe" + REST,
    "a folded header": GET + b"X: a\r\n b\r\n\r\n",
    "a space before the colon": b"GET /projects HTTP/1.1\r\nHost : HERE\r\n\r\n",
    "a bad chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a huge chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n12345",
    "an odd encoding": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_D5p_broken_heads_are_refused(daemon: Served, name: str) -> None:
    request = HEADS[name].replace(b"HERE", daemon.here.encode())
    answer = daemon.raw(request.replace(b"TOKEN", daemon.client.found.token.encode()))
    assert 400 <= answer.status < 500, answer
    assert daemon.alive()


def test_D5p_of_requests_in_a_row_each_is_judged_by_itself(daemon: Served) -> None:
    right = daemon.head("GET", "/projects") + b"\r\n"
    wrong = daemon.head("GET", "/projects", token="wrong") + b"\r\n"
    foreign = daemon.head("GET", "/projects", host="evil.example") + b"\r\n"
    with daemon.connect() as connection:
        connection.sendall(right + right + wrong + right)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
        assert [parse_answer(b"HTTP/1.1 " + each).status for each in received.split(b"HTTP/1.1 ")[1:]] == [
            200,
            200,
            401,
        ]
    with daemon.connect() as connection:
        connection.sendall(right + foreign)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
        assert received.count(b"HTTP/1.1 200") == received.count(b"HTTP/1.1 421") == 1


def test_a_path_that_leads_out_is_no_path(daemon: Served) -> None:
    """What can be put into one argument does not become another route."""
    for name in ("../shutdown", "/shutdown", "x/../../shutdown"):
        answer = daemon.ask("POST", f"/agents/{quote(name, safe='')}/pause", body={"project": str(daemon.project)})
        assert 400 <= answer.status < 500
    assert daemon.alive()
