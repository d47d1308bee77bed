"""Workflows at the command line: started, watched, talked to and ended as a new user would."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

ECHO = """
agents: { ann: { backend: mock } }
workspace: { provider: sqlite }
env: [LANG]
params:
  - { name: target, short: t, required: true, description: What to look at }
  - { name: depth, type: integer, default: 3 }
  - { name: share, type: number }
  - { name: fast, type: boolean, short: f }
setup:
  - shell: printf '%s|%s|%s' ${{ params.target }} "$PARAMS_DEPTH" ${{ workflow.tag }}
    as: seen
kickoff: "@ann ${{ seen }} fast=${{ params.fast }} share=${{ params.share }} in ${{ context.channel }}"
"""
SLOW = """
agents: { sloth: { backend: mock, script: [{ say: at last, slow: 60s }] } }
workspace: { provider: sqlite }
kickoff: "@sloth go"
"""
BOUND = """
agents: { scribe: { ref: scribe } }
workspace: { bind: ./data/log }
kickoff: "@scribe write"
"""
SCRIBE = """
backend: mock
script:
  - call: { tool: team_doc_append, with: { name: notes.md, text: first } }
  - say: I wrote it down
  - say: and once more
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("flows")) as daemon:
        (daemon.project / ".agents" / "scribe.yaml").write_text(SCRIBE)
        for name, text in {"echo": ECHO, "slow": SLOW, "bound": BOUND}.items():
            (daemon.project / ".workflows" / f"{name}.yaml").write_text(text)
        daemon.do("POST", "/trust")
        yield Terminal(daemon)


def kickoff(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.lstrip().startswith("user"))


# --- params -------------------------------------------------------------------------------------------------------


def test_params_are_typed_and_have_defaults(terminal: Terminal) -> None:
    done = terminal.run("run", "echo", "--tag", "p1", "--", "--target", "main", "--share", "0.5", "-f")
    assert "@ann main|3|p1 fast=true share=0.5 in @echo:p1" in kickoff(done)
    done = terminal.run("run", "echo", "--", "-t", "a b; $(touch pwned) `id` 'q'", "--depth", "9")
    assert "@ann a b; $(touch pwned) `id` 'q'|9|main fast=false share= in @echo" in kickoff(done)
    assert not (terminal.daemon.project / "pwned").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--depth", "x", "-t", "m"), "not a whole number"),
        (("--targett", "m"), "--target"),
        (("--depth", "1"), "target"),
        ((), "needs the parameter target"),
    ],
)
def test_wrong_params_are_named(terminal: Terminal, given: tuple[str, ...], words: str) -> None:
    done = terminal.run("run", "echo", "--", *given)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize("params", [{"target": "m", "depth": "x"}, {"target": "m", "fast": "maybe"}, {"what": "m"}, {}])
def test_params_are_checked_at_every_door(terminal: Terminal, params: dict[str, str]) -> None:
    body = {"workflow": "echo", "params": params, "project": str(terminal.daemon.project)}
    assert terminal.daemon.ask("POST", "/workflows", body=body).status == 422


def test_params_have_a_help_of_their_own(terminal: Terminal) -> None:
    shown = terminal.says("run", "echo", "--", "--help")
    for words in (
        "-t, --target TEXT",
        "What to look at",
        "[required]",
        "--depth INTEGER",
        "[default: 3]",
        "-f, --fast",
    ):
        assert words in shown


# --- running ------------------------------------------------------------------------------------------------------


def test_an_agent_is_run_with_a_message(terminal: Terminal) -> None:
    assert terminal.says("run", "alice", "look here").strip() == "I have looked at this: look here"
    last = json.loads(terminal.says("run", "alice", "look here", "--json").splitlines()[-1])
    assert (last["event"], last["state"]) == ("done", "done")
    assert "there is no workflow nobody" in terminal.run("run", "nobody", "look here").stderr
    assert "did you mean: agent-worker run review\n" in terminal.run("run", "reveiw").stderr


