"""Whoever has a door token, or none, at the door of OpenAI's clients: one door, one project, and only who was named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.attacks.insider import AGENT, environ_with_insider, holding
from tests.shells.served import ROUTES, Answer, Served, served

from agent_worker.daemon.http.request_guard import LARGEST_BODY

DOOR = (
    ("GET", "/v1/models"),
    ("GET", "/v1/models/alice"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("GET", "/v1/responses/resp_x"),
    ("GET", "/v1/nothing"),
)
HELLO = {"model": "bob", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("door")
    with served(tmp, environ_with_insider(tmp), alice=AGENT) as made:
        made.do("POST", "/trust")
        yield made


@pytest.fixture(scope="module")
def key(daemon: Served) -> str:
    return made(daemon, "everything")


def made(daemon: Served, name: str, **how: Any) -> str:
    return str(daemon.do("POST", "/tokens", name=name, **how)["token"])


def ask(daemon: Served, key: str | None, **body: Any) -> Answer:
    return daemon.ask("POST", "/v1/chat/completions", body=HELLO | body, token=key)


def test_a_door_token_opens_its_door_and_nothing_else(daemon: Served, key: str) -> None:
    assert ask(daemon, key).status == 200
    for method, path in ROUTES:
        answer = daemon.ask(method, daemon.query(path), token=key)
        assert (answer.status, answer.json["error"]["code"]) == (403, "forbidden"), (method, path)


def test_no_other_token_opens_the_door(daemon: Served) -> None:
    with holding(daemon, "alice", "insider") as insider:
        for method, path in DOOR:
            for wrong in (None, "awdoor_" + "x" * 43, "%00"):
                assert daemon.ask(method, path, token=wrong).status == 401, (path, wrong)
            assert daemon.ask(method, path, token=insider.token).status == 403
            assert daemon.ask(method, path).status == 403, "nor does that of the daemon: it is for no project"


@pytest.mark.parametrize("header", ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site", "Upgrade: h2c"])
def test_another_web_page_gets_nothing_even_with_a_token(daemon: Served, key: str, header: str) -> None:
    before = len(daemon.read(stored.instructions))
    assert daemon.ask("POST", "/v1/chat/completions", header, body=HELLO, token=key).status in (400, 403)
    assert daemon.ask("POST", "/v1/chat/completions", body=HELLO, token=key, host="evil.example").status == 421
    assert daemon.ask("POST", "/v1/chat/completions", body=HELLO, token=key, kind="text/plain").status == 415
    assert len(daemon.read(stored.instructions)) == before


def test_a_token_for_one_agent_does_not_know_of_others(daemon: Served) -> None:
    key = made(daemon, "bob only", opens=["BOB"])
    listed = daemon.ask("GET", "/v1/models", token=key).json["data"]
    assert [model["id"] for model in listed] == ["bob"]
    for hidden in ("alice", "@review", "@review:main", "alice@review", "bob@review", "@alice:x", "@alice"):
        refused, absent = ask(daemon, key, model=hidden), ask(daemon, key, model="nobody")
        assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found"), hidden
        assert refused.json["error"]["code"] == absent.json["error"]["code"], "nor that they are there"
    assert ask(daemon, key).status == 200
    assert ask(daemon, key, user="s").status == 200, "its sessions are its own"
    assert ask(daemon, key, model="@bob:s").status == 200


def test_an_answer_that_a_token_does_not_open_cannot_be_had_by_its_id(daemon: Served, key: str) -> None:
    secret = daemon.ask("POST", "/v1/responses", body={"model": "@review", "input": "@bob x", "user": "s"}, token=key)
    id = secret.json["id"]
    assert daemon.ask("GET", f"/v1/responses/{id}", token=key).status == 200
    narrow = made(daemon, "narrow", opens=["bob"])
    assert daemon.ask("GET", f"/v1/responses/{id}", token=narrow).status == 404
    body = {"model": "bob", "input": "go on", "previous_response_id": id}
    assert daemon.ask("POST", "/v1/responses", body=body, token=narrow).status == 400


def test_a_token_is_for_one_project(daemon: Served, tmp_path: Path) -> None:
    other = daemon.beside(tmp_path / "other")
    (other.project / ".agents" / "carol.yaml").write_text("backend: mock\n")
    key = made(other, "there")
    assert ask(daemon, key, model="carol").status == 200
    mine = daemon.ask("POST", "/v1/responses", body={"model": "bob", "input": "x"}, token=made(daemon, "here"))
    assert daemon.ask("GET", f"/v1/responses/{mine.json['id']}", token=key).status == 404
    assert ask(daemon, made(daemon, "here too"), model="carol").status == 404


def test_a_revoked_token_is_worth_nothing_at_once(daemon: Served) -> None:
    key = made(daemon, "short")
    assert ask(daemon, key).status == 200
    daemon.client.request("DELETE", daemon.query("/tokens/short"))
    assert ask(daemon, key).status == 401


def test_a_token_whose_time_is_up_is_worth_nothing(daemon: Served) -> None:
    assert ask(daemon, made(daemon, "brief", days=1e-9)).status == 401


def test_a_token_is_kept_nowhere(daemon: Served, key: str) -> None:
    assert ask(daemon, key, messages=[{"role": "user", "content": f"my token is {key}"}]).status == 200
    assert key not in str(daemon.read(stored.everything))
    assert key not in daemon.log()
    listed = daemon.client.request("GET", daemon.query("/tokens"))[1]
    assert key not in str(listed)
    for path in daemon.home.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path


def test_what_is_too_large_or_no_request_is_refused(daemon: Served, key: str) -> None:
    large = b'{"model": "' + b"x" * (LARGEST_BODY + 1) + b'"}'
    assert daemon.ask("POST", "/v1/chat/completions", body=large, token=key).status == 413
    for wrong in (b"[]", b"{", b"null", b'{"model": "bob", "model": "bob"}', b'{"model": NaN}', b'"\\ud800"'):
        for path in ("/v1/chat/completions", "/v1/responses"):
            answer = daemon.ask("POST", path, body=wrong, token=key)
            assert (answer.status, "message" in answer.json["error"]) == (400, True), wrong
    too_long = [{"role": "user", "content": "x" * 300_000}]
    assert ask(daemon, key, messages=too_long).status == 400


@pytest.mark.parametrize("name", ["", "x" * 61, "two\nlines", "everything"])
def test_a_token_has_a_name_of_its_own(daemon: Served, key: str, name: str) -> None:
    assert daemon.ask("POST", "/tokens", body={"name": name, "project": str(daemon.project)}).status == 422


@pytest.mark.parametrize("who", ["nobody", "@nothing", "../alice", "@review:main"])
def test_a_token_cannot_be_made_for_who_is_not_there(daemon: Served, who: str) -> None:
    body = {"name": "for nobody", "opens": [who], "project": str(daemon.project)}
    answer = daemon.ask("POST", "/tokens", body=body)
    assert (answer.status, "hint" in answer.json["error"]) in ((404, True), (422, True))
