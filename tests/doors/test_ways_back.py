"""Every way from inside a run back to the product: what an agent asks so counts for the request that it works on.

| way | request and hops go on |
| a command, the Python API, the bridge to MCP, an editor's door | yes: each says which run it comes from |
| a program that speaks OpenAI's API | if it sends the same header |
| a webhook | no: it is a request of its own, and the money of the day bounds it (test_hooks.py) |
| the token of a run | it opens none of this |
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests import stored
from tests.doors.test_openai import token
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served

from agent_worker.core.errors import AgentWorkerError

INNER = """agents: { bob: { ref: bob } }
kickoff: "@bob begin"
desk: bob
workspace: { provider: sqlite }
"""
ELECTS = """agents: { bob: { ref: bob }, carol: { ref: carol } }
kickoff: "@bob begin"
workspace: { provider: sqlite, document_owner: elect }
"""
#: An agent whose command, outside any sandbox, runs a workflow.
SHELL = """backend: mock
tools: [{ name: bash, unsafe: true }]
script:
  - call: [{ tool: bash, with: { command: COMMAND } }]
  - say: it is done
"""
OURS = (sys.executable, "-P", "-m", "agent_worker.cli")
PYTHON = """
from agent_worker import connect
with connect() as workers:
    print(workers.ask_sync("bob", "hello"))
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("ways")) as made:
        for name, text in {"inner": INNER, "elects": ELECTS}.items():
            (made.project / ".workflows" / f"{name}.yaml").write_text(text)
        home = f"AGENT_WORKER_HOME={made.home}"
        for name, workflow in {"shell": "inner", "itself": "own"}.items():
            command = f"cd {made.project} && {home} {' '.join(OURS)} run {workflow}"
            (made.project / ".agents" / f"{name}.yaml").write_text(SHELL.replace("COMMAND", json.dumps(command)))
        (made.project / ".agents" / "carol.yaml").write_text("backend: mock\n")
        own = INNER.replace("bob", "itself")
        (made.project / ".workflows" / "own.yaml").write_text(own)
        made.do("POST", "/trust")
        yield made


@pytest.fixture
def outer(daemon: Served) -> dict[str, Any]:
    """A run of an agent that may have started something."""
    daemon.do("POST", "/serve", agent="alice", message="work on this")
    return dict(daemon.read(stored.runs, name="alice")[-1])


def came_of(daemon: Served, run: dict[str, Any]) -> list[tuple[str, int]]:
    """Whom the request of a run has reached besides its own agent, and how far away from it."""
    names = {row["id"]: row["name"] for row in daemon.read(stored.agents)}
    found = daemon.read(stored.instructions, root=run["root"])
    return sorted((names[row["agent"]], row["hop"]) for row in found if row["agent"] != run["agent"])


WAYS: dict[str, dict[str, Any]] = {
    "/send": {"to": "bob", "message": "hi"},
    "/serve": {"workflow": "inner", "tag": "served"},
    "/workflows": {"workflow": "inner", "tag": "started"},
    "/workflows/run": {"workflow": "inner", "tag": "run"},
    "/tickets/ask": {"agent": "bob", "message": "hi"},
    "/tickets/run": {"workflow": "inner", "tag": "ticket"},
    "/tickets/team": {"agents": ["bob"], "message": "hi"},
    "/sessions": {"who": "@inner", "session": "acp-x"},
}


@pytest.mark.parametrize("path", WAYS)
def test_what_an_agent_starts_by_a_command_goes_on_from_its_request(
    daemon: Served, outer: dict[str, Any], path: str
) -> None:
    daemon.do("POST", path, cause=outer["id"], **WAYS[path])
    assert came_of(daemon, outer) == [("bob", 1)]


def test_a_team_that_is_started_again_goes_on_too(daemon: Served, outer: dict[str, Any]) -> None:
    daemon.do("POST", "/workflows", workflow="inner", tag="again")
    daemon.do("POST", "/workflows/inner:again/restart", cause=outer["id"])
    assert came_of(daemon, outer) == [("bob", 1)]


def test_a_team_made_up_on_the_spot_goes_on_too(daemon: Served, outer: dict[str, Any]) -> None:
    agents = {"quick": {"backend": "mock", "prompt": {"system": "be quick"}}}
    daemon.do("POST", "/serve", agents=agents, message="hi", trust=True, cause=outer["id"])
    (tally,) = daemon.read(stored.tallies, scope="root", key=outer["root"])
    assert tally["runs"] == 2, "all else of it is gone with it"


