"""N5, N6: what a daemon that holds secrets shows of them, at every door: routes, streams, page, command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.attacks.insider import Insider
from tests.patience import eventually
from tests.shells.served import Served, follow, served
from tests.shells.terminal import Terminal

from agent_worker.daemon.web.views import VIEWS
from agent_worker.service.catalogue import OPERATIONS

#: In the daemon's environment, under names that say so and under one that only a definition gives away.
HELD = {
    "DEPLOY_TOKEN": "canary-of-the-deployment",
    "MY_OWN": "canary-of-an-endpoint",
    "ANTHROPIC_API_KEY": "canary-anthropic",
}
#: Written into files of the project by somebody who should not have.
KEY = "sk-" + "ant-api03-" + "Ab3dE-_f" * 6
WRITTEN = {"key": KEY, "password": "canary-in-an-address", "argument": "ghp_" + "a1B2" * 9}
EVERY = (*HELD.values(), *WRITTEN.values())

TALKER = """\
backend: mock
script:
  - call: { tool: memory_write, with: { key: k, value: "it is canary-of-the-deployment" } }
  - say: "the key is canary-of-the-deployment, or canary-of-an-endpoint, I think"
  - fail: permanent
"""
ENDPOINT = """\
backend: sdk
model: anthropic/claude-sonnet-5-5
provider: { name: anthropic, base_url: "http://127.0.0.1:9", api_key: $MY_OWN }
prompt: { system: You work. }
"""
SERVERS = f"""\
backend: mock
mcp_servers:
  near: {{ command: ["no-such-program", "--token", "{WRITTEN["argument"]}"] }}