def test_a_workflow_whose_file_is_wrong_says_what_is_wrong_with_it(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".workflows" / "wrong.yaml"
    file.write_text("agents: { ann: { backend: mock } }\nkickof: hello\n")
    try:
        done = terminal.run("run", "wrong")
    finally:
        file.unlink()
    assert done.returncode == 2
    assert "wrong.yaml:2:1: kickof" in done.stderr
    assert 'did you mean "kickoff"?' in done.stderr


@pytest.mark.parametrize("command", ["run", "start", "serve"])
def test_a_team_with_a_script_that_cannot_be_played_is_not_started(terminal: Terminal, command: str) -> None:
    flow = terminal.daemon.project / ".workflows" / "mute.yaml"
    flow.write_text("agents:\n  a: { backend: mock, script: [ { again: true } ] }\nkickoff: '@a go'\n")
    done = terminal.run(command, "mute")
    assert (done.returncode, done.stdout) == (2, "")
    assert "mute.yaml:2:31: agents.a.script: has nothing to play (begin it with an entry such as say:" in done.stderr
    assert "  hint: agent-worker validate\n" in done.stderr
    flow.unlink()


def test_several_instances_run_at_once_and_are_stopped_by_their_tags(terminal: Terminal) -> None:
    for tag in ("a", "b"):
        terminal.says("start", "echo", "--instance", tag, "--", "-t", tag)
    names = {each["name"]: each["state"] for each in terminal.json("ls")["instances"]}
    assert names["echo:a"] == names["echo:b"] == "running"
    assert "stopped" in terminal.says("stop", "@echo:a")
    names = {each["name"]: each["state"] for each in terminal.json("ls")["instances"]}
    assert (names["echo:a"], names["echo:b"]) == ("stopped", "running")
    again = terminal.run("start", "echo", "--tag", "b", "--", "-t", "x")
    assert again.returncode == 2
    assert 'agent-worker send @echo:b "…"' in again.stderr
    terminal.says("stop", "@echo:b")


def test_ctrl_c_stops_what_was_run(terminal: Terminal) -> None:
    child = begin(terminal, "run", "slow", "--tag", "ctrl", stdout=subprocess.DEVNULL)
    assert eventually(lambda: state(terminal, "slow:ctrl") == "running")
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=PATIENCE) == 130
    assert eventually(lambda: state(terminal, "slow:ctrl") == "stopped")


def test_what_is_stopped_by_another_ends_with_130(terminal: Terminal) -> None:
    child = begin(terminal, "run", "slow", "--tag", "other", stdout=subprocess.DEVNULL)
    assert eventually(lambda: state(terminal, "slow:other") == "running")
    terminal.says("stop", "@slow:other")
    assert child.wait(timeout=PATIENCE) == 130


def test_on_a_terminal_progress_is_live(terminal: Terminal) -> None:
    (terminal.daemon.project / ".workflows" / "live.yaml").write_text(SLOW.replace("60s", "2s"))
    master, slave = pty.openpty()
    child = begin(terminal, "run", "live", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 65536)
        except OSError:
            break
    os.close(master)
    assert child.wait(timeout=PATIENCE) == 0
    assert "sloth is thinking…".encode() in shown, "who is at work"
    assert b"\r\x1b[J" in shown, "in a line that is replaced"


def test_on_a_terminal_start_shows_the_channel_and_ctrl_c_leaves_the_workflow_alive(terminal: Terminal) -> None:
    (terminal.daemon.project / ".workflows" / "stays.yaml").write_text(SLOW.replace("60s", "1s"))
    master, slave = pty.openpty()
    child = begin(terminal, "start", "stays", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    while b"@sloth" not in shown:  # the kickoff
        shown += os.read(master, 65536)
    assert b"agent-worker stop @stays" in shown
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=PATIENCE) == 0
    os.close(master)
    assert state(terminal, "stays") == "running"
    terminal.says("stop", "@stays")


