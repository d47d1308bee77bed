"""What is typed wrong is answered like every other error: what is wrong, and a command that exists."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.shells.test_demo import run

from agent_worker.cli.main import cli
from agent_worker.cli.mistakes import CALLED_OTHERWISE

MISTAKES = {
    "dmeo": ("there is no command 'dmeo'", "did you mean: agent-worker demo"),
    "strat": ("there is no command 'strat'", "did you mean: agent-worker start"),
    "satrt": ("there is no command 'satrt'", "did you mean: agent-worker start"),
    "logs": ("there is no command 'logs'", "agent-worker daemon logs"),
    "xyzzy": ("there is no command 'xyzzy'", "agent-worker --help"),
    "agent shwo alice": ("there is no command 'shwo' in agent-worker agent", "agent-worker agent info alice"),
    "agent show alice": ("there is no command 'show' in agent-worker agent", "agent-worker agent info alice"),
    "agent craete alice": (
        "there is no command 'craete' in agent-worker agent",
        "did you mean: agent-worker agent create alice",
    ),
    "daemon stop": ("there is no command 'stop' in agent-worker daemon", "agent-worker stop --all"),
    "doc raed": ("there is no command 'raed' in agent-worker doc", "did you mean: agent-worker doc read"),
    "agent audit alice": ("there is no command 'audit' in agent-worker agent", "agent-worker audit alice"),
    "agent ask alice hi": ("there is no command 'ask' in agent-worker agent", "agent-worker ask alice hi"),
    "doc search plan": ("there is no command 'search' in agent-worker doc", "agent-worker search plan"),
    "context ls": ("there is no command 'ls' in agent-worker context", "agent-worker context --help"),
    "token rm mine": ("there is no command 'rm' in agent-worker token", "agent-worker token revoke mine"),
    "key ls": ("there is no command 'ls' in agent-worker key", "agent-worker key list"),
    "inbox show 1": ("there is no command 'show' in agent-worker inbox", "agent-worker inbox (it shows everything)"),
    "inbox rm 1": ("there is no command 'rm' in agent-worker inbox", "agent-worker inbox dismiss 1"),
    "agent rename alice zed": ("an agent keeps its name and its files", "agent-worker agent create --help"),
    "service uninstall": ("there is no command 'uninstall' in agent-worker service", "agent-worker service remove"),
    "proposal close 1": ("there is no command 'close' in agent-worker proposal", "agent-worker proposal cancel 1"),
    "db move": ("there is no command 'move' in agent-worker db", "agent-worker db migrate"),
    "stop --all review": (
        "--all stops the daemon and everything in it",
        "to stop review alone: agent-worker stop review",
    ),
    "proposal create @review x? --minutes -x": (
        "invalid value for '--minutes': '-x' is not a number: agent-worker proposal create [@WORKFLOW] QUESTION",
        "agent-worker proposal create --help",
    ),
    "proposal create @review 'tabs or spaces, what do we take?' --options tabs,spaces --tie-break creator": (
        "agent-worker proposal create has no option --options",
        "did you mean: agent-worker proposal create @review 'tabs or spaces, what do we take?' --option tabs,spaces "
        "--tie-break creator",
    ),
    "edit alice": ("there is no command 'edit'", "agent-worker agent edit alice"),
    "ls --foo": ("agent-worker ls has no option --foo", "agent-worker ls --help"),
    "ls --jsno": ("agent-worker ls has no option --jsno", "did you mean: agent-worker ls --json"),
    "gc now": ("one word too many: now", "agent-worker gc"),
    "stats alice": ("one word too many: alice", "agent-worker stats"),
    "ls alice bob cy": ("too many words: bob cy", "agent-worker ls --help"),
    "schema agnet": ("'agnet' is not one of agent, workflow, project", "agent-worker schema agent"),
    "ls --json=3": ("option '--json' does not take a value", "agent-worker ls --help"),
    "run --tag": ("option '--tag' requires an argument", "agent-worker run --help"),
    "inbox 1": ("there is no command '1' in agent-worker inbox", "agent-worker inbox (it shows everything)"),
    "trace": ("MESSAGE is missing: agent-worker trace MESSAGE", "agent-worker trace --help"),
    "peek alice --folow": (
        "agent-worker peek has no option --folow",
        "did you mean: agent-worker peek alice --follow",
    ),
    "runs --agnet=alice -n 3": (
        "agent-worker runs has no option --agnet",
        "did you mean: agent-worker runs --agent=alice -n 3",
    ),
    "send alice --foo": ("agent-worker send has no option --foo", "agent-worker send --help"),
    "runs -n many": ("invalid value for '-n' / '--count': 'many' is not a whole number", "agent-worker runs --help"),
}


@pytest.mark.parametrize("typed", list(MISTAKES))
def test_a_slip_is_told_with_what_was_meant(typed: str, tmp_path: Path) -> None:
    done = run(*shlex.split(typed), cwd=tmp_path)
    message, hint = MISTAKES[typed]
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {message}\n  hint: {hint}\n"


def test_where_json_was_asked_for_an_error_is_json_too(tmp_path: Path) -> None:
    done = run("ls", "--json", "--foo", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "")
    error = json.loads(done.stdout)["error"]
    assert error == {
        "code": "bad_input",
        "message": "agent-worker ls has no option --foo",
        "hint": "agent-worker ls --help",
    }


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no disk that is always full")
def test_json_that_cannot_be_written_is_told_to_the_person(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "agent_worker.cli", "schema", "agent", "--json"]
        done = subprocess.run(words, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the disk is full")


def test_what_is_called_otherwise_is_there_and_what_people_type_is_not() -> None:
    """Else a hint would lead nowhere, or stand in the way of a command."""
    for path, words in CALLED_OTHERWISE.items():
        for word, command in words.items():
            assert exists(command.split()[1:]), command
            assert not exists([*path.split()[1:], word]), word


def exists(words: list[str]) -> bool:
    command: click.Command | None = cli
    for word in words:
        if word.startswith("-"):
            return word == "--help" or word in {each for one in command.params for each in one.opts}  # type: ignore[union-attr]
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if command is None:
            return False
    return True


def test_init_writes_nothing_for_a_model_that_nobody_has(tmp_path: Path) -> None:
    done = run("init", "--model", "antropic/claude", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no provider 'antropic'" in done.stderr
    assert "did you mean anthropic?" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("typed", ["ls", "validate", "init --backend mock", "ask alice hi"])
def test_who_is_in_a_directory_that_is_gone_is_told_so(typed: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    line = f"cd gone && rmdir ../gone && {sys.executable} -m agent_worker.cli {typed}"
    env = {"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(tmp_path / "home"), "AGENT_WORKER_PORT": "0"}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    run("stop", "--all", cwd=tmp_path, AGENT_WORKER_HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the directory you are in is gone\n  hint: go to another one: cd ~\n"


def test_a_closed_output_is_no_error(tmp_path: Path) -> None:
    us = f"{sys.executable} -m agent_worker.cli"
    line = f"{us} validate >&- && {us} nosuch 2>&-; echo $?"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_closed_input_is_an_empty_one(tmp_path: Path) -> None:
    env = {**os.environ, "AGENT_WORKER_HOME": str(tmp_path / "home"), "AGENT_WORKER_PORT": "0"}
    line = f"{sys.executable} -m agent_worker.cli ask alice hi <&-"
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    run("stop", "--all", cwd=tmp_path, AGENT_WORKER_HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: there is no agent alice in this project" in done.stderr


def test_what_an_output_of_another_encoding_cannot_show_is_a_question_mark(tmp_path: Path) -> None:
    project = tmp_path / "✎"
    (project / ".agents").mkdir(parents=True)
    (project / ".agents" / "alice.yaml").write_text("backend: mock\n")
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    line = [sys.executable, "-m", "agent_worker.cli", "validate"]
    done = subprocess.run(line, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ok: 1 agent and 0 workflows in {tmp_path}/?\n"


def test_what_comes_through_a_pipe_and_is_no_text_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "agent_worker.cli", "ask", "alice", "look"]
    env = {**os.environ, "AGENT_WORKER_HOME": str(tmp_path / "home")}
    done = subprocess.run(line, cwd=tmp_path, env=env, input=b"\x89PNG\x00\xff", capture_output=True, check=False)
    assert done.returncode == 2
    assert b"error: what came in through the pipe is not text (UTF-8)\n" in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("typed", "code"),
    [("--help", 0), ("run --help", 0), ("schema agent", 0), ("validate --json", 0), ("nosuch", 2), ("", 2)],
)
def test_whoever_reads_no_further_has_seen_enough(typed: str, code: int, tmp_path: Path) -> None:
    """As with `| head -1`; what went wrong is told by the exit code all the same."""
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "agent_worker.cli", *typed.split()]
    try:
        assert subprocess.run(line, cwd=tmp_path, stdout=write, stderr=write, check=False).returncode == code
    finally:
        os.close(write)
