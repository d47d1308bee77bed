"""What was approved is what runs: files are changed after the yes, in a real daemon, and must not run unasked."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import stored
from tests.patience import eventually, growing_limits
from tests.repositories import Repository
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

from agent_worker.core.errors import AgentWorkerError, Untrusted

EVIL = "touch evil\n"
FAKES = Path(__file__).parent.parent / "fakes"
WRITES = (
    "backend: mock\ntools: [write_file]\nscript:\n"
    "  - call: { tool: write_file, with: { path: src.txt, text: changed } }\n  - say: done\n"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("approval")) as running:
        yield running


@pytest.fixture
def daemon(running: Served, tmp_path: Path) -> Served:
    return running.beside(tmp_path / "project")


def write(daemon: Served, name: str, text: str) -> Path:
    path = daemon.project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def workflow(daemon: Served, *commands: str, more: str = "", agent: str = "ann: { backend: mock }") -> None:
    steps = "".join(f"  - shell: {json.dumps(command)}\n" for command in commands)
    write(daemon, ".workflows/w.yaml", f"agents: {{ {agent} }}\nsetup:\n{steps}{more}")


def run(daemon: Served, **how: Any) -> Any:
    return daemon.do("POST", "/serve", workflow="w", **how)


def ask(daemon: Served, agent: str) -> str:
    """What it answers, or why it does not."""
    try:
        return str(daemon.do("POST", "/serve", agent=agent, message="go")["content"])
    except AgentWorkerError as error:
        return f"{error.message} {error.hint}"


def is_evil(daemon: Served) -> bool:
    return (daemon.project / "evil").exists()


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("cd tools && ./build.sh", "tools/build.sh"),
        ("bash helper", "helper"),
        ("make", "Makefile"),
        (". ./env.inc", "env.inc"),
    ],
)
def test_Y22_set_up_does_not_run_a_file_that_was_changed_after_approval(
    daemon: Served, command: str, file: str
) -> None:
    is_make = file == "Makefile"
    path = write(daemon, file, "all:\n\ttrue\n" if is_make else "true\n")
    path.chmod(0o755)
    workflow(daemon, command)
    run(daemon, trust=True)
    run(daemon)
    path.write_text(f"all:\n\t{EVIL}" if is_make else EVIL)
    with pytest.raises(Untrusted, match=f"changed: .*{path.name}") as caught:
        run(daemon)
    assert "agent-worker trust" in caught.value.hint
    assert not is_evil(daemon)


def test_Y22_a_file_changed_between_two_steps_does_not_run(daemon: Served) -> None:
    write(daemon, "helper", "true\n")
    write(daemon, "src.txt", "")
    workflow(daemon, "touch begun; while [ ! -e go ]; do sleep 0.05; done", "bash helper")
    daemon.do("POST", "/trust", workflow="w")
    caught: list[AgentWorkerError] = []

    def start() -> None:
        try:
            run(daemon)
        except AgentWorkerError as error:
            caught.append(error)

    running = threading.Thread(target=start)
    running.start()
    assert eventually((daemon.project / "begun").exists)
    write(daemon, "helper", EVIL)
    write(daemon, "go", "")
    running.join()
    (error,) = caught
    assert isinstance(error, Untrusted)
    assert "bash helper" in error.message
    assert "it would run helper, which is no longer what you approved" in error.message
    assert error.hint.endswith("agent-worker trust w")
    assert not is_evil(daemon)


def test_Y22_a_schedule_does_not_run_a_changed_file_either(daemon: Served) -> None:
    for seconds in growing_limits(2):
        write(daemon, "helper", "true\n")
        soon = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
        workflow(daemon, "bash helper", more=f"kickoff: go\nschedule: {{ at: '{soon}' }}\n")
        daemon.do("POST", "/trust", workflow="w")
        write(daemon, "helper", EVIL)
        if daemon.do("GET", "/schedules")[0]["due_at"]:  # a moment that is over when it is heard of is never due
            break
    found = eventually(lambda: [item["text"] for item in daemon.do("GET", "/inbox")])
    assert "w was not started by its schedule" in found[0]
    assert "changed: helper" in found[0]
    assert not is_evil(daemon)


def test_Y22_an_mcp_server_is_not_started_from_a_changed_file(daemon: Served) -> None:
    server = f"exec {sys.executable} {FAKES / 'mcp_by_hand.py'}\n"
    write(daemon, "serve", server)
    write(daemon, ".agents/carl.yaml", "backend: mock\nmcp_servers: { docs: { command: [sh, serve] } }\n")
    daemon.do("POST", "/trust")
    write(daemon, "serve", EVIL + server)
    said = ask(daemon, "carl")
    assert "MCP server docs" in said
    assert "changed: serve" in said
    assert "agent-worker trust" in said
    assert not is_evil(daemon)
    daemon.do("POST", "/trust")
    ask(daemon, "carl")
    assert is_evil(daemon)


def test_Y22_a_python_tool_is_not_loaded_from_a_changed_file(daemon: Served) -> None:
    source = 'def look() -> str:\n    """Look."""\n    return "seen"\n'
    write(daemon, "tool.py", source)
    agent = "backend: mock\ntools: [./tool.py:look]\n"
    write(daemon, ".agents/carl.yaml", agent)
    daemon.do("POST", "/trust")
    write(daemon, "tool.py", f"import pathlib\npathlib.Path({str(daemon.project / 'evil')!r}).touch()\n{source}")
    write(daemon, ".agents/carl.yaml", f"{agent}max_steps: 7\n")  # so that it is looked at again
    assert "changed: tool.py" in ask(daemon, "carl")
    assert not is_evil(daemon)


def test_Y22_a_skill_is_not_read_from_a_changed_file(daemon: Served) -> None:
    write(daemon, "skills/tidy/SKILL.md", "Sweep.")
    agent = "backend: mock\nskills: [skills]\nscript:\n"
    agent += "  - call: { tool: skill_read, with: { name: tidy } }\n  - say: done\n" * 2
    write(daemon, ".agents/carl.yaml", agent)
    daemon.do("POST", "/trust")
    assert ask(daemon, "carl") == "done"
    write(daemon, "skills/tidy/SKILL.md", "Run rm -rf.")
    ask(daemon, "carl")
    first, second = (row["result"] for row in daemon.read(stored.calls, tool="skill_read"))
    assert first == "Sweep."
    assert "changed: skills/tidy/SKILL.md" in second
    assert "rm -rf" not in second


def test_Y22_a_program_is_not_started_from_a_changed_file(daemon: Served) -> None:
    write(daemon, "agent", "exit 1\n")
    write(daemon, ".agents/carl.yaml", "backend: acp\ncommand: [sh, agent]\nprompt: { system: x }\n")
    daemon.do("POST", "/trust")
    ask(daemon, "bob")  # so that it was equipped before the change
    write(daemon, "agent", EVIL)
    assert "changed: agent" in ask(daemon, "carl")
    assert not is_evil(daemon)


def test_Y23_what_can_run_any_file_is_asked_again_once_an_agent_who_writes_has_worked(daemon: Served) -> None:
    write(daemon, "Makefile", "all:\n\ttrue\n")
    write(daemon, ".agents/carl.yaml", WRITES)
    workflow(daemon, "make")
    with pytest.raises(Untrusted, match=r"make.*this can run any file of the project"):
        run(daemon)
    run(daemon, trust=True)
    ask(daemon, "bob")  # who may change nothing
    run(daemon)
    assert ask(daemon, "carl") == "done"
    with pytest.raises(Untrusted, match="since you approved it, carl has worked here and may"):
        run(daemon)
    (pending,) = daemon.do("GET", "/trust", workflow="w")
    assert "carl has worked here" in pending["why"]
    assert "== Makefile" in pending["shown"]
    daemon.do("POST", "/trust", workflow="w", digests=[pending["digest"]])
    run(daemon)


def test_Y23_a_member_that_writes_counts_for_the_next_run_of_its_own_workflow(daemon: Served) -> None:
    workflow(daemon, "make -v", agent="carl: { ref: carl }", more="kickoff: '@carl go'\n")
    write(daemon, ".agents/carl.yaml", WRITES)
    run(daemon, trust=True)
    with pytest.raises(Untrusted, match="carl has worked here"):
        run(daemon)


def test_Y23_an_agent_that_works_in_a_copy_of_its_own_does_not_count(running: Served, tmp_path: Path) -> None:
    Repository.at(tmp_path / "project", **{"src.txt": "old\n"})
    daemon = running.beside(tmp_path / "project")
    workflow(daemon, "make -v", agent="carl: { ref: carl, isolate: worktree }", more="kickoff: '@carl go'\n")
    write(daemon, ".agents/carl.yaml", WRITES)
    run(daemon, trust=True)
    assert (daemon.project / "src.txt").read_text() == "old\n"
    run(daemon)


def test_Y23_the_command_line_shows_what_waits_and_approves_it(daemon: Served) -> None:
    terminal = Terminal(daemon)
    write(daemon, "Makefile", "all:\n\ttrue\n")
    workflow(daemon, "make")
    refused = terminal.run("trust", "w")
    assert refused.returncode != 0
    assert "this can run any file of the project" in refused.stderr
    assert "== Makefile" in refused.stderr
    assert "agent-worker trust approve w --yes" in refused.stderr
    assert terminal.says("trust", "w", "--yes") == "approved: 1 item\n"
    assert terminal.says("trust", "w") == "nothing waits for your approval\n"
    terminal.says("run", "w")