def test_a_bound_workspace_goes_on_with_its_history_and_its_documents(terminal: Terminal) -> None:
    first = terminal.run("run", "bound")
    assert first.returncode == 0
    assert "documents: notes.md" in first.stdout
    second = terminal.run("run", "bound")
    assert "and once more" in second.stdout
    said = [json.loads(line)["text"] for line in terminal.says("peek", "@bound", "--json").splitlines()]
    assert said == ["@scribe write", "I wrote it down", "@scribe write", "and once more"]
    log = terminal.daemon.project / "data" / "log" / "channel.jsonl"
    assert [json.loads(line)["seq"] for line in log.read_text().splitlines()] == [1, 2, 3, 4]
    assert (terminal.daemon.project / "data" / "log" / "documents" / "notes.md").read_text() == "first"


def test_inline_agents_leave_nothing_behind(terminal: Terminal) -> None:
    terminal.run("run", "echo", "--", "-t", "x")
    assert "ann" not in [agent["name"] for agent in terminal.json("agent", "list")]
    assert not (terminal.daemon.project / ".agents" / "ann").exists()
    assert terminal.run("send", "ann", "hello?").returncode == 2


def test_a_member_that_is_busy_in_one_instance_serves_another_afterwards(terminal: Terminal) -> None:
    """Attached to both, detached from each with its end."""
    flow = "agents: { alice: { ref: alice } }\nworkspace: { provider: sqlite }\n"
    (terminal.daemon.project / ".workflows" / "two.yaml").write_text(flow)
    for tag in ("x", "y"):
        terminal.says("start", "two", "--tag", tag)
        terminal.says("send", f"@two:{tag}", f"@alice this is {tag}")
    for tag in ("x", "y"):
        wanted = f"I have looked at this: alice this is {tag}"
        assert eventually(lambda t=tag, w=wanted: w in terminal.says("peek", f"@two:{t}"))
    terminal.says("stop", "@two:x")
    assert "is not running" in terminal.run("send", "alice@two:x", "still there?").stderr
    terminal.says("send", "alice@two:y", "still there?")
    terminal.says("stop", "@two:y")


# --- schedules ----------------------------------------------------------------------------------------------------


def test_schedules_are_set_looked_at_and_cleared_for_agents_and_workflows(terminal: Terminal) -> None:
    terminal.says("schedule", "bob", "set", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--prompt", "good morning")
    terminal.says("schedule", "set", "echo:night", "30m", "--", "--target", "nightly")
    found = {each["target"]: each for each in terminal.json("schedule", "list")}
    assert found["bob"]["wakeup"] == "0 9 * * 1-5"
    assert found["echo:night"]["params"]["target"] == "nightly"
    assert found["bob"]["due_at"]
    assert found["bob"]["fired_at"] is None
    assert "Europe/Berlin" in terminal.says("schedule", "get", "bob")
    assert "needs the parameter target" in terminal.run("schedule", "set", "echo", "30m").stderr
    for target in ("bob", "echo:night"):
        assert terminal.says("schedule", "clear", target).strip() == "cleared"
    assert terminal.json("schedule", "list") == []


def begin(terminal: Terminal, *words: str, **how: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "agent_worker.cli", *words],
        cwd=terminal.daemon.project,
        env={"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(terminal.daemon.home), "TERM": "xterm"},
        **how,
    )


def state(terminal: Terminal, name: str) -> str:
    daemon: Served = terminal.daemon
    rows = daemon.client.request("GET", daemon.query("/instances"))[1]
    return next((row["state"] for row in rows if row["name"] == name), "")


def test_the_files_of_an_instance_are_readable(terminal: Terminal) -> None:
    flow = "agents: { ann: { backend: mock } }\nkickoff: '@ann hello'\n"
    (terminal.daemon.project / ".workflows" / "plain.yaml").write_text(flow)
    assert terminal.run("run", "plain", "--tag", "t1").returncode == 0
    folder: Path = terminal.daemon.project / ".workspace" / "plain" / "t1"
    assert "@ann hello" in (folder / "channel.jsonl").read_text()
    assert (folder / "history" / "ann.jsonl").exists()


def test_an_agent_that_is_deleted_wakes_no_more(terminal: Terminal) -> None:
    terminal.says("agent", "create", "dora", "--backend", "mock")
    terminal.says("schedule", "dora", "set", "10m")
    terminal.says("agent", "delete", "dora", "--yes")
    assert terminal.json("schedule", "list") == []
