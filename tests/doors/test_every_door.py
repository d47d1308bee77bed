"""One daemon and all that speaks with it: programs of others, each in its own words, and a webhook that outlives it.

Beside the tests of each door this one shows that they stand side by side: the same team is asked by all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests import stored
from tests.backends.programs.world import model_api
from tests.doors.public import HOST, answer, port_of, public, reach
from tests.doors.test_hooks import SECRET, github, pull
from tests.doors.test_openai import library, token
from tests.doors.test_outbox import receiver, wants
from tests.fakes.model_protocols import Answer, Ask, Json
from tests.needs import NPM, PYPI, needs
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, daemon_command, kill_daemon, served
from tests.shells.test_tasks_client import LIBRARIES
from tests.shells.test_tasks_client import PROGRAM as TASKS_CLIENT

from agent_worker.client.connection import connect

LLM, CLAUDE, ACPX = PYPI / "bin/llm", NPM / ".bin/claude", NPM / ".bin/acpx"
INSPECTOR = NPM / "@modelcontextprotocol/inspector-cli/build/index.js"
OURS = (sys.executable, "-P", "-m", "agent_worker.cli")
TEAM = """agents: { alice: { ref: alice }, bob: { ref: bob } }
desk: alice
workspace: { provider: sqlite }
"""
ASKS = "script: [{ call: { tool: ask_user, with: { question: Which?, options: [a, b] } } }, { say: b it is }]\n"
CHECK = """
agents:
  tess:
    backend: mock
    script: [{ call: [{ tool: ask_user, with: { question: "merge it?" } }] }, { say: "reviewed and merged" }]
workspace: { provider: sqlite }
params: [{ name: number }]
kickoff: "@tess please review ${{ params.number }}"
triggers:
  github: { secret: $HOOK_SECRET, params: { number: pull_request.number }, group: "pr-${{ params.number }}" }
