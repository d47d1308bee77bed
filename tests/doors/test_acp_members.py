"""Members from anywhere: programs that speak ACP and take tools each in their own way, and a team as a member."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import stored
from tests.shells.served import Served, served

from agent_worker.core.errors import AgentWorkerError

FAKE = Path(__file__).parents[1] / "fakes" / "acp_tools_agent.py"
CAREFUL = """backend: mock
tools: [{ name: write_file, approve: true }]
script:
  - call: [{ tool: write_file, with: { path: NAME.txt, text: hi } }]
  - say: it is done
"""
WHO = "prompt: { system: You are one of us. }\n"
INNER = """agents: { bob: { ref: bob }, careful: { ref: careful }, bold: { ref: bold } }
desk: bob
workspace: { provider: sqlite }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("members")) as made:
        agents = made.project / ".agents"
        for how in ("forgets", "stdio", "refuses"):
            command = json.dumps([sys.executable, str(FAKE), how])
            (agents / f"{how}.yaml").write_text(f"backend: acp\ncommand: {command}\n{WHO}")
        ours = json.dumps([sys.executable, "-P", "-m", "agent_worker.cli", "acp", "@inner"])
        for name, access in {"team": "edit", "guarded": "edit", "reckless": "full"}.items():
            env = "env: [AGENT_WORKER_HOME]\n"
            (agents / f"{name}.yaml").write_text(f"backend: acp\ncommand: {ours}\naccess: {access}\n{env}{WHO}")
        itself = ours.replace("@inner", "mirror")
        (agents / "mirror.yaml").write_text(f"backend: acp\ncommand: {itself}\naccess: edit\n{env}{WHO}")
        for name in ("careful", "bold"):
            (agents / f"{name}.yaml").write_text(CAREFUL.replace("NAME", name))
        (made.project / ".workflows" / "inner.yaml").write_text(INNER)
        made.do("POST", "/trust")
        yield made


@pytest.mark.parametrize(("how", "way"), [("forgets", "OverHttp"), ("stdio", "ByProcess"), ("refuses", "ByProcess")])
def test_a_program_gets_our_tools_in_the_way_it_takes_them(daemon: Served, how: str, way: str) -> None:
    served = daemon.do("POST", "/serve", agent=how, message="hello")
    assert served["content"] == f"I have my tools: {way}"
    runs = daemon.client.request("GET", daemon.query(f"/runs?agent={how}"))[1]
    assert [run["state"] for run in runs] == ["done"]


def test_a_team_is_a_member_of_a_team(daemon: Served) -> None:
    served = daemon.do("POST", "/serve", agent="team", message="is it good?")
    assert served["content"].startswith("**bob:** I have looked at this: ")
    inner = [each for each in daemon.client.request("GET", daemon.query("/sessions"))[1] if each["who"] == "@inner"]
    assert inner[0]["at"].startswith("@inner:acp-"), "a session like any other"


@pytest.mark.parametrize(("outer", "inner", "written"), [("guarded", "careful", False), ("reckless", "bold", True)])
def test_what_an_inner_member_wants_approved_its_outer_agent_may_do_or_not(
    daemon: Served, outer: str, inner: str, written: bool
) -> None:
    """As of any program: what an agent may do was approved with its definition, and its access decides."""
    served = daemon.do("POST", "/serve", agent=outer, message=f"@{inner} go")
    assert served["content"].endswith("it is done")
    assert (daemon.project / f"{inner}.txt").exists() == written


def test_what_an_inner_team_does_counts_for_the_request_that_the_outer_agent_works_on(daemon: Served) -> None:
    daemon.do("POST", "/serve", agent="team", message="does it count?")
    outer = daemon.read(stored.instructions, text="does it count?")[-1]
    inner = daemon.read(stored.instructions, root=outer["root"])
    assert [(row["source"], row["hop"]) for row in inner] == [("dm", 0), ("channel", 1)]


def test_an_agent_that_would_wait_for_itself_is_refused_with_a_sentence(daemon: Served) -> None:
    with pytest.raises(AgentWorkerError, match="mirror is at work on this very request, and would wait for itself"):
        daemon.do("POST", "/serve", agent="mirror", message="who am I?")


@pytest.mark.parametrize("cause", ["r_nothing", "x" * 200, "", "a b"])
def test_a_cause_that_there_is_not_changes_nothing(daemon: Served, cause: str) -> None:
    served = daemon.do("POST", "/serve", agent="bob", message="hello", cause=cause)
    assert served["state"] == "done"


def test_what_has_come_too_far_is_refused_at_the_door(daemon: Served) -> None:
    """Each time one team has asked the next by a command, it is one hop more."""
    daemon.do("POST", "/serve", agent="bob", message="far away")
    run = daemon.read(stored.runs)[-1]["id"]
    for hop in range(1, 24):
        daemon.do("POST", "/serve", agent="bob", message="further", cause=run)
        assert daemon.read(stored.instructions)[-1]["hop"] == hop
        run = daemon.read(stored.runs)[-1]["id"]
    with pytest.raises(AgentWorkerError, match="24 hops away from the request that began it: it is not passed on"):
        daemon.do("POST", "/serve", agent="bob", message="further", cause=run)
