"""The doors of the daemon without a socket: what a request may hold twice, how much is read, what a run leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from agent_worker.client.connection import _failed_start
from agent_worker.core.errors import BadInput
from agent_worker.core.events import Bus, Ended, Retrying
from agent_worker.core.redaction import Redactor
from agent_worker.daemon.http import routes
from agent_worker.daemon.http.asgi import Message, Receive, Send
from agent_worker.daemon.http.request_guard import LARGEST_BODY, Admin, RequestGuard, Tokens
from agent_worker.daemon.http.routes import arguments, explained
from agent_worker.daemon.mcp.hints import _CallerBus
from agent_worker.daemon.mcp.run_tokens import RunTokens
from agent_worker.doors import errors as door_errors
from agent_worker.doors.errors import BadRequest
from agent_worker.tools.tool import RunIdentity

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
BEARER = (b"authorization", f"Bearer {TOKEN}".encode())
HOST = (b"host", b"127.0.0.1:1")
JSON = (b"content-type", b"application/json")
SEAT = RunIdentity("a_1", "alice", "p_1", "r_1", "m_1", 0)


async def asked(*headers: tuple[bytes, bytes], path: str = "/x", pieces: tuple[bytes, ...] = (b"",)) -> tuple[int, int]:
    """Status, and how many pieces of the body were taken before there was an answer."""
    statuses: list[int] = []
    waiting = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    waiting[-1]["more_body"] = False
    taken = 0

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        assert scope["caller"] in (Admin(), None)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        nonlocal taken
        taken += not statuses
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "http_version": "1.1"}
    guard = RequestGuard(app, Tokens(TOKEN), "127.0.0.1", 1, {"/open": {"POST"}})
    await guard(scope | {"headers": list(headers)}, receive, send)
    return statuses[0], taken


async def test_W2_a_host_that_is_there_twice_is_none() -> None:
    assert (await asked(HOST, BEARER, JSON))[0] == 200
    assert (await asked(HOST, HOST, BEARER, JSON))[0] == 421
    assert (await asked(HOST, (b"host", b"evil.example"), BEARER, JSON))[0] == 421


async def test_W3_an_origin_that_is_there_twice_is_refused() -> None:
    ours, theirs = (b"origin", b"http://127.0.0.1:1"), (b"origin", b"http://evil.example")
    assert (await asked(HOST, BEARER, JSON, ours))[0] == 200
    assert (await asked(HOST, BEARER, JSON, ours, theirs))[0] == 403


async def test_U6_of_two_tokens_none_counts() -> None:
    wrong = (b"authorization", b"Bearer wrong")
    assert (await asked(HOST, JSON, BEARER, wrong))[0] == 401
    assert (await asked(HOST, JSON, BEARER, BEARER))[0] == 401


async def test_D1p_of_a_stranger_less_is_read_than_of_the_person() -> None:
    body = b"x" * 5000
    assert (await asked(HOST, BEARER, JSON, pieces=(body,)))[0] == 200
    assert (await asked(HOST, JSON, path="/open", pieces=(body,)))[0] == 413
    assert (await asked(HOST, JSON, path="/open", pieces=(body[:100],)))[0] == 200


async def test_D1p_a_body_that_is_longer_than_it_says_is_not_read_to_its_end() -> None:
    pieces = (b"x" * (LARGEST_BODY // 4),) * 8
    status, taken = await asked(HOST, BEARER, JSON, (b"content-length", b"10"), pieces=pieces)
    assert (status, taken) == (413, 5)


def request(query: str, body: object) -> Request:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/x", "headers": [], "path_params": {"id": "7"}}
    return Request(scope | {"query_string": query.encode()}, receive)


async def test_D3p_a_name_is_given_once_wherever_it_stands() -> None:
    assert await arguments(request("a=1", {"b": 2})) == {"id": "7", "a": "1", "b": 2}
    for query, body in (("a=1&a=2", {}), ("a=1", {"a": 2}), ("", {"id": 8}), ("", b'{"b": 1, "b": 2}')):
        with pytest.raises(BadRequest, match="twice"):
            await arguments(request(query, body))


@pytest.mark.parametrize(
    "value",
    ["x\0", "half \ud800 a pair", 2**63, float("inf"), {"\0": 1}, json.loads("[" * 70 + "]" * 70)],
    ids=["nothing", "half", "large", "endless", "name", "deep"],
)
async def test_D3p_what_cannot_be_stored_and_given_back_is_refused(value: object) -> None:
    with pytest.raises(BadRequest):
        await arguments(request("", {"a": value}))


def test_D8p_a_path_answers_to_its_one_method() -> None:
    async def answer(_: Request) -> Response:
        return Response()

    assert routes.route("GET", "/x", answer).methods == {"GET"}, "HEAD of a stream would never end"


def test_D8p_an_error_without_a_status_has_that_of_the_nearest_above_it() -> None:
    class Late(BadInput):
        code = "late"

    assert door_errors.status_of(Late("too late")) == door_errors.STATUS["bad_input"]


async def test_L10_who_is_refused_may_finish_sending_and_so_reads_why() -> None:
    pieces = [b"x"] * 5
    read: list[bytes] = []

    async def receive() -> Message:
        read.append(pieces[len(read)])
        return {"type": "http.request", "body": read[-1], "more_body": len(read) < len(pieces)}

    async def send(_: Message) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "http_version": "1.1"}
    await RequestGuard(send, Tokens(TOKEN), "127.0.0.1", 1)(scope | {"headers": [HOST, JSON]}, receive, send)  # type: ignore[arg-type]
    assert len(read) == len(pieces)


async def test_W8_W13_what_leaves_has_our_headers_and_lets_no_other_page_in() -> None:
    told: list[tuple[bytes, bytes]] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        headers = [(b"Access-Control-Allow-Origin", b"*"), (b"cache-control", b"public"), (b"x-mine", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        told.extend(message["headers"])

    scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "http_version": "1.1"}
    await RequestGuard(app, Tokens(TOKEN), "127.0.0.1", 1)(scope | {"headers": [HOST, JSON, BEARER]}, receive, send)
    assert not [name for name, _ in told if name.lower().startswith(b"access-control-")]
    assert [value for name, value in told if name == b"cache-control"] == [b"no-store"]
    assert (b"x-mine", b"1") in told


async def test_W10_a_token_in_an_address_is_refused() -> None:
    scope = {"type": "http", "method": "POST", "path": "/x", "http_version": "1.1", "headers": [HOST, JSON, BEARER]}
    for query, status in ((b"Access_Token=x", 400), (b"a=1&token=", 400), (b"a=token", 200)):
        assert await _status(scope | {"query_string": query}) == status


async def _status(scope: Message) -> int:
    statuses: list[int] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await RequestGuard(app, Tokens(TOKEN), "127.0.0.1", 1)(scope, receive, send)
    return statuses[0]


def test_C7_who_listens_for_a_run_is_told_to_stop_when_that_run_ends() -> None:
    bus, told = Bus(), list[str]()
    ear = _CallerBus(bus, SEAT)
    ear.at_end = lambda: told.append("the end")
    ear.subscribe(lambda _: told.append("a hint"))
    about: dict[str, Any] = {"workspace": None, "agent": "a_1", "name": "alice", "instruction": "i_1", "state": "done"}
    bus.publish(Ended(**about, run="r_2"))
    assert told == []
    bus.publish(Ended(**about, run="r_1"))
    assert told == ["the end"]


def test_a_start_that_failed_is_explained_by_what_was_logged_since_then(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_text("of last week\n")
    before = log.stat().st_size
    with log.open("a") as more:
        more.write("of this start\n")
    told = str(_failed_start(3, tmp_path, before))
    assert "of this start" in told
    assert "of last week" not in told


async def test_N6_an_error_is_told_without_the_secrets_in_it() -> None:
    async def refuses(_: Request) -> Response:
        raise BadInput(f"no such key: {TOKEN}", hint=f"not {TOKEN}")

    app = Starlette()
    app.state.redact = Redactor([TOKEN])
    answer = await explained(refuses)(Request({"type": "http", "method": "GET", "path": "/x", "app": app}))
    error = json.loads(bytes(answer.body))["error"]
    assert (error["message"], error["hint"]) == ("no such key: [redacted:secret]", "not [redacted:secret]")


@pytest.mark.parametrize("kind", [Ended, Retrying])
def test_C7_an_entry_of_a_program_ends_with_its_run(kind: type[Ended] | type[Retrying]) -> None:
    about: dict[str, Any] = {"workspace": None, "agent": "a_1", "name": "alice", "run": "r_1"}
    ended = Ended(**about, instruction="i_1", state="done")
    event = ended if kind is Ended else Retrying(**about, reason="", wait=1.0)
    entries = RunTokens(Tokens(TOKEN), "http://127.0.0.1:1")
    entries.identity_of = lambda run: SEAT
    entry = entries.open("r_1")
    bus = Bus()
    entries.follow(bus)
    bus.publish(event)
    entries.listed("r_1")
    assert not entry.listed.is_set()
