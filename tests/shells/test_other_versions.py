"""A daemon of another version may answer with something else: that is told in a sentence, and what to do about it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.daemon.minimal import running
from tests.shells import nursery

COMMANDS = """
ls
ls @review
status
runs
explain
stats
audit
inbox
inbox answer 1 yes
agent list
agent info alice
agent memory alice
agent todo alice
agent notes alice
ask alice hello
send alice hello
run review
start review
stop @review
resume @review
serve alice hello
peek alice
search coffee
trace m_1
trust
settings
providers
backends
schedule list
doc list @review
doc read @review plan.md
proposal list @review
proposal show @review 1
key list
token list
notify list
export @review
doctor
"""


@pytest.mark.parametrize("answers", ["{}", "[]", "null", '"words"', "[{}]", '{"agents": [{}]}', "<html>"])
def test_no_answer_of_a_daemon_makes_a_command_fall_over(answers: str, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir(mode=0o700)
    (project / ".agents").mkdir(parents=True)
    told = 0
    with running(home, answers=answers):
        for line in COMMANDS.split("\n"):
            if not line:
                continue
            done = nursery.run(
                "agent_worker.cli", *shlex.split(line), cwd=project, env={"AGENT_WORKER_HOME": str(home)}, stdin=""
            )
            assert "Traceback" not in done.stderr, f"{line}\n{done.stderr}"
            assert done.returncode in (0, 1, 2), line
            told += "is not what this version expects" in done.stderr
    assert told or answers == "<html>"
