"""An agent by itself that needs your approval: asked about where you meet it, approved, shown, and taken back."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.model_server import ModelServer
from tests.patience import PATIENCE
from tests.shells.terminal import Terminal, terminal_knowing

from agent_worker.core.errors import AgentWorkerError

KEY = "sk-canary-of-an-endpoint"


@pytest.fixture
async def lone(tmp_path: Path, server: ModelServer) -> AsyncIterator[Terminal]:
    """alice answers from an endpoint of the project's; bob is a mock that follows skills."""
    provider = f"provider: {{ name: mine, base_url: '{server.url('ok', '/v1')}', api_key: $MY_KEY }}\n"
    files = {
        "alice": f"backend: sdk\nmodel: mine/x\nprompt: {{ system: You are alice. }}\n{provider}",
        "bob": "skills: [tips]\n",
    }
    (tmp_path / "project" / "tips").mkdir(parents=True)
    (tmp_path / "project" / "tips" / "SKILL.md").write_text("---\nname: tips\ndescription: tips\n---\nbe kind\n")
    async with terminal_knowing(tmp_path, files, MY_KEY=KEY) as terminal:
        yield terminal


async def run(terminal: Terminal, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(terminal.run, *arguments)


def typed(terminal: Terminal, answer: str, *arguments: str) -> tuple[int, str]:
    """A command on a terminal, and the answer that the person types when it asks."""
    master, slave = pty.openpty()
    known = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(terminal.daemon.home), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "agent_worker.cli", *arguments]
    child = subprocess.Popen(
        command, cwd=terminal.daemon.project, env=known, stdin=slave, stdout=slave, stderr=slave, close_fds=True
    )
    os.close(slave)
    seen = b""
    try:
        while more := os.read(master, 65536):
            seen += more
            if b"[y/N]:" in seen and answer:
                os.write(master, f"{answer}\n".encode())
                answer = ""
    except OSError:
        pass  # its end
    os.close(master)
    return child.wait(timeout=PATIENCE), seen.decode()


async def test_what_an_agent_was_refused_is_said_before_anything_is_sent(lone: Terminal, server: ModelServer) -> None:
    for command in ("ask", "send"):
        refused = await run(lone, command, "alice", "hello")
        assert refused.returncode == 2
        assert "alice sends $MY_KEY to http://127.0.0.1" in refused.stderr
        assert "agent-worker trust" in refused.stderr
    assert lone.json("inbox") == [], "a retry could not have succeeded"
    assert server.requests == []


async def test_ask_takes_trust_and_does_not_need_it_again(lone: Terminal, server: ModelServer) -> None:
    answered = await run(lone, "ask", "alice", "hello", "--trust")
    assert (answered.returncode, answered.stdout.strip()) == (0, "All is well."), answered.stderr
    assert (await run(lone, "ask", "alice", "again")).returncode == 0
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    assert (await run(lone, "ask", "bob", "hello")).returncode == 2, "only alice was approved"


async def test_run_of_an_agent_and_serve_take_trust_too(lone: Terminal) -> None:
    answered = await run(lone, "run", "alice", "hello", "--trust")
    assert (answered.returncode, answered.stdout.strip()) == (0, "All is well."), answered.stderr
    served = await asyncio.to_thread(lone.daemon.do, "POST", "/serve", agent="bob", message="hi", trust=True)
    assert served["state"] == "done"


async def test_on_a_terminal_it_is_asked_and_no_is_no(lone: Terminal, server: ModelServer) -> None:
    code, seen = await asyncio.to_thread(typed, lone, "n", "ask", "alice", "hello")
    assert code == 2, "as where nobody can be asked"
    assert "you have not approved it, so nothing was done" in seen
    assert "hint: agent-worker trust" in seen
    assert "alice sends $MY_KEY to http://127.0.0.1" in seen
    assert server.requests == []
    code, seen = await asyncio.to_thread(typed, lone, "y", "ask", "alice", "hello")
    assert code == 0
    assert "All is well." in seen


async def test_an_answer_that_is_neither_is_asked_for_again_and_ctrl_c_says_that_nothing_was_done(
    lone: Terminal, server: ModelServer
) -> None:
    def interrupted() -> tuple[int, str]:
        with lone.on_screen("ask", "alice", "hello") as screen:
            screen.sees("Allow it, as it is now? [y/N]: ")
            screen.types("maybe")
            screen.sees("[y/N]: ", times=2)
            screen.interrupts()
            return screen.ends(), screen.shown

    code, seen = await asyncio.to_thread(interrupted)
    assert (code, seen.endswith("\nnothing was done\n"), "Error" in seen) == (130, True, False), seen
    assert "please answer y or n" in seen
    code, seen = await asyncio.to_thread(typed, lone, "n", "agent", "delete", "alice")
    assert (code, "alice was not deleted" in seen) == (2, True)
    assert server.requests == []


async def test_agents_of_a_request_are_approved_with_it_and_nobody_else_is(lone: Terminal) -> None:
    def serve(**more: object) -> Any:
        agents = {"ann": {"backend": "mock", "skills": ["tips"]}}
        return lone.daemon.do("POST", "/serve", agents=agents, message="hi", **more)

    with pytest.raises(AgentWorkerError, match="tips"):
        await asyncio.to_thread(serve)
    assert "hi" in (await asyncio.to_thread(serve, trust=True))["content"]
    assert "bob follows the skills in tips" in (await run(lone, "trust", "show", "bob")).stdout


async def test_trust_shows_approves_and_revokes_for_one_agent(lone: Terminal) -> None:
    assert (await run(lone, "trust", "show", "bob")).stdout.strip().startswith("bob follows the skills in tips")
    pending = json.loads((await run(lone, "trust", "bob", "--json")).stdout)
    assert [each["kind"] for each in pending] == ["skills"]
    assert (await run(lone, "trust", "bob", "--yes")).stdout == "approved: 1 item\n"
    assert (await run(lone, "ask", "bob", "hello")).returncode == 0
    listed = (await run(lone, "trust", "list")).stdout
    assert listed == "bob follows the skills in tips and may run what is in them\n"
    assert (await run(lone, "trust", "revoke", "bob")).stdout == "taken back: 1 approval\n"
    assert (await run(lone, "trust", "list")).stdout.startswith("you have approved nothing here")
    assert (await run(lone, "ask", "bob", "hello")).returncode == 2
    both = await run(lone, "trust", "revoke", "--yes")
    nobody = await run(lone, "trust", "carol")
    assert (both.returncode, nobody.returncode) == (2, 2)
    assert "there is no" in nobody.stderr
