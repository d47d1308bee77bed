"""The guide about deciding works as it stands there."""

from __future__ import annotations

import re
import shlex

from tests.docs.test_guide import GUIDES, Shell, commands, shell
from tests.patience import eventually

__all__ = ["shell"]


def test_every_command_of_the_guide_about_deciding_works(shell: Shell) -> None:
    assert shell.run(["agent-worker", "init"]).returncode == 0
    (workflow,) = re.findall(r"```yaml\n(.*?)```", (GUIDES / "decisions.md").read_text(), re.DOTALL)
    (shell.cwd / ".workflows" / "council.yaml").write_text(workflow)
    said: dict[str, str] = {}
    for command in commands("decisions.md"):
        line = shlex.join(command[1:])
        if "vote" in command:  # the agents, who vote by themselves, have done so
            assert eventually(lambda: "not voted: user" in _show(shell))
        done = shell.run(command)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        said[line] = done.stdout
    assert "Which index do we build?" in said["inbox"]
    assert "resolved: → tree" in said["proposal vote @council 2 tree --reason 'it keeps the order'"]
    assert "Who owns the documents" in said["proposal list @council"]
    assert "- resolved: tree" in said["doc read @council decisions.md"]
    assert "vetoed: not before the tests are green" in said["proposal veto @council 3 'not before the tests are green'"]


def _show(shell: Shell) -> str:
    return shell.run(["agent-worker", "proposal", "show", "@council", "2"]).stdout
