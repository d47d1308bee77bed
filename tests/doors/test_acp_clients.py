"""Programs of others at our door of ACP: `acpx`, and one that uses the protocol's TypeScript library."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import NPM, needs
from tests.patience import PATIENCE
from tests.shells.served import Served, served

ACPX = NPM / ".bin" / "acpx"
SDK = NPM / "@agentclientprotocol" / "sdk" / "dist" / "v1" / "stable" / "acp.js"
PROGRAM = Path(__file__).with_name("acp_client.mjs")
OURS = (sys.executable, "-P", "-m", "agent_worker.cli", "acp")
CAREFUL = """backend: mock
tools: [{ name: write_file, approve: true }]
script:
  - call: [{ tool: write_file, with: { path: note.txt, text: hi } }]
  - say: it is done
"""
TEAM = """agents: { alice: { ref: alice }, bob: { ref: bob }, careful: { ref: careful } }
desk: alice
workspace: { provider: sqlite }
"""

pytestmark = needs("acpx and @agentclientprotocol/sdk, from npm", there=ACPX.exists() and SDK.exists())


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        (made.project / ".agents" / "careful.yaml").write_text(CAREFUL)
        (made.project / ".workflows" / "review.yaml").write_text(TEAM)
        made.do("POST", "/trust")
        yield made


def run(daemon: Served, *command: str | Path) -> str:
    env = os.environ | {"AGENT_WORKER_HOME": str(daemon.home), "HOME": str(daemon.home.parent)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, cwd=daemon.project)
    assert done.returncode == 0, done.stderr
    return done.stdout


def acpx(daemon: Served, who: str, *arguments: str) -> str:
    return run(daemon, ACPX, "--format", "quiet", "--agent", shlex.join([*OURS, who] if who else OURS), *arguments)


def test_acpx_asks_an_agent_and_a_team(daemon: Served) -> None:
    assert acpx(daemon, "alice", "exec", "hello").strip() == "I have looked at this: hello"
    told = acpx(daemon, "", "--model", "@review", "exec", "@bob is it good?")
    assert told.strip() == "**bob:** I have looked at this: bob is it good?"


def test_acpx_goes_on_with_a_session_in_which_a_member_is_approved(daemon: Served) -> None:
    acpx(daemon, "@review", "sessions", "new")
    try:
        assert "it is done" in acpx(daemon, "@review", "--approve-all", "prompt", "@careful go")
        assert (daemon.project / "note.txt").exists()
        assert "**alice:**" in acpx(daemon, "@review", "prompt", "and now?")
        (session,) = daemon.client.request("GET", daemon.query("/sessions"))[1]
        assert session["title"] == "@careful go", "both were said in one session of ours"
        lines = daemon.client.request("GET", daemon.query(f"/messages?at={session['at']}"))[1]
        assert [line["text"] for line in lines if line["who"] == "user"] == ["@careful go", "and now?"]
    finally:
        acpx(daemon, "@review", "sessions", "close")


def test_the_protocols_own_library_is_told_asked_and_shown_it_again(daemon: Served) -> None:
    node = shutil.which("node")
    assert node, "npm is here, and node is not"
    told = json.loads(run(daemon, node, PROGRAM, SDK, daemon.project, "@review", *OURS))
    assert told["greeting"]["agentInfo"]["name"] == "agent-worker"
    assert told["asked"] == [
        {"title": "@careful wants to use write_file", "options": ["once", "run", "always", "deny"]}
    ]
    assert (told["first"]["stopReason"], told["second"]["stopReason"]) == ("end_turn", "end_turn")
    kinds = [update["sessionUpdate"] for update in told["updates"]]
    assert {"agent_thought_chunk", "tool_call", "tool_call_update", "agent_message_chunk"} <= set(kinds)
    again = [update["content"]["text"] for update in told["updates"] if update["sessionUpdate"] == "user_message_chunk"]
    assert again == ["@careful go", "hello"], "what was said, told again as the session was loaded"
    assert told["sessions"] == ["@review: @careful go"]