def test_a_team_that_elects_first_goes_on_after_the_vote(daemon: Served, outer: dict[str, Any]) -> None:
    daemon.do("POST", "/workflows", workflow="elects", cause=outer["id"])
    daemon.do("POST", "/workflows/elects/wait")
    assert came_of(daemon, outer) == [("bob", 1), ("bob", 1), ("carol", 1)], "the votes, then the work"
    (proposal,) = daemon.read(stored.proposals, root=outer["root"])
    assert proposal["hop"] == 1


def test_what_it_costs_is_counted_for_the_request(daemon: Served, outer: dict[str, Any]) -> None:
    daemon.do("POST", "/workflows/run", workflow="inner", tag="counted", cause=outer["id"])
    (tally,) = daemon.read(stored.tallies, scope="root", key=outer["root"])
    assert tally["runs"] == 2


def test_workflows_that_start_each_other_come_to_an_end(daemon: Served, outer: dict[str, Any]) -> None:
    run = outer["id"]
    for hop in range(1, 24):
        daemon.do("POST", "/workflows/run", workflow="inner", tag="loop", cause=run)
        last = daemon.read(stored.runs, root=outer["root"])[-1]
        assert daemon.read(stored.instructions, id=last["instruction"])[0]["hop"] == hop
        run = last["id"]
    with pytest.raises(AgentWorkerError, match="24 hops away from the request that began it: it is not passed on"):
        daemon.do("POST", "/workflows/run", workflow="inner", tag="loop", cause=run)


def test_a_command_of_a_shell_says_where_it_comes_from(daemon: Served) -> None:
    daemon.do("POST", "/serve", agent="shell", message="go")
    outer = daemon.read(stored.runs, name="shell")[-1]
    assert came_of(daemon, outer) == [("bob", 1)]


def test_an_agent_that_runs_a_team_it_is_called_on_in_is_told_that_it_would_wait_for_itself(daemon: Served) -> None:
    served = daemon.do("POST", "/serve", agent="itself", message="go")
    assert served["state"] == "done"
    told = "".join(row["result"] for row in daemon.read(stored.calls))
    assert "itself is at work on this very request, and would wait for itself" in told


def test_the_bridge_to_mcp_says_it(daemon: Served, outer: dict[str, Any]) -> None:
    call = {"name": "workflow_run", "arguments": {"workflow": "inner", "tag": "bridge"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    env = os.environ | {"AGENT_WORKER_HOME": str(daemon.home), "AGENT_WORKER_RUN": outer["id"]}
    done = subprocess.run(
        (*OURS, "mcp"),
        input=json.dumps(asked) + "\n",
        env=env,
        cwd=daemon.project,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert json.loads(done.stdout)["result"]["structuredContent"]["state"] == "done", done.stdout
    assert came_of(daemon, outer) == [("bob", 1)]


def test_a_command_cannot_say_that_it_comes_from_another_run(daemon: Served, outer: dict[str, Any]) -> None:
    daemon.do("POST", "/serve", agent="alice", message="something else")
    other = dict(daemon.read(stored.runs, name="alice")[-1])
    asked = {"agent": "bob", "message": "hi", "cause": other["id"], "project": str(daemon.project)}
    answer = daemon.ask("POST", "/serve", f"X-Agent-Worker-Run: {outer['id']}", body=asked)
    assert answer.status == 200, answer
    assert (came_of(daemon, outer), came_of(daemon, other)) == ([("bob", 1)], [])


def test_the_python_api_says_it(daemon: Served, outer: dict[str, Any]) -> None:
    env = os.environ | {"AGENT_WORKER_HOME": str(daemon.home), "AGENT_WORKER_RUN": outer["id"]}
    python = (sys.executable, "-P", "-c", PYTHON)
    done = subprocess.run(python, env=env, cwd=daemon.project, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert came_of(daemon, outer) == [("bob", 1)]


@pytest.mark.parametrize("model", ["bob", "@inner", "@inner:kept"])
def test_a_program_that_speaks_openais_api_may_say_it(daemon: Served, outer: dict[str, Any], model: str) -> None:
    question = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    headers = ("Authorization: Bearer " + token(daemon, f"ways-{model[-4:]}"), f"X-Agent-Worker-Run: {outer['id']}")
    answer = daemon.ask("POST", "/v1/chat/completions", *headers, body=question, token=None)
    assert answer.status == 200, answer
    eventually(lambda: came_of(daemon, outer) and {hop for _, hop in came_of(daemon, outer)} == {1})
