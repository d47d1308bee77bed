"""C5, C6, W12, W13: how the page comes to its token, and what it lets nobody else do."""

from __future__ import annotations

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.shells.served import Served, served
from tests.web.browser import Browser, Visit, code_of, needs_chromium, visit, wait

from agent_worker.daemon.http.request_guard import LASTING
from agent_worker.daemon.web.site import STRANGERS
from agent_worker.daemon.web.views import VIEWS


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("login")) as made:
        yield made


@needs_chromium
def test_C5_a_code_opens_the_page_and_leaves_no_trace(guest: Visit) -> None:
    page = guest.open()
    code = page.evaluate(
        "JSON.stringify([location.href, document.cookie, Object.entries(localStorage), history.state])"
    )
    assert "code=" not in code
    assert page.context.cookies() == []
    assert page.locator("#side").get_by_role("link", name="alice").count() == 1
    token = page.evaluate("sessionStorage.getItem('agent-worker-token')")
    assert len(token) >= 43
    assert token != guest.daemon.client.found.token
    assert token not in guest.daemon.log()


@needs_chromium
def test_C5_a_code_is_taken_once(browser: Browser, guest: Visit) -> None:
    code = code_of(guest.daemon)
    address = f"http://{guest.daemon.here}/#code={code}"
    guest.page.goto(address)
    guest.page.wait_for_selector("#side .panel")
    with visit(browser, guest.daemon) as second:
        second.page.goto(address)
        told = second.page.locator("#door .told")
        wait(second.page, "() => document.querySelector('#door .told').textContent")
        assert "was used, or is older than a minute" in told.inner_text()
        assert "agent-worker web" in told.inner_text()
        assert second.page.locator("#side .panel").count() == 0


def test_C5_only_the_person_may_ask_for_a_code(daemon: Served) -> None:
    assert daemon.ask("POST", "/page/code", token=None).status == 401
    for wrong in ({}, {"code": "guess"}, {"code": 1}, {"code": "x" * 3000}):
        assert daemon.ask("POST", "/page/login", token=None, body=wrong).status in {401, 422}
    assert daemon.ask("POST", "/page/login", token=None, body={"code": "x" * 5000}).status == 413


def files_of_the_page(daemon: Served) -> set[str]:
    frame = daemon.ask("GET", "/", token=None).body.decode()
    found = set(re.findall(r'"(/page/\w{16}/[\w.]+)"', frame))
    known = {each.rpartition("/")[2] for each in STRANGERS} - {"", "login"}
    assert {each.rpartition("/")[2] for each in found} == known
    return found


def test_C5_a_stranger_gets_the_frame_and_nothing_in_it(daemon: Served) -> None:
    for path in ("/", *files_of_the_page(daemon)):
        answer = daemon.ask("GET", path, token=None)
        assert answer.status == 200, path
        for secret in (b"alice", str(daemon.project).encode(), daemon.client.found.token.encode()):
            assert secret not in answer.body, path
    for view in VIEWS:
        assert daemon.ask("GET", view.path, token=None).status == 401


def test_a_browser_keeps_the_files_of_the_page_and_nothing_else(daemon: Served) -> None:
    for path in ("/", *files_of_the_page(daemon)):
        kept = dict(daemon.ask("GET", path, token=None).headers)["cache-control"]
        assert kept == ("no-store" if path == "/" else LASTING), path
    for view in VIEWS:
        assert dict(daemon.ask("GET", view.path).headers)["cache-control"] == "no-store", view.path


def test_C6_the_page_may_load_only_what_is_ours(daemon: Served) -> None:
    headers = dict(daemon.ask("GET", "/", token=None).headers)
    policy = headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
        assert rule in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'; trusted-types agent-worker" in policy
    assert "set-cookie" not in headers


def test_views_are_data_and_never_pages(daemon: Served) -> None:
    answer = daemon.ask("GET", "/page/home")
    headers = dict(answer.headers)
    assert headers["content-type"] == "application/json"
    assert "sandbox" in headers["content-security-policy"]


@needs_chromium
@pytest.mark.parametrize("more", ["?gatewayUrl=http://evil.example", "?apiBase=//evil.example", "?code=x"])
def test_W12_the_page_takes_no_address_from_its_url(guest: Visit, more: str) -> None:
    guest.page.goto(f"http://{guest.daemon.here}/{more}#apiBase=http://evil.example")
    wait(guest.page, "() => document.querySelector('#door').open")
    guest.page.goto(f"http://{guest.daemon.here}/{more}#code={code_of(guest.daemon)}")
    guest.page.wait_for_selector("#side .panel")  # and no request went elsewhere: the fixture looks


@needs_chromium
def test_W13_the_page_cannot_be_framed(browser: Browser, daemon: Served) -> None:
    class Frame(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<iframe src='http://{daemon.here}/'></iframe>".encode())

        def log_message(self, *_: object) -> None:
            pass

    other = http.server.HTTPServer(("127.0.0.1", 0), Frame)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    try:
        with visit(browser, daemon) as stranger:
            stranger.page.goto(f"http://127.0.0.1:{other.server_port}/")
            stranger.page.wait_for_load_state("load")
            framed = stranger.page.frames[-1]
            assert framed.query_selector("#door") is None
    finally:
        other.shutdown()
        other.server_close()


def test_the_command_prints_an_address_that_opens_the_page(daemon: Served) -> None:
    environ = {**os.environ, "AGENT_WORKER_HOME": str(daemon.home)}
    command = [sys.executable, "-m", "agent_worker.cli", "web", "--json"]
    done = subprocess.run(command, env=environ, cwd=daemon.project, capture_output=True, text=True, check=True)
    address = json.loads(done.stdout)["address"]
    assert address.startswith(f"http://{daemon.here}/#code=")
    answer = daemon.ask("POST", "/page/login", token=None, body={"code": address.partition("#code=")[2]})
    assert answer.status == 200
    assert daemon.ask("GET", "/page/home", token=answer.json["token"]).status == 200
