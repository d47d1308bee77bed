"""Whoever reaches the public listener and wants more of a webhook than it may do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests import stored
from tests.doors.public import HOST, port_of, public, reach
from tests.doors.test_hooks import CHECK, GROUP, SECRET, github, pull
from tests.shells.served import Answer, Served, served

from agent_worker.daemon.http.public import LARGEST_HOOK

JSON = "application/json"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("hooks")
    public(tmp / "home")
    with served(tmp, {"HOOK_SECRET": SECRET}) as made:
        for name in ("check", "other"):
            text = CHECK if name == "check" else CHECK.replace("  github:", "  other:")
            (made.project / ".workflows" / f"{name}.yaml").write_text(text + GROUP)
        made.do("POST", "/trust")
        yield made


@pytest.fixture(scope="module")
def port(daemon: Served) -> int:
    return port_of(daemon)


def post(port: int, body: bytes, path: str = "/hooks/project/github", **headers: str) -> Answer:
    kind = headers.pop("kind", JSON)
    host = headers.pop("host", HOST)
    signed = {name.replace("-", "_"): value for name, value in github(body).items()}
    return reach(port, "POST", path, body, host=host, kind=kind, **signed | headers)


def taken(daemon: Served) -> int:
    return len(daemon.read(stored.hook_deliveries))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"Origin": f"http://{HOST}"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 403),
        ({"kind": "application/x-www-form-urlencoded"}, 415),
        ({"kind": "text/plain"}, 415),
        ({"Upgrade": "h2c"}, 400),
        ({"X_Hub_Signature_256": github(b"{}", "another-secret-as-long")["X-Hub-Signature-256"]}, 401),
    ],
)
def test_a_right_body_is_not_enough(daemon: Served, port: int, headers: dict[str, str], status: int) -> None:
    before = taken(daemon)
    assert post(port, json.dumps(pull(1)).encode(), **headers).status == status
    assert taken(daemon) == before


def test_a_webhook_chooses_no_project_workflow_or_trust(daemon: Served, port: int) -> None:
    body = json.dumps(pull(2, project="/", workflow="other", tag="main", trust=True, model="x/y")).encode()
    answer = post(port, body)
    assert (answer.status, answer.json["accepted"][0]["workflow"]) == (202, "check:pr-2")
    other = [path for path in ("/hooks/../project/github", "/hooks/project/../github")]
    for path in (*other, "/hooks/nowhere/github", "/hooks/project/nothing", f"/hooks/{daemon.project}/github"):
        assert post(port, json.dumps(pull(3)).encode(), path).status in (401, 404), path
    assert [row["workflow"] for row in daemon.read(stored.hook_deliveries, tag="pr-3")] == []


def test_the_tokens_of_the_daemon_sign_nothing(daemon: Served, port: int) -> None:
    token = daemon.client.found.token
    by_token = {"Authorization": f"Bearer {token}", "X_Hub_Signature_256": "sha256=00"}
    assert post(port, json.dumps(pull(4)).encode(), **by_token).status == 401
    with_token = github(b"{}", token)["X-Hub-Signature-256"]
    assert post(port, b"{}", X_Hub_Signature_256=with_token).status == 401
    body = json.dumps(pull(4)).encode()
    headers = [f"{name}: {value}" for name, value in github(body).items()]
    answer = daemon.ask("POST", "/hooks/project/github", *headers, body=body, token=None)
    assert answer.status == 401, "the daemon's own port takes no webhooks"


def test_what_is_too_large_is_not_read(daemon: Served, port: int) -> None:
    body = json.dumps(pull(5, "x" * LARGEST_HOOK)).encode()
    assert post(port, body).status == 413
    assert daemon.alive()


def test_the_secret_is_in_no_answer_log_or_table(daemon: Served, port: int) -> None:
    answer = post(port, json.dumps(pull(6, f"I know {SECRET}")).encode())
    assert answer.status == 202
    assert SECRET not in answer.body.decode()
    assert SECRET not in daemon.log()
    assert SECRET not in repr(daemon.read(stored.everything))
