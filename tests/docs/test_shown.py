"""What pages show without its being typed line by line: what is printed, folders, files of others, a whole inbox."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.test_guide import GUIDES, Shell, follow, shell
from tests.docs.test_links import ROOT
from tests.docs.test_pages import blocks, type_all
from tests.doors.test_outbox import mailbox, receiver
from tests.patience import PATIENCE, eventually
from tests.shells.served import Served, served
from tests.shells.terminal import Terminal

from agent_worker.cli.connect import connect
from agent_worker.daemon.process.settings import PORT
from agent_worker.files.root import Root
from agent_worker.identity import proposals
from agent_worker.identity.change import Change

__all__ = ["shell"]

CHOICE = {"call": {"tool": "ask_user", "with": {"question": "Which one?", "options": ["a", "b"]}}}
ASKS_FIRST = [{"name": "bash", "approve": True}]
MAKES = {"call": {"tool": "bash", "with": {"command": "make test"}}}


def shown(page: str, label: str, first: str) -> str:
    """The one block of a guide that begins with these words."""
    (found,) = [text for text in blocks(GUIDES / f"{page}.md", label) if text.lstrip().startswith(first)]
    return found


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shown")) as made:
        yield made


@pytest.fixture
def terminal(daemon: Served, tmp_path: Path) -> Terminal:
    """In a project of its own."""
    return Terminal(daemon.beside(tmp_path / "project"))


def agent(terminal: Terminal, name: str, *script: dict[str, Any], **more: Any) -> None:
    """An agent that does just this."""
    written = {"backend": "mock", "script": list(script)} | more
    (terminal.daemon.project / ".agents" / f"{name}.yaml").write_text(json.dumps(written))


# --- what is printed ------------------------------------------------------------------------------------


def test_the_question_about_a_command_names_its_files(terminal: Terminal) -> None:
    write_build(terminal, "cd tools && ./build.sh")
    (terminal.daemon.project / "tools").mkdir()
    for name, text in {"build.sh": "#!/bin/sh\n. ./lib.sh\n", "lib.sh": "echo built\n"}.items():
        (terminal.daemon.project / "tools" / name).write_text(text)
    asked = terminal.run("trust", "build").stderr
    assert shown("approval", "text", "set-up of build runs: cd tools") in asked


def test_the_question_is_asked_again_once_somebody_has_worked_who_may_change_files(terminal: Terminal) -> None:
    (terminal.daemon.project / "Makefile").write_text("all:\n\ttrue\n")
    write_build(terminal, "make")
    agent(terminal, "alice", {"say": "done"}, tools=["write_file"])
    terminal.says("trust", "--yes")
    terminal.says("ask", "alice", "go on")
    asked = terminal.run("trust", "build").stderr
    assert shown("approval", "text", "since you approved it") in asked


def write_build(terminal: Terminal, command: str) -> None:
    written = {"agents": {"bob": {"ref": "bob"}}, "setup": [{"shell": command}], "kickoff": "@bob begin"}
    (terminal.daemon.project / ".workflows" / "build.yaml").write_text(json.dumps(written))


def test_an_approval_is_asked_as_the_guide_shows_it(terminal: Terminal) -> None:
    agent(terminal, "gus", MAKES, {"say": "not run"}, tools=ASKS_FIRST)
    with terminal.on_screen("ask", "gus", "test it") as screen:
        for line in shown("talking", "text", "gus wants").splitlines():
            screen.sees(line)
        screen.types("4")
        assert screen.ends() == 0


def test_where_nobody_can_answer_the_guide_shows_what_is_printed(terminal: Terminal) -> None:
    agent(terminal, "alice", CHOICE, {"say": "I see"})
    printed = terminal.run("ask", "alice", "choose").stderr
    (item,) = terminal.json("inbox")
    assert printed == shown("talking", "text", "waiting for you").replace("answer 3", f"answer {item['number']}")


# --- the inbox, notifications, souls ---------------------------------------------------------------------


def test_each_line_about_the_inbox_settles_such_an_item(terminal: Terminal) -> None:
    agent(terminal, "gus", MAKES, {"say": "run"}, MAKES, {"say": "not run"}, tools=ASKS_FIRST)
    agent(terminal, "ann", CHOICE, {"say": "b it is"}, CHOICE, {"say": "both it is"})
    agent(terminal, "fay", {"fail": "permanent"}, {"say": "better"}, {"fail": "permanent"})
    kinds = {"answer": ("ann", "question"), "approve": ("gus", "approval"), "deny": ("gus", "approval")}
    lines = shown("talking", "sh", "agent-worker inbox answer").splitlines()
    assert len(lines) == 6
    for line in lines:
        verb, number = re.findall(r"inbox (\w+) (\d)", line)[0]
        who, kind = kinds.get(verb, ("fay", "failure"))
        terminal.says("send", who, "go on")
        item = eventually(lambda kind=kind: [each for each in terminal.json("inbox") if each["kind"] == kind])[0]
        command = line.replace(f" {number} ", f" {item['number']} ", 1) if verb in kinds else line
        command = re.sub(rf" {number}(?=\s|$)", f" {item['number']}", command, count=1)
        ran = subprocess.run(["sh", "-c", command], **at(terminal), check=False)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        assert eventually(lambda id=item["id"]: id not in [each["id"] for each in terminal.json("inbox")]), line


def at(terminal: Terminal) -> dict[str, Any]:
    """How a line is typed there, by a shell that finds our command."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "AGENT_WORKER_HOME": str(terminal.daemon.home)}
    return {"cwd": terminal.daemon.project, "env": env, "text": True, "capture_output": True, "timeout": PATIENCE}