"""

pytestmark = needs(
    "llm, from PyPI; acpx, claude, the MCP Inspector and the libraries for tasks, from npm",
    there=shutil.which("node") is not None
    and all(each.exists() for each in (LLM, CLAUDE, ACPX, INSPECTOR, *LIBRARIES)),
)


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[str, list[Any]]]:
    """Where the person is told elsewhere what waits for them."""
    with receiver() as found:
        yield found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, told: tuple[str, list[Any]]) -> Iterator[Served]:
    tmp = tmp_path_factory.mktemp("doors")
    public(tmp / "home")
    wants(tmp / "home", phone={"to": "webhook", "url": told[0]})
    with served(tmp, {"HOOK_SECRET": SECRET}) as made:
        (made.project / ".workflows" / "review.yaml").write_text(TEAM)
        (made.project / ".workflows" / "check.yaml").write_text(CHECK)
        for name in ("asks", "waits"):
            (made.project / ".agents" / f"{name}.yaml").write_text(f"backend: mock\n{ASKS}")
        made.do("POST", "/trust")
        made.do("POST", "/workflows", workflow="review")
        yield made


def run(daemon: Served, *command: str | Path, **env: str) -> str:
    known = os.environ | {"AGENT_WORKER_HOME": str(daemon.home), "HOME": str(daemon.home.parent)} | env
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=PATIENCE, cwd=daemon.project)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def heard(daemon: Served) -> list[str]:
    """What was said to the team, by whatever door."""
    lines = daemon.client.request("GET", daemon.query("/messages?at=@review"))[1]
    return [line["text"] for line in lines if line["sender"] == "user"]


def test_llm_and_openais_library_ask_the_team(daemon: Served, tmp_path: Path) -> None:
    key = token(daemon)
    entry = f'- model_id: "@review"\n  model_name: "@review"\n  api_base: http://{daemon.here}/v1\n'
    (tmp_path / "extra-openai-models.yaml").write_text(f"{entry}  api_key_name: agent-worker\n")
    said = run(daemon, LLM, "--key", key, "-m", "@review", "from llm", LLM_USER_PATH=str(tmp_path))
    assert said.strip() == "alice: I have looked at this: from llm"
    with library(daemon, key) as client:
        assert client.responses.create(model="@review", input="from openai").output_text.endswith("from openai")
    assert {"from llm", "from openai"} <= set(heard(daemon))


def test_acpx_asks_the_team(daemon: Served) -> None:
    command = shlex.join([*OURS, "acp", "@review"])
    said = run(daemon, ACPX, "--format", "quiet", "--agent", command, "exec", "@bob from acpx")
    assert said.strip() == "**bob:** I have looked at this: bob from acpx"


async def test_two_clients_of_mcp_ask_the_team(daemon: Served) -> None:
    env = {"AGENT_WORKER_HOME": str(daemon.home), "PATH": os.environ["PATH"]}
    bridge = StdioServerParameters(command=OURS[0], args=[*OURS[1:], "mcp"], env=env, cwd=daemon.project)
    async with Client(stdio_client(bridge)) as client:
        called = await client.call_tool("agent_ask", {"agent": "@review", "message": "from the library"})
    assert called.structured_content["woke"] == ["alice"]
    method = ("--method", "tools/call", "--tool-name", "agent_ask")
    given = ("--tool-arg", "agent=@review", "message=from the inspector")
    shown = await asyncio.to_thread(run, daemon, "node", INSPECTOR, *OURS, "mcp", *method, *given)
    assert "from the inspector" in shown
    assert {"from the library", "from the inspector"} <= set(heard(daemon))


def test_a_client_of_mcp_that_knows_tasks_asks_agents(daemon: Served) -> None:
    agents = {"alice": "asks", "bob": "waits"}
    program = TASKS_CLIENT.read_text()
    for name, there in agents.items():
        program = program.replace(f'agent: "{name}"', f'agent: "{there}"')
    (daemon.project / "client.mjs").write_text(program)
    url, key = f"http://{daemon.here}/mcp", daemon.client.found.token
    found = json.loads(run(daemon, "node", daemon.project / "client.mjs", NPM, url, key, daemon.project))
    assert found["outcome"]["data"]["text"] == "b it is"
    assert found["second"] == {"kind": "task", "status": "cancelled"}


def test_claude_code_asks_the_team_once_it_is_connected(daemon: Served) -> None:
    """As a person does it: `connect`, and then their words to Claude Code, whose model is played."""

    def mind(body: Json) -> Answer:
        offered = [each["name"] for each in body.get("tools", ())]
        tool = next((name for name in offered if name.endswith("agent_ask")), "")
        results = [part for message in body["messages"] for part in _parts(message) if part["type"] == "tool_result"]
        if results or not tool:
            return Answer(f"The team says: {json.dumps(results)}")
        return Answer("", (Ask(tool, {"agent": "@review", "message": "from claude"}, "call_1"),))

    run(daemon, *OURS, "connect", "claude", "--yes", PATH=f"{Path(OURS[0]).parent}{os.pathsep}{os.environ['PATH']}")
    with model_api() as model:
        model.mind = mind
        asked = ("-p", "ask my team", "--allowedTools", "mcp__agent-worker__agent_ask", "--output-format", "json")
        env = {
            "ANTHROPIC_BASE_URL": model.url("think"),
            "ANTHROPIC_API_KEY": "sk-of-nobody",
            "ENABLE_TOOL_SEARCH": "false",
            # By itself it asks its model without our tools when they are not there at once.
            "MCP_CONNECT_TIMEOUT_MS": str(round(PATIENCE * 1000)),
            "MCP_CONNECTION_NONBLOCKING": "false",
            "MCP_TIMEOUT": str(round(PATIENCE * 1000)),
        }
        path = f"{Path(OURS[0]).parent}{os.pathsep}{os.environ['PATH']}"
        said = json.loads(run(daemon, CLAUDE, *asked, PATH=path, **env))["result"]
    assert "I have looked at this: from claude" in said
    assert "from claude" in heard(daemon)


def _parts(message: Json) -> list[Json]:
    return [part for part in message["content"] if isinstance(part, dict)] if message["role"] == "user" else []


def test_a_webhook_starts_a_review_whose_question_is_answered_from_a_phone_though_the_daemon_was_killed(
    daemon: Served, told: tuple[str, list[Any]]
) -> None:
    body = json.dumps(pull(7)).encode()
    headers = {name.replace("-", "_"): value for name, value in github(body).items()}
    kind = "application/json"
    sent = reach(port_of(daemon), "POST", "/hooks/project/github", body, kind=kind, host=HOST, **headers)
    assert sent.status == 202
    assert eventually(lambda: daemon.read(stored.inbox, kind="question", state="open"))
    listens = daemon.log().count("listening for webhooks")
    kill_daemon(daemon.home, daemon.client.found)
    before = len(daemon.read(stored.workspaces, workflow="check"))
    connect(home=daemon.home, command=daemon_command(HOOK_SECRET=SECRET), patience=PATIENCE)
    assert eventually(lambda: daemon.log().count("listening for webhooks") > listens)
    again = reach(port_of(daemon), "POST", "/hooks/project/github", body, kind=kind, host=HOST, **headers)
    assert json.loads(again.body)["accepted"][0]["does"] == "repeated"
    assert len(daemon.read(stored.workspaces, workflow="check")) == before
    link = _link(daemon, told[1])
    assert answer(port_of(daemon), link, action="answer", text="yes").status == 200
    assert eventually(lambda: daemon.read(stored.messages, text="reviewed and merged"))
    assert answer(port_of(daemon), link, action="answer", text="no").status == 409, "a link works once"


def _link(daemon: Served, told: list[Any]) -> str:
    """The secret of the link in the notification of the question."""

    def found() -> list[str]:
        items = [item for _, body in told for item in json.loads(body)["items"] if "merge it?" in item["text"]]
        return [item["link"].partition("#")[2] for item in items]

    secrets = eventually(found)
    assert secrets, [body for _, body in told]
    return str(secrets[-1])
