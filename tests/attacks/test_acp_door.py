"""At the door of editors: whoever speaks ACP there is the user, and gets no more than other commands give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from tests import stored
from tests.doors.editors import opened
from tests.patience import PATIENCE
from tests.shells.served import Served, served

from agent_worker.client.discovery import RUN_TOKEN
from agent_worker.doors.acp.pipes import LARGEST

pytestmark = pytest.mark.anyio

SECRET = "ghp_" + "a1B2" * 9
ESCAPES = f'backend: mock\nscript: [{{ say: "a\\e[2Jb {SECRET}" }}]\n'
CAREFUL = """backend: mock
tools: [{ name: write_file, approve: true }]
script:
  - call: [{ tool: write_file, with: { path: note.txt, text: hi } }]
  - say: it is done
"""
WILD = "backend: acp\ncommand: [./evil.sh]\naccess: full\nprompt: { system: x }\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("door")) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_WORKER_HOME", str(made.home))
        agents = made.project / ".agents"
        (agents / "escapes.yaml").write_text(ESCAPES)
        (agents / "careful.yaml").write_text(CAREFUL)
        made.client.request("GET", made.query("/agents"))
        yield made


async def test_an_agent_cannot_open_it_from_its_shell(daemon: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN_TOKEN, "the-token-of-a-run")
    async with opened(daemon) as door:
        for ask in (door.begin, lambda: door.agent.list_sessions(cwd=str(daemon.project))):
            with pytest.raises(RequestError, match="shell of an agent at work"):
                await ask()


@pytest.mark.parametrize("id", ["", "../alice", "acp-../../x", "@review:../x", "alice\n", "x" * 100_000, "@alice:\x00"])
async def test_a_session_is_known_by_its_id_and_nothing_else(daemon: Served, id: str) -> None:
    before = daemon.state()
    async with opened(daemon) as door:
        for ask in (
            door.agent.load_session(cwd=str(daemon.project), session_id=id, mcp_servers=[]),
            door.agent.resume_session(cwd=str(daemon.project), session_id=id, mcp_servers=[]),
            door.agent.close_session(session_id=id),
            door.prompt(id, "hello"),
        ):
            with pytest.raises(RequestError, match="there is no session"):
                await ask
    assert daemon.state() == before


async def test_a_session_is_of_one_project(daemon: Served, tmp_path: Path) -> None:
    other = daemon.beside(tmp_path / "other")
    async with opened(daemon) as door:
        session = await door.begin("alice")
        await door.prompt(session, "said here")
        there = [each.session_id for each in (await door.agent.list_sessions(cwd=str(other.project))).sessions]
        assert session not in there
        await door.agent.load_session(cwd=str(other.project), session_id=session, mcp_servers=[])
        assert "said here" not in door.editor.said("user_message_chunk"), "there it is one that has not begun"


async def test_a_door_for_one_opens_no_other(daemon: Served) -> None:
    async with opened(daemon) as door:
        with_bob = await door.begin("bob")
        await door.prompt(with_bob, "for bob alone")
    async with opened(daemon, "alice") as door:
        with pytest.raises(RequestError, match="there is no bob here"):
            await door.begin("bob")
        with pytest.raises(RequestError, match="there is no session bob"):
            await door.agent.load_session(cwd=str(daemon.project), session_id="bob", mcp_servers=[])
        await door.agent.load_session(cwd=str(daemon.project), session_id=with_bob, mcp_servers=[])
        assert not door.editor.said("user_message_chunk")


async def test_only_what_was_offered_is_an_answer(daemon: Served) -> None:
    async with opened(daemon) as door:
        door.editor.chooses = "approve-everything"
        session = await door.begin("careful")
        await door.prompt(session, "go")
        assert not (daemon.project / "note.txt").exists()
        (item,) = daemon.client.request("GET", daemon.query("/inbox"))[1]
        assert item["kind"] == "approval", "it waits for the person still"
        daemon.client.request("POST", f"/inbox/{item['id']}", {"action": "deny"})


async def test_what_an_agent_says_moves_no_cursor_and_tells_no_secret(daemon: Served) -> None:
    async with opened(daemon) as door:
        session = await door.begin("escapes")
        await door.prompt(session, f"my token is {SECRET}")
        assert "\x1b" not in door.editor.said()
        assert door.editor.said().startswith("a\\x1b[2Jb")
        assert SECRET not in door.editor.said()
    assert SECRET not in str(daemon.read(stored.everything))


async def test_what_was_not_approved_is_refused_with_the_command_that_approves(daemon: Served, tmp_path: Path) -> None:
    other = daemon.beside(tmp_path / "untrusted")
    (other.project / "evil.sh").write_text("#!/bin/sh\ntouch ran\n")
    (other.project / "evil.sh").chmod(0o755)
    (other.project / ".agents" / "wild.yaml").write_text(WILD)
    async with opened(other, "wild") as door:
        session = await door.begin()
        with pytest.raises(RequestError, match="agent-worker trust"):
            await door.prompt(session, "go")
    assert not (other.project / "ran").exists()


async def test_what_is_too_long_is_refused_and_asks_nobody(daemon: Served) -> None:
    before = len(daemon.read(stored.instructions))
    async with opened(daemon) as door:
        session = await door.begin("alice")
        with pytest.raises(RequestError, match="at most"):
            await door.prompt(session, "x" * 300_000)
        assert len(daemon.read(stored.instructions)) == before
        assert (await door.prompt(session, "hello")).stop_reason == "end_turn", "the door is still open"


GARBAGE = (
    b"not JSON\n",
    b"[1, 2]\n",
    b"\xff\xfe{}\n",
    b"[" * 5000 + b"]" * 5000 + b"\n",
    b'{"jsonrpc": "2.0", "id": 5, "method": "nobody/knows", "params": {}}\n',
    b'{"jsonrpc": "2.0", "id": 6, "method": "session/prompt", "params": [1]}\n',
    b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "x"}}\n',
    b'{"jsonrpc": "2.0", "id": 7, "result": {"to": "nothing"}}\n',
)


def test_garbage_ends_nothing_and_a_line_without_end_is_not_kept(daemon: Served) -> None:
    env = os.environ | {"AGENT_WORKER_HOME": str(daemon.home)}
    command = [sys.executable, "-P", "-m", "agent_worker.cli", "acp"]
    greeting: dict[str, Any] = {"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": 1}}
    asked = b"".join(GARBAGE) + json.dumps(greeting).encode() + b"\n"
    done = subprocess.run(command, input=asked, env=env, capture_output=True, timeout=PATIENCE, cwd=daemon.project)
    answers = {each.get("id"): each for each in map(json.loads, done.stdout.splitlines())}
    assert answers[9]["result"]["agentInfo"]["name"] == "agent-worker"
    assert {"error"} <= set(answers[5]) & set(answers[6])
    endless = subprocess.run(command, input=b"x" * (LARGEST + 1), env=env, capture_output=True, timeout=PATIENCE)
    assert not endless.stdout
    assert daemon.alive()


def test_typed_by_a_person_it_says_who_starts_it(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "agent_worker.cli", "acp"]
    given = tmp_path / "given"
    given.write_bytes(b"{}")
    for source in (Path(os.devnull), given):
        with source.open("rb") as input:
            done = subprocess.run(command, stdin=input, capture_output=True, timeout=PATIENCE, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[-1] == "  hint: agent-worker connect zed"