def test_the_notifications_of_the_guide_can_be_tried(shell: Shell, tmp_path: Path) -> None:
    """Its file, with addresses of this machine, and a `notify-send` that writes down what it is told."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "notify-send").write_text(f'#!/bin/sh\nprintf "%s" "$1" > {tmp_path}/told\n')
    (tmp_path / "bin" / "notify-send").chmod(0o755)
    with receiver() as (url, posted), mailbox() as (port, mails):
        sinks = yaml.safe_load(shown("notifications", "yaml", "# ~/.agent-worker/notify.yaml"))
        sinks["sinks"]["phone"]["url"] = sinks["sinks"]["chat"]["url"] = url
        sinks["sinks"]["mail"].update(server=f"127.0.0.1:{port}", user=None, password=None)
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "notify.yaml").write_text(yaml.safe_dump(sinks))
        shell.known(PATH=f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}", MY_WEBHOOK_SECRET="shh")
        type_all(shell, shown("notifications", "sh", "agent-worker notify test"))
        # Each at least once: what a busy machine does not hear in time, it is told again.
        signed = "x-agent-worker-signature"
        assert eventually(lambda: {signed in headers for headers, _ in posted} == {True, False})
        assert eventually(lambda: mails and (tmp_path / "told").exists())


def test_the_commands_of_the_story_do_what_it_tells(shell: Shell) -> None:
    shell.write(".agents/carol.yaml", shown("identity", "yaml", "# .agents/carol.yaml"))
    (shell.cwd / ".agents" / "carol").mkdir()
    change = Change("add", field="principles", value="Always explain the trade-offs")
    home = Root(shell.cwd / ".agents" / "carol")
    proposals.add(home, change, by="guard", evidence=(), now=datetime.now(UTC))
    said = type_all(shell, shown("identity", "text", "agent-worker agent soul carol\n"))
    assert "+  - Always explain the trade-offs" in said["agent soul carol diff 2"]
    type_all(shell, shown("identity", "text", "agent-worker agent soul carol drift"))
    type_all(shell, shown("identity", "text", "agent-worker agent soul carol rollback 1"))
    assert "Always explain" not in shell.run(["agent-worker", "agent", "soul", "carol"]).stdout


# --- folders ------------------------------------------------------------------------------------------------


def names_in(tree: str) -> set[str]:
    """The files and folders of a drawing."""
    return set(re.findall(r"^[├└│─ ]*([\w./]+)", tree, re.MULTILINE))


def test_the_files_of_the_first_team_are_the_ones_that_are_made(shell: Shell) -> None:
    assert shell.run(["agent-worker", "init", "--backend", "mock"]).returncode == 0
    made = {str(file.relative_to(shell.cwd)) for file in shell.cwd.rglob("*.yaml")}
    assert names_in(shown("first-team", "text", ".agents/alice.yaml")) == made


@pytest.mark.parametrize("page", ["identity", "memory"])
def test_what_a_folder_shows_is_what_an_agent_gets(shell: Shell, page: str) -> None:
    follow(shell, f"{page}.md")
    source = "".join(file.read_text("utf-8") for file in (ROOT / "src").rglob("*.py"))
    folder, *names = sorted(names_in(shown(page, "text", ".agents/carol/")), key=lambda name: name != ".agents/carol/")
    assert len(names) > 2
    for name in names:
        only_in_need = f'"{Path(name).stem}' in source or f'"{name.rstrip("/")}' in source
        assert (shell.cwd / folder / name).exists() or only_in_need, name


# --- files and programs of others ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "tool", "section"), [("acp", "zed", "agent_servers"), ("mcp", "claude", "mcpServers")]
)
def test_what_is_added_by_hand_is_what_connect_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, tool: str, section: str
) -> None:
    from click.testing import CliRunner

    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("AGENT_WORKER_HOME", raising=False)
    done = CliRunner().invoke(connect, [tool, "--yes", "--json"], catch_exceptions=False)
    entry = json.loads(Path(json.loads(done.stdout)["file"]).read_text())[section]["agent-worker"]
    (by_hand,) = blocks(GUIDES / f"{page}.md", "json")
    written = json.loads(by_hand)[section]["agent-worker"]
    assert [written["args"][-1], written.get("type")] == [entry["args"][-1], written.get("type") and entry.get("type")]
    assert written["command"] == "agent-worker"


def test_the_program_with_the_library_of_openai_runs(daemon: Served) -> None:
    (program,) = blocks(GUIDES / "openai.md", "python")
    token = daemon.do("POST", "/tokens", name="laptop")["token"]
    program = program.replace(f"127.0.0.1:{PORT}", daemon.here).replace("awdoor_…", token)
    (daemon.project / ".workflows" / "review.yaml").write_text("agents: { alice: { ref: alice } }\ndesk: alice\n")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.stderr == ""
    assert ran.stdout.endswith("I have looked at this: hello")
    assert "Is this safe? …" in ran.stdout


def test_what_prometheus_is_told_opens_the_numbers(daemon: Served) -> None:
    told = yaml.safe_load(shown("observability", "yaml", "# /etc/prometheus"))
    ((job,),) = told.values()
    assert set(job) == {"job_name", "authorization", "static_configs"}, "no other path than /metrics, no other scheme"
    assert job["static_configs"] == [{"targets": [f"127.0.0.1:{PORT}"]}]
    made = Terminal(daemon).json("token", "create", "prometheus", "--door", "metrics")
    assert daemon.ask("GET", "/metrics", token=made["token"]).status == 200


def test_the_tasks_that_pages_name_are_there() -> None:
    tasks = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.poe.tasks]")[2]
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "README.md", ROOT / "docs" / "proof.md"):
        named = re.findall(r"uv run poe ([\w-]+)", page.read_text("utf-8"))
        assert named
        assert not [name for name in named if not re.search(rf"^{name} = ", tasks, re.MULTILINE)], page
    assert (ROOT / ".ci" / "run").is_file()


def test_the_extras_that_pages_install_are_declared() -> None:
    declared = (ROOT / "pyproject.toml").read_text("utf-8").partition("[project.optional-dependencies]")[2]
    named = {
        extra
        for page in (ROOT / "docs").rglob("*.md")
        for extra in re.findall(r"uv tool install '\.\[(\w+)\]'", page.read_text("utf-8"))
    }
    assert {"otel", "postgres"} <= named
    assert not [extra for extra in named if not re.search(rf"^{extra} = ", declared, re.MULTILINE)]
