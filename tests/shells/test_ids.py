"""Ids as people use them: typed by their beginning, completed by the shell; and where a message went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells.served import served
from tests.shells.terminal import Terminal

ASKS = {"call": {"tool": "ask_user", "with": {"question": "Tea or coffee?", "options": ["tea", "coffee"]}}}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("ids")) as daemon:
        terminal = Terminal(daemon)
        terminal.says("start", "review", "--background")
        yield terminal


@pytest.fixture
def question(terminal: Terminal) -> Iterator[dict[str, Any]]:
    """Work of nora's that waits for an answer: the receipt of the message that asked for it."""
    script = json.dumps([ASKS, {"say": "here it is"}])
    (terminal.daemon.project / ".agents" / "nora.yaml").write_text(f"backend: mock\nscript: {script}\n")
    receipt: dict[str, Any] = terminal.json("send", "nora", "bring me something")
    assert eventually(lambda: terminal.json("trace", receipt["id"])[0]["state"] == "waiting")
    yield receipt
    terminal.run("cancel", receipt["id"])
    assert eventually(lambda: terminal.json("agent", "info", "nora")["agent"]["state"] == "idle")
    terminal.says("agent", "delete", "nora", "--yes", "--files")


def completed(terminal: Terminal, line: str) -> list[str]:
    """What the shell offers for the last word of a line."""
    words = f"agent-worker {line}"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "agent-worker")],
        cwd=terminal.daemon.project,
        env={
            "PATH": os.environ["PATH"],
            "AGENT_WORKER_HOME": str(terminal.daemon.home),
            "_AGENT_WORKER_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_where_a_direct_message_went_is_told(terminal: Terminal, question: dict[str, Any]) -> None:
    told = terminal.says("trace", question["id"])
    assert "nora  waits for you  r_" in told
    assert terminal.json("trace", question["id"][:-2])[0]["name"] == "nora"


def test_where_a_message_in_a_channel_went_is_told(terminal: Terminal) -> None:
    called = terminal.json("send", "@review", "@bob look")["id"]
    assert eventually(lambda: "bob  done   r_" in terminal.says("trace", called))
    nobody = terminal.json("send", "@review", "hello all")["id"]
    assert terminal.says("trace", nobody) == "it went to nobody: it calls on no member\n"


_REVERT = ("agent", "revert", "alice", "--source", "r_zzz")


@pytest.mark.parametrize(
    "command", [("trace", "m_zzz"), ("explain", "r_zzz"), ("cancel", "i_zzz"), ("trace", "hello"), _REVERT]
)
def test_an_id_that_nothing_has_is_an_error(terminal: Terminal, command: tuple[str, ...]) -> None:
    done = terminal.run(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: there is no {'message' if command[0] == 'trace' else ''}" in done.stderr
    assert "hint: " in done.stderr


def test_the_beginning_of_an_id_is_enough_where_it_is_one(terminal: Terminal, question: dict[str, Any]) -> None:
    assert eventually(lambda: terminal.json("runs"))
    newest = terminal.json("runs")[0]["id"]
    assert terminal.json("explain", newest[:-1])["run"]["id"] == newest
    assert terminal.json("agent", "revert", "alice", "--source", newest[:-1], "--show")["runs"]
    (item,) = terminal.json("inbox")
    assert terminal.says("inbox", "answer", item["id"][:-1], "tea")
    assert eventually(lambda: terminal.json("trace", question["id"])[0]["state"] == "done")


def test_a_beginning_that_several_have_is_told_with_them(terminal: Terminal) -> None:
    terminal.says("ask", "alice", "one")
    terminal.says("ask", "alice", "two")
    done = terminal.run("explain", "r_")
    assert done.returncode == 2
    assert done.stderr.startswith("error: r_ could be any of ")
    assert "hint: type more of it" in done.stderr


def test_work_is_cancelled_by_the_beginning_of_its_id(terminal: Terminal, question: dict[str, Any]) -> None:
    assert "it was waiting for you" in terminal.says("cancel", question["id"][:-1])


def test_ids_are_completed(terminal: Terminal, question: dict[str, Any]) -> None:
    message = terminal.json("send", "@review", "@bob look")["id"]
    assert eventually(lambda: terminal.json("trace", message)[0]["state"] == "acked")
    run = terminal.json("trace", message)[0]["run"]
    (item,) = terminal.json("inbox")
    for line, expected in (
        (f"explain {run[:-1]}", run),
        (f"trace {message[:-1]}", message),
        (f"trace {question['id'][:-1]}", question["id"]),
        (f"cancel {question['id'][:-1]}", question["id"]),
        (f"inbox answer {item['id'][:-1]}", item["id"]),
        (f"inbox dismiss {item['number']}", str(item["number"])),
        (f"agent revert alice --source {run[:-1]}", run),
        ("runs --agent no", "nora"),
    ):
        assert completed(terminal, line) == [expected], line


def test_who_waits_for_a_person_is_said_to_and_what_to_type(terminal: Terminal, question: dict[str, Any]) -> None:
    (item,) = terminal.json("inbox")
    command = f'→ agent-worker inbox answer {item["number"]} "…"'
    for line in (("ls",), ("status",), ("agent", "info", "nora")):
        shown = " ".join(terminal.says(*line).split())
        assert "waits for you" in shown, line
        assert command in shown, line
    assert "waits for you" in terminal.says("agent", "list")


def test_a_team_that_waits_for_a_person_is_said_to(terminal: Terminal) -> None:
    flow = {"agents": {"ann": {"backend": "mock", "script": [ASKS, {"say": "thanks"}]}}}
    (terminal.daemon.project / ".workflows" / "tea.yaml").write_text(json.dumps(flow))
    terminal.says("start", "tea", "--background")
    terminal.says("send", "@tea", "what is there?")  # she is the only one
    assert eventually(lambda: "waits for you" in terminal.says("ls"))
    (row,) = [line for line in terminal.says("ls").splitlines() if line.startswith("@tea")]
    assert "waits for you" in row
    assert "ann asks: Tea or coffee?" in row
    assert "→ agent-worker inbox answer" in row
    assert "waits for you" in terminal.says("ls", "@tea")
    terminal.says("stop", "@tea")


def test_private_words_for_states_are_not_shown(terminal: Terminal, question: dict[str, Any]) -> None:
    run = terminal.json("trace", question["id"])[0]["run"]
    assert terminal.json("explain", run)["run"]["state"] == "yielded"
    for line in (("runs",), ("explain", run), ("trace", question["id"]), ("agent", "info", "nora")):
        assert "yielded" not in terminal.says(*line), line
    assert "continued later" in terminal.says("runs")
