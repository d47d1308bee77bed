"""What a workflow's file says is what happens: `context: false`, a file that is broken now, a kickoff for nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

from agent_worker.tools.toolbox import TEAM

ANN = "agents: { ann: { backend: mock, prompt: { system: You are Ann. } } }\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("says")) as daemon:
        yield daemon


@pytest.fixture
def terminal(daemon: Served, tmp_path: Path) -> Terminal:
    (tmp_path / ".workflows").mkdir()
    return Terminal(replace(daemon, project=tmp_path))


def write(terminal: Terminal, text: str) -> None:
    (terminal.daemon.project / ".workflows" / "solo.yaml").write_text(text)


def test_without_context_there_is_no_word_of_a_workspace_and_no_tool_for_one(terminal: Terminal) -> None:
    write(terminal, f"{ANN}context: false\nkickoff: look at the door\n")
    assert "ann I have looked at this: look at the door" in terminal.says("run", "solo")
    sent = terminal.says("explain", "--full")
    assert "in a direct conversation with user" in sent
    assert "workspace solo" not in sent
    assert "the channel" not in sent.partition(" tools\n")[0]
    assert [tool.name for tool in TEAM if f"── {tool.name}\n" in sent] == []
    assert "── ask_user\n" in sent


def test_without_context_the_run_is_there_afterwards_and_no_file_is(terminal: Terminal) -> None:
    write(terminal, f"{ANN}context: false\nkickoff: look at the door\n")
    terminal.says("run", "solo")
    assert "ann" in terminal.says("runs")
    assert "asked: look at the door" in terminal.says("explain")
    assert "look at the door" in terminal.says("peek", "@solo")
    assert not (terminal.daemon.project / ".workspace").exists()


def test_without_context_what_is_sent_later_reaches_the_agent_too(terminal: Terminal) -> None:
    write(terminal, f"{ANN}context: false\nkickoff: look at the door\n")
    terminal.says("start", "solo", "--background")
    assert terminal.says("ask", "ann@solo", "and the window?") == "I have looked at this: and the window?\n"
    terminal.says("stop", "@solo")


@pytest.mark.parametrize("command", ["run", "start"])
def test_a_workflow_whose_file_is_broken_now_is_not_started_as_it_was_before(terminal: Terminal, command: str) -> None:
    write(terminal, f"{ANN}kickoff: hello\n")
    assert "done:" in terminal.says("run", "solo")
    write(terminal, f"{ANN}kickof: hello\n")
    done = terminal.run(command, "solo")
    assert done.returncode == 2, done.stdout
    assert '.workflows/solo.yaml:2:1: kickof: unknown key (did you mean "kickoff"?)' in done.stderr
    write(terminal, f"{ANN}kickoff: hello again\n")
    assert "hello again" in terminal.says("run", "solo")


@pytest.mark.parametrize("command", ["run", "start"])
@pytest.mark.parametrize("desk", ["", "desk: ann\n"])
def test_a_kickoff_that_names_nobody_here_is_refused_as_validate_does(
    terminal: Terminal, command: str, desk: str
) -> None:
    write(terminal, f"{ANN}{desk}kickoff: '@zoe look at the door'\n")
    told = "kickoff: nobody here is called zoe (members: ann; in `back-ticks` it calls on nobody)"
    assert told in terminal.run("validate").stderr
    done = terminal.run(command, "solo")
    assert done.returncode == 2, done.stdout
    assert told in done.stderr
