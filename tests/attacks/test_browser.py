"""W: a page in the user's browser, another local port, a name that was made to point here. Against every door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from tests.patience import eventually
from tests.shells.served import ROUTES, Answer, Served, served

READS = [path for method, path in ROUTES if method == "GET"]
STREAMS = ("/events", "/values/x")
#: One of each sort, for the finer shades of an attack that was tried everywhere.
DOORS = [("GET", "/projects"), ("POST", "/send"), ("GET", "/events"), ("POST", "/mcp"), ("DELETE", "/agents/x")]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("browser")) as made:
        yield made


def everywhere(daemon: Served, *headers: str, allowed: set[int], **how: object) -> None:
    """The same attack on every door: refused each time, and nothing has changed."""
    before = daemon.state()
    refused(daemon, ROUTES, *headers, allowed=allowed, **how)
    assert daemon.state() == before
    assert daemon.alive()


def refused(daemon: Served, doors: Sequence[tuple[str, str]], *headers: str, allowed: set[int], **how: object) -> None:
    for method, path in [*doors, ("GET", "/health")]:
        answer = daemon.ask(method, path, *headers, **how)
        assert answer.status in allowed, (method, path, answer)
        assert not [name for name, _ in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("token", ["", None])
def test_W1_a_rebound_name_is_refused(daemon: Served, token: str | None) -> None:
    everywhere(daemon, host="evil.example", token=token, allowed={421})


@pytest.mark.parametrize(
    "host",
    [
        "localhost.",
        "localhost",
        "127.0.0.1",
        "127.0.0.1.evil.example",
        "127.0.0.1:1",
        "127.0.0.1:PORT@evil.example",
        "127.0.0.1:PORT.evil.example",
        "127.0.0.1:x",
        "127.0.0.1:0PORT",
        "LOCALHOST:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "[::1]:PORT",
        "0.0.0.0:PORT",
        "2130706433:PORT",
        None,
    ],
)
def test_W2_only_the_exact_names_pass(daemon: Served, host: str | None) -> None:
    port = str(daemon.client.found.port)
    refused(daemon, DOORS, host=host and host.replace("PORT", port), allowed={400, 421})


def test_W2_two_hosts_are_none(daemon: Served) -> None:
    refused(daemon, DOORS, f"Host: {daemon.here}", allowed={400, 421})
    everywhere(daemon, "Host: evil.example", allowed={400, 421})


@pytest.mark.parametrize("target", ["http://evil.example/projects", "http://HERE/projects", "*", "projects", "//"])
def test_W2_the_target_is_a_path_and_nothing_else(daemon: Served, target: str) -> None:
    assert daemon.ask("GET", target.replace("HERE", daemon.here)).status in {400, 404, 421}


def test_W2_both_right_names_pass(daemon: Served) -> None:
    for name in ("127.0.0.1", "localhost"):
        assert daemon.ask("GET", "/projects", host=f"{name}:{daemon.client.found.port}").status == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",  # W3
        "null",  # W4
        "",
        "http://127.0.0.1:PORT.evil.example",  # W5
        "http://localhost:PORTevil",
        "http://LOCALHOST:PORT/",
        "http://127.0.0.1:PORT/",
        "https://127.0.0.1:PORT",
        "http://localhost:PORT",  # ours, but not the one that was asked
        "http://localhost:3000",  # W6
        "http://127.0.0.1:3000",
    ],
)
def test_W3_W4_W5_W6_another_origin_is_refused_with_a_valid_token(daemon: Served, origin: str) -> None:
    refused(daemon, DOORS, f"Origin: {origin.replace('PORT', str(daemon.client.found.port))}", allowed={403})


def test_W3_another_origin_is_refused_everywhere(daemon: Served) -> None:
    everywhere(daemon, "Origin: http://evil.example", allowed={403})


def test_W3_two_origins_are_refused(daemon: Served) -> None:
    everywhere(daemon, f"Origin: http://{daemon.here}", "Origin: http://evil.example", allowed={403})


@pytest.mark.parametrize("site", ["same-site", "cross-site", "", "Same-Origin", "none, none"])
def test_W6_a_request_of_another_site_is_refused(daemon: Served, site: str) -> None:
    refused(daemon, DOORS, f"Sec-Fetch-Site: {site}", allowed={403})


def test_W6_a_request_of_another_site_is_refused_everywhere(daemon: Served) -> None:
    everywhere(daemon, "Sec-Fetch-Site: same-site", allowed={403})


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_W6_our_own_page_may_ask(daemon: Served, site: str) -> None:
    answer = daemon.ask("GET", "/projects", f"Origin: http://{daemon.here}", f"Sec-Fetch-Site: {site}")
    assert answer.status == 200


@pytest.mark.parametrize("token", ["", None])
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonp",
        "",
        None,
    ],
)
def test_W7_what_a_form_can_send_is_no_write(daemon: Served, kind: str | None, token: str | None) -> None:
    before = daemon.state()
    body = b'{"to": "alice", "message": "hi"}'
    for method, path in ROUTES:
        if method in ("POST", "PUT", "PATCH"):
            assert daemon.ask(method, path, body=body, kind=kind, token=token).status in {401, 415}, path
    assert daemon.state() == before


def test_W8_there_is_no_cors_in_any_answer(daemon: Served) -> None:
    asking = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization")
    answers = []
    for path in {path for _, path in ROUTES}:
        answers.append(daemon.ask("OPTIONS", path, f"Origin: http://{daemon.here}", *asking))
        answers.append(daemon.ask("OPTIONS", path, "Origin: http://evil.example", *asking, token=None))
    answers += [daemon.ask("GET", "/projects"), daemon.ask("POST", "/send"), daemon.ask("GET", "/health", token=None)]
    assert {answer.status for answer in answers} <= {200, 401, 403, 404, 405, 422}
    for answer in answers:
        assert not [name for name, _ in answer.headers if name.startswith("access-control-")]


def test_W9_reading_changes_nothing(daemon: Served) -> None:
    before = daemon.state()
    for path in READS:
        if path not in STREAMS:
            assert daemon.ask("GET", daemon.query(path)).status in {200, 404, 405, 409, 422}, path
            assert daemon.ask("HEAD", daemon.query(path)).status in {404, 405}, path
    assert daemon.ask("HEAD", "/events").status == 405
    assert daemon.state() == before


@pytest.mark.parametrize("name", ["token", "access_token", "TOKEN", "%74oken"])
def test_W10_a_token_in_an_address_is_refused_and_not_logged(daemon: Served, name: str) -> None:
    secret = "canary-" + "5f3a" * 10
    for method, path in ROUTES:
        for token in ("", None):
            answer = daemon.ask(method, f"{path}?a=b&{name}={secret}", token=token)
            assert answer.status == 400, (path, answer)
            assert secret.encode() not in answer.body
    right = daemon.client.found.token
    assert daemon.ask("GET", f"/projects?token={right}", token=None).status == 400
    assert secret not in daemon.log()
    assert right not in daemon.log()


UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")


def test_W11_there_is_no_websocket(daemon: Served) -> None:
    before = len(daemon.process.net_connections())
    for path in {path for _, path in ROUTES}:
        answer = daemon.raw(daemon.head("GET", path, *UPGRADE, "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==") + b"\r\n")
        assert answer.status == 400, path
    for number in range(500):
        key = f"Sec-WebSocket-Key: {'!' * (number % 50)}"
        answer = daemon.raw(daemon.head("GET", "/events", *UPGRADE, key) + b"\r\n\x81\xfe\xff\xff")
        assert answer.status == 400
    assert eventually(lambda: connections(daemon.process) <= before)


def connections(process: psutil.Process) -> int:
    return len([c for c in process.net_connections() if c.status == psutil.CONN_ESTABLISHED])


def test_W13_nothing_can_be_framed_sniffed_kept_or_read_across_origins(tmp_path: Path) -> None:
    doors = [(method, path) for method, path in ROUTES if path not in (*STREAMS, "/shutdown")]
    with served(tmp_path) as daemon:  # one of its own: some of what is asked for here is done
        answers: list[Answer] = [daemon.ask(method, path) for method, path in doors]
        answers.append(daemon.ask("GET", "/projects", token=None))
    for answer in answers:
        headers = dict(answer.headers)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "set-cookie" not in headers


def test_X5_what_was_stored_is_never_a_page(daemon: Served) -> None:
    daemon.do("POST", "/workflows", workflow="review", tag="pages")
    evil = "<script>alert(1)</script>"
    daemon.client.request(
        "PUT", "/documents/evil.html", {"at": "review:pages", "text": evil, "project": str(daemon.project)}
    )
    answer = daemon.ask("GET", daemon.query("/documents/evil.html?at=review:pages"))
    headers = dict(answer.headers)
    assert answer.json["text"] == evil
    assert headers["content-type"] == "application/json"
    assert "sandbox" in headers["content-security-policy"]


def test_W14_health_tells_nothing(daemon: Served) -> None:
    answer = daemon.ask("GET", "/health", token=None)
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert {name for name, _ in answer.headers} <= {
        "date",
        "connection",
        "content-length",
        "content-type",
        "content-security-policy",
        "x-content-type-options",
        "referrer-policy",
        "cache-control",
        "cross-origin-resource-policy",
    }


def test_a_request_that_was_refused_is_answered_at_once(daemon: Served) -> None:
    """It is not waited for the body, which never comes: that would end with 408."""
    head = daemon.head("POST", "/send", "Content-Length: 1000", token=None)
    assert daemon.raw(head + b"\r\n").status == 401
