"""Every door that is reached over the network, and every attack on each: a row for each pair, so that none is missing.

What each door does beside is in its own file; here only what is so of all of them.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests import stored
from tests.doors.public import FORM, HOST, port_of, public
from tests.doors.test_hooks import CHECK, SECRET, github, pull
from tests.patience import PATIENCE
from tests.shells.served import Served, served

JSON = "application/json"
ASK = {"model": "alice", "messages": [{"role": "user", "content": "hello"}]}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
CALL["params"] = {"name": "agent_send", "arguments": {"to": "alice", "message": "hello"}}
HOOK = json.dumps(pull(7)).encode()


@dataclass(frozen=True)
class Door:
    """A request that would be heard, were there not something wrong with it."""

    method: str
    path: str
    body: bytes
    kind: str = JSON
    is_public: bool = False


DOORS = {
    "openai": Door("POST", "/v1/chat/completions", json.dumps(ASK).encode()),
    "mcp": Door("POST", "/mcp", json.dumps(CALL).encode()),
    "metrics": Door("GET", "/metrics", b""),
    "model": Door("POST", "/model/chat/completions", b"{}"),
    "hooks": Door("POST", "/hooks/project/github", HOOK, is_public=True),
    "answers": Door("POST", "/answer/item", b"secret=x&action=answer&text=y", FORM, is_public=True),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("doors")
    public(tmp / "home")
    with served(tmp, {"HOOK_SECRET": SECRET}) as made:
        (made.project / ".workflows" / "check.yaml").write_text(CHECK)
        made.do("POST", "/trust")
        yield made


@pytest.fixture(scope="module")
def keys(daemon: Served) -> dict[str, str]:
    """What opens each door."""
    made = {name: str(daemon.do("POST", "/tokens", name=name, door=name)["token"]) for name in ("openai", "metrics")}
    return made | {"mcp": daemon.client.found.token, "model": "", "hooks": "", "answers": ""}


def sent(daemon: Served, door: Door, key: str, *, host: str = "", body: bytes | None = None, **headers: str) -> int:
    """The status of the answer."""
    port = port_of(daemon) if door.is_public else daemon.client.found.port
    known = {"Host": host or (HOST if door.is_public else daemon.here), "Accept": "application/json, text/event-stream"}
    known |= {"Authorization": f"Bearer {key}"} if key else {}
    known |= {"Content-Type": door.kind} if door.method == "POST" else {}
    if door.path.startswith("/hooks"):
        known |= github(door.body)
    known |= {name.replace("_", "-"): value for name, value in headers.items()}
    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        wire.request(door.method, door.path, door.body if body is None else body, known)
        return wire.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        return 413  # it was not read to its end
    finally:
        wire.close()


def done(daemon: Served) -> tuple[int, int]:
    """How much has come of anything that was sent."""
    return len(daemon.read(stored.instructions)), len(daemon.read(stored.hook_deliveries))


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Upgrade": "h2c"},
    ],
    ids=lambda headers: "-".join(headers),
)
def test_a_web_page_reaches_no_door(daemon: Served, keys: dict[str, str], name: str, headers: dict[str, str]) -> None:
    before = done(daemon)
    assert sent(daemon, DOORS[name], keys[name], **headers) in (400, 403, 421)
    assert done(daemon) == before


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.method == "POST"])
def test_what_is_too_large_is_not_read(daemon: Served, keys: dict[str, str], name: str) -> None:
    before = done(daemon)
    large = b"x" * (65 * 1024 * 1024 if name == "model" else 5 * 1024 * 1024)
    assert sent(daemon, DOORS[name], keys[name], body=large) in (401, 413)
    assert done(daemon) == before


@pytest.mark.parametrize("name", [name for name, door in DOORS.items() if door.method == "POST"])
def test_what_a_form_of_another_page_can_send_is_no_request(daemon: Served, keys: dict[str, str], name: str) -> None:
    before = done(daemon)
    for kind in ("text/plain", "multipart/form-data; boundary=x"):
        assert sent(daemon, DOORS[name], keys[name], Content_Type=kind) in (401, 415)
    assert done(daemon) == before


@pytest.mark.parametrize("name", [name for name in DOORS if name not in ("hooks", "answers")])
def test_no_door_opens_for_what_opens_another(daemon: Served, keys: dict[str, str], name: str) -> None:
    """Nobody is talked into doing by one door what another was meant for."""
    before = done(daemon)
    others = [key for each, key in keys.items() if each != name and key]
    for key in ("", "wrong", SECRET, *others):
        assert sent(daemon, DOORS[name], key) in (401, 403, 404), key
    assert done(daemon) == before


@pytest.mark.parametrize("name", ["hooks", "answers"])
def test_no_token_opens_what_is_public(daemon: Served, keys: dict[str, str], name: str) -> None:
    before = done(daemon)
    unsigned = {"X_Hub_Signature_256": "sha256=" + "0" * 64} if name == "hooks" else {}
    for key in (key for key in keys.values() if key):
        assert sent(daemon, DOORS[name], key, **unsigned) in (401, 409)
    assert done(daemon) == before


def test_each_door_opens_for_its_own_key_so_that_these_rows_can_fail(daemon: Served, keys: dict[str, str]) -> None:
    assert sent(daemon, DOORS["openai"], keys["openai"]) == 200
    assert sent(daemon, DOORS["metrics"], keys["metrics"]) == 200
    assert sent(daemon, DOORS["mcp"], keys["mcp"]) == 200
    assert sent(daemon, DOORS["hooks"], "") == 202
    assert sent(daemon, DOORS["hooks"], "") == 202, "said to be the same"
    assert len(daemon.read(stored.hook_deliveries)) == 1, "and done once"
    assert sent(daemon, DOORS["answers"], "") == 409, "there is no such link"