"""
BROKEN = {
    "literal": f"backend: sdk\nmodel: anthropic/x\nprovider: {{ api_key: {KEY} }}\nprompt: {{ system: x }}\n",
    "address": f"backend: sdk\nmodel: a/x\nprovider: {{ base_url: 'https://bob:{WRITTEN['password']}@h/' }}\n",
    "far": f"backend: mock\nmcp_servers: {{ far: {{ url: 'http://bob:{WRITTEN['password']}@127.0.0.1:9/' }} }}\n",
    "unknown": f"backend: mock\napi_key: {KEY}\n",
    "misplaced": f"backend: mock\nenv: {{ TOKEN: {KEY} }}\n",
    "number": f"backend: mock\nmax_steps: {KEY}\n",
    "backend": f"backend: {KEY}\n",
    "yaml": f"backend: mock\n  api_key: {KEY}\n",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("secrets"), HELD, fresh=True, alice=TALKER) as made:
        for name, text in {"keyed": ENDPOINT, "served": SERVERS, **BROKEN}.items():
            (made.project / ".agents" / f"{name}.yaml").write_text(text)
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="review")
        yield made


@pytest.fixture(scope="module")
def used(daemon: Served) -> Served:
    """Everybody has worked, or failed to."""
    for to in ("alice@review", "alice@review", "keyed", "served"):
        daemon.do("POST", "/send", to=to, message=f"use {HELD['DEPLOY_TOKEN']} and {KEY}")
    assert eventually(lambda: not daemon.read(stored.unfinished)), daemon.read(stored.instructions)
    return daemon


def leaks(text: str) -> list[str]:
    return [secret for secret in EVERY if secret in text]


def addresses(daemon: Served) -> Iterator[str]:
    """Every question that can be asked, about what there is."""
    first = daemon.read(stored.runs)[0]
    run, agent = first["id"], first["name"]
    message = daemon.read(stored.messages)[0]["id"]
    known = {"run": run, "message": message, "instance": "review", "target": "alice", "number": "1", "id": "0" * 64}
    known |= {"name:path": "notes.md", "note": "x.md"}
    paths = [each.path for each in OPERATIONS.values() if each.method == "GET" and not each.is_stream]
    for path in [*paths, *(view.path for view in VIEWS)]:
        names = ("alice", "keyed", "served", "literal") if "{name}" in path else (agent,)
        for name in names:
            filled = path.replace("{name}", name)
            for key, value in known.items():
                filled = filled.replace(f"{{{key}}}", value)
            if "{" not in filled:
                yield (
                    f"{filled}?at=@review"
                    if any(w in path for w in ("doc", "rev", "chan", "res", "prop", "mess"))
                    else filled
                )


def test_N6_no_route_and_no_page_shows_a_secret(used: Served) -> None:
    shown = {path: used.ask("GET", used.query(path)) for path in addresses(used)}
    assert sum(answer.status == 200 for answer in shown.values()) > 25
    assert {path: leaks(answer.body.decode()) for path, answer in shown.items() if leaks(answer.body.decode())} == {}
    assert not [path for path, answer in shown.items() if answer.status >= 500]


COMMANDS = [
    *(("agent", "info", "keyed"), ("agent", "info", "literal"), ("agent", "memory", "alice"), ("daemon", "logs")),
    *(("status",), ("providers",), ("validate",), ("doctor",), ("inbox",), ("peek", "@review"), ("export", "@review")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_N6_no_command_shows_a_secret(used: Served, command: tuple[str, ...]) -> None:
    terminal = Terminal(used)
    shown = terminal.run(*command, **HELD)
    assert leaks(shown.stdout + shown.stderr) == []
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/send", {"to": KEY, "message": "hi"}),
        ("POST", "/send", {"to": "alice", "message": "hi", KEY: "x"}),
        ("GET", f"/agents/{KEY}", None),
        ("POST", "/agents", {"name": "new", "backend": KEY}),
        ("PATCH", "/agents/alice", {"changes": {"provider": {"api_key": KEY}}}),
        ("PATCH", "/agents/alice", {"changes": {"env": [KEY]}}),
        ("POST", "/workflows", {"workflow": KEY}),
        ("PUT", "/schedules/alice", {"wakeup": KEY, "prompt": "x"}),
        ("GET", f"/{KEY}", None),
    ],
)
def test_N6_no_error_says_a_secret_again(used: Served, method: str, path: str, body: dict[str, Any] | None) -> None:
    given = None if body is None else {"project": str(used.project)} | body
    answer = used.ask(method, used.query(path) if body is None else path, body=given)
    assert 400 <= answer.status < 500, answer
    assert leaks(answer.body.decode()) == []


def test_N6_nor_does_the_mcp_door(used: Served) -> None:
    person = Insider(used, used.client.found.token)
    assert leaks(person.refused("agent_send", to=KEY, message="hi", project=str(used.project))) == []


def test_N5_nothing_that_is_kept_or_told_holds_a_secret(used: Served, tmp_path: Path) -> None:
    kept = [path for path in (*used.home.rglob("*"), *used.project.rglob("*")) if path.is_file()]
    written = [path for path in kept if path.parent.name != ".agents"]  # those are what somebody wrote
    found = [(path, leaks(path.read_bytes().decode("latin-1"))) for path in written]
    assert [(path, secrets) for path, secrets in found if secrets] == []
    assert "[redacted:secret]" in "".join(path.read_bytes().decode("latin-1") for path in written)
    connection, events = follow(used, used.query("/events?after=beginning"))
    with connection:
        told = json.dumps([event for event, _ in zip(events, range(20), strict=False)])
    assert leaks(told) == []


def test_N5_live_text_holds_none_either(daemon: Served) -> None:
    (daemon.project / ".agents" / "live.yaml").write_text(TALKER)
    body = {"project": str(daemon.project), "agent": "live", "message": "go"}
    answer = daemon.ask("POST", "/run", body=body)
    assert b"event: chunk" in answer.body
    assert leaks(answer.body.decode()) == []


def test_N5_the_log_holds_none_when_a_tool_prints_logs_or_breaks_over_one(daemon: Served) -> None:
    lines = [
        "import logging",
        "def leak(text: str) -> str:",
        "    'Tell everybody.'",
        "    print('printed', text)",
        "    logging.getLogger('tool').warning('logged %s', text)",
        "    try:",
        "        raise RuntimeError('raised ' + text)",
        "    except RuntimeError:",
        "        logging.getLogger('tool').exception('caught')",
        "    raise RuntimeError('failed ' + text)",
    ]
    (daemon.project / "tools.py").write_text("\n".join(lines))
    script = f"script: [{{ call: {{ tool: leak, with: {{ text: {HELD['MY_OWN']} }} }} }}, {{ say: so it is }}]\n"
    (daemon.project / ".agents" / "eve.yaml").write_text(f"backend: mock\ntools: ['./tools.py:leak']\n{script}")
    daemon.do("POST", "/trust")
    daemon.do("POST", "/send", to="eve", message="go")
    for told in ("printed", "logged", "RuntimeError: raised"):
        assert eventually(lambda told=told: f"{told} [redacted:secret]" in daemon.log()), told
    failed = eventually(lambda: daemon.read(stored.calls, tool="leak", ok=0))
    assert "RuntimeError: failed [redacted:secret]" in failed[0]["result"]
    assert leaks(daemon.log()) == []
