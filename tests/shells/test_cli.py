"""The command line as people and scripts use it, against a real daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, eventually
from tests.shells import nursery
from tests.shells.served import served
from tests.shells.terminal import Terminal

from agent_worker.definitions.project_files import load_project

LOOP = """
name: loop
agents:
  ping: { backend: mock, script: [{ say: "@pong your turn" }, { say: "@pong again" }, { say: "@pong more" }] }
  pong: { backend: mock, script: [{ say: "@ping and yours" }, { say: "@ping again" }, { say: "@ping more" }] }
workspace: { provider: memory }
limits: { turns: 3 }
kickoff: "@ping begin"
"""
FAILING = """
name: failing
agents:
  fred: { backend: mock, script: [{ fail: permanent }] }
workspace: { provider: sqlite }
kickoff: "@fred go"
"""
GATED = """
backend: mock
tools: [{ name: write_file, approve: true }]
script:
  - call: { tool: write_file, with: { path: made.txt, text: hello } }
  - say: it is written
  - call: { tool: ask_user, with: { question: "tea or coffee?", options: [tea, coffee] } }
  - say: I will bring it
"""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with served(tmp_path_factory.mktemp("cli")) as daemon:
        workflows = daemon.project / ".workflows"
        (workflows / "loop.yaml").write_text(LOOP)
        (workflows / "failing.yaml").write_text(FAILING)
        (daemon.project / ".agents" / "gus.yaml").write_text(GATED)
        yield Terminal(daemon)


def test_what_a_model_was_sent_is_shown_word_by_word_when_asked_for(terminal: Terminal) -> None:
    terminal.json("agent", "create", "vera", "--backend", "mock", "--system", "You are Vera, and read closely.")
    terminal.says("ask", "vera", "what is seven times six?")
    run = terminal.json("runs", "--agent", "vera")[0]["id"]
    short, long = terminal.says("explain", run), terminal.says("explain", run, "--full")
    assert f"agent-worker explain {run} --full" in short
    assert "read closely" not in short
    for words in ("── identity\nYou are Vera, and read closely.", "── memory_write", '"properties"', "request 1"):
        assert words in long
    told = terminal.json("explain", run, "--full")["sent"]
    assert [section["name"] for section in told["sections"]] == ["identity", "context", "mark", "instruction"]
    assert "what is seven times six?" in told["sections"][-1]["text"]
    assert terminal.json("explain", run)["sent"] is None
    *_, tools = terminal.json("explain", run)["sections"]
    assert (tools["name"], tools["source"]) == ("tools", f"{len(told['tools'])} definitions")
    assert tools["tokens"] > 1000, "most of what it got, and in the table like the rest"


def test_an_agent_is_made_looked_at_edited_and_deleted(terminal: Terminal) -> None:
    made = terminal.json("agent", "create", "dora", "--backend", "mock", "--system", 'You are "Dora": kind, exact.')
    assert Path(made["file"]).read_text().startswith('name: "dora"\n')
    assert "dora" in terminal.says("agent", "list")
    assert "mock, 0.00 USD today" in terminal.says("agent", "info", "dora")
    editor = f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('max_steps: 3\\n')\""
    assert "saved" in terminal.says("agent", "edit", "dora", EDITOR=editor)
    assert "max_steps: 3" in Path(made["file"]).read_text()
    assert "saved" in terminal.says("agent", "edit", "dora", "max_steps=4", "limits={usd_per_day: 2}")
    assert "max_steps: 4\nlimits:\n  usd_per_day: 2" in Path(made["file"]).read_text()
    wrong = terminal.run("agent", "edit", "dora", "max_step=4")
    assert wrong.returncode == 2
    assert 'did you mean "max_steps"?' in wrong.stderr
    again = terminal.run("agent", "create", "Dora", "--backend", "mock")
    assert again.returncode == 2
    assert "there is already an agent" in again.stderr
    assert "deleted" in terminal.says("agent", "delete", "dora", "--yes")
    assert not Path(made["file"]).exists()
    assert terminal.run("agent", "info", "dora").returncode == 2


def test_B7_what_nothing_holds_back_is_seen_in_ls(terminal: Terminal) -> None:
    folder = terminal.daemon.project / ".agents"
    (folder / "wild.yaml").write_text("backend: claude\naccess: full\nprompt: { system: You are Wild. }\n")
    (folder / "bare.yaml").write_text("backend: mock\ntools: [{ name: bash, unsafe: true }]\n")
    lines = terminal.says("ls").splitlines()
    assert "full access" in next(line for line in lines if line.startswith("wild"))
    assert "bash without sandbox" in next(line for line in lines if line.startswith("bare"))
    for name in ("wild", "bare"):
        terminal.says("agent", "delete", name, "--yes")


def test_a_quick_agent_lives_in_the_daemon_until_it_is_made_a_lasting_one(terminal: Terminal) -> None:
    made = terminal.json("new", "--backend", "mock")
    assert (made["name"], made["kind"], made["file"]) == ("agent-1", "ephemeral", "")
    assert "I have looked at this" in terminal.says("ask", "agent-1", "hello")
    kept = terminal.json("agent", "create", "quentin", "--from", "agent-1", "--role", "clerk")
    assert terminal.run("agent", "info", "agent-1").returncode == 2, "it is quentin now"
    assert "hello" in terminal.says("peek", "quentin")
    talked = Path(kept["file"]).parent / "quentin" / "conversations"
    assert eventually(lambda: any("hello" in day.read_text() for day in talked.glob("*.jsonl")))
    assert kept["kind"] == "project"
    assert Path(kept["file"]).exists()
    assert "I have looked at this" in terminal.says("ask", "quentin", "hello")


def test_a_quick_agent_can_be_kept_under_its_own_name(terminal: Terminal) -> None:
    quick = terminal.json("new", "--backend", "mock")["name"]
    terminal.says("ask", quick, "my cat is called Ada")
    told = terminal.says("agent", "create", quick, "--from", quick)
    assert f"{quick} is now a lasting agent, with everything that was said to it" in told
    kept = terminal.json("agent", "info", quick)["agent"]
    assert (kept["kind"], Path(kept["file"]).name) == ("project", f"{quick}.yaml")
    assert "my cat is called Ada" in terminal.says("peek", quick)
    talked = Path(kept["file"]).parent / quick / "conversations"
    assert eventually(lambda: any("my cat" in day.read_text() for day in talked.glob("*.jsonl")))
    terminal.says("ask", quick, "and my dog Ben")
    assert eventually(lambda: any("my dog" in day.read_text() for day in talked.glob("*.jsonl")))
    again = terminal.run("agent", "create", quick, "--from", quick)
    assert again.returncode == 2
    assert f"there is no quick agent {quick}" in again.stderr
    terminal.says("agent", "delete", quick, "--yes", "--files")


def test_forgetting_what_is_not_remembered_is_no_edit(terminal: Terminal) -> None:
    assert terminal.run("agent", "memory", "alice", "forget", "no-such-key").returncode == 2
    assert "no-such-key" not in terminal.says("audit", "alice")


def test_a_definition_that_would_not_work_is_not_written(terminal: Terminal) -> None:
    done = terminal.run("agent", "create", "emil")  # backend sdk needs a model
    assert done.returncode == 2
    assert "model" in done.stderr
    assert not (terminal.daemon.project / ".agents" / "emil.yaml").exists()


def test_init_says_when_the_program_it_was_told_to_use_is_missing(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "AGENT_WORKER_HOME": str(tmp_path / "home")}
    done = nursery.run("agent_worker.cli", "init", "--backend", "codex", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "The agents use codex, which is not installed yet." in done.stdout


@pytest.mark.parametrize(
    ("arguments", "env", "written"),
    [
        ((), {}, "backend: mock\n"),
        ((), {"ANTHROPIC_API_KEY": "sk-x"}, "backend: sdk\nmodel: anthropic/"),
        ((), {"PATH": "codex"}, "backend: codex\n"),
        (("--backend", "mock"), {"PATH": "codex"}, "backend: mock\n"),
        (("--model", "openai/gpt-6"), {"PATH": "codex"}, "backend: sdk\nmodel: openai/gpt-6\n"),
    ],
)
def test_init_uses_what_it_finds(tmp_path: Path, arguments: tuple[str, ...], env: dict[str, str], written: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "new").mkdir()
    if name := env.get("PATH"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    known = env | {"PATH": str(programs), "AGENT_WORKER_HOME": str(tmp_path / "home")}
    done = nursery.run("agent_worker.cli", "init", *arguments, cwd=tmp_path / "new", env=known)
    assert done.returncode == 0, done.stderr
    assert written in (tmp_path / "new/.agents/alice.yaml").read_text()
    assert "agent-worker run review" in done.stdout
    assert not load_project(tmp_path / "new").problems


def test_a_message_is_read_from_standard_input_and_may_begin_with_a_dash(terminal: Terminal) -> None:
    assert terminal.says("send", "alice", "-", stdin="from a pipe\n").startswith("sent i_")
    assert "I have looked at this: - a list" in terminal.says("ask", "alice", "- a list")


def test_the_same_key_is_accepted_once(terminal: Terminal) -> None:
    first = terminal.json("send", "bob", "only once", "--key", "k1")
    assert terminal.json("send", "bob", "only once", "--key", "k1")["id"] == first["id"]


def test_peek_goes_on_as_more_is_said_and_ends_by_ctrl_c(terminal: Terminal) -> None:
    terminal.says("start", "review", "--tag", "peeked")
    terminal.says("send", "@review:peeked", "said before")
    with terminal.start("peek", "@review:peeked", "--follow") as peeking:
        assert peeking.stdout is not None
        assert "said before" in peeking.stdout.readline()
        terminal.says("send", "@review:peeked", "said after")
        assert "said after" in peeking.stdout.readline()
        peeking.send_signal(signal.SIGINT)
        assert peeking.wait(PATIENCE) == 130
    terminal.says("stop", "@review:peeked")


def test_run_ends_with_what_came_of_it(terminal: Terminal) -> None:
    assert terminal.run("run", "review").returncode == 0
    failed = terminal.run("run", "failing")
    assert failed.returncode == 1
    assert "fred" in failed.stderr
    limited = terminal.run("run", "loop")
    assert limited.returncode == 3
    assert "limit reached" in limited.stdout
    assert terminal.run("run", "nothing").returncode == 2


def test_run_prints_events_as_json_lines(terminal: Terminal) -> None:
    lines = [json.loads(line) for line in terminal.run("run", "failing", "--json").stdout.splitlines()]
    assert lines[-1]["outcome"] == "failed"
    assert {"message", "started", "ended"} <= {line.get("event") for line in lines}


def test_a_workflow_is_started_paused_resumed_and_stopped(terminal: Terminal) -> None:
    assert "review:x is running" in terminal.says("start", "review", "--tag", "x")
    again = terminal.run("start", "review", "--tag", "x")
    assert again.returncode == 2
    assert "already running" in again.stderr
    assert "paused" in terminal.says("pause", "@review:x")
    receipt = terminal.json("send", "@review:x", "@alice wait for it")
    assert receipt["woke"] == ["alice"]
    assert "running" in terminal.says("resume", "@review:x")
    assert eventually(lambda: terminal.says("trace", receipt["id"]).splitlines()[1].split()[:2] == ["alice", "done"])
    assert "stopped" in terminal.says("stop", "@review:x")
    gone = terminal.run("send", "@review:x", "hello?")
    assert "is not running. Start it with: agent-worker start review --tag x" in gone.stderr


def test_an_approval_and_a_question_wait_in_the_inbox(terminal: Terminal) -> None:
    project = terminal.daemon.project
    terminal.says("send", "gus", "write the file")
    item = wait_for_item(terminal, "approval")
    assert "write_file" in item["text"]
    assert not (project / "made.txt").exists()
    assert terminal.run("inbox", "answer", item["id"], "what?").returncode == 2
    assert "approve" in terminal.says("inbox")
    terminal.says("inbox", "approve", item["id"])
    wait_until(lambda: (project / "made.txt").exists())
    terminal.says("send", "gus", "and now?")
    question = wait_for_item(terminal, "question")
    assert "tea / coffee" in question["text"]
    terminal.says("inbox", "answer", question["id"], "tea")
    wait_until(lambda: "I will bring it" in terminal.says("peek", "gus"))


def wait_for_item(terminal: Terminal, kind: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    wait_until(lambda: found.extend(i for i in terminal.json("inbox") if i["kind"] == kind) or found)
    return found[0]


def wait_until(holds: Any) -> None:
    assert eventually(holds)


def test_a_narrow_terminal_loses_nothing_of_a_table(terminal: Terminal) -> None:
    question = "Which release do you mean: the one of Friday, or the one after the summer holidays?"
    asking = {"call": {"tool": "ask_user", "with": {"question": question}}}
    file = terminal.daemon.project / ".agents" / "nora.yaml"
    file.write_text(f"backend: mock\nscript: {json.dumps([asking, {'say': 'thank you'}])}\n")
    sent = terminal.json("send", "nora", "When is it?")["id"]
    assert eventually(lambda: terminal.json("agent", "info", "nora")["agent"]["state"] == "waiting")
    for columns in (60, 120):
        shown = terminal.shows("ls", columns=columns)
        assert f"nora asks: {question} (since " in " ".join(shown.split())
        assert max(map(len, shown.splitlines())) <= columns
    queue = terminal.shows("agent", "info", "nora", columns=60)
    assert sent in queue
    assert "from: user, work: When is it?" in queue
    terminal.says("cancel", sent)
    terminal.says("agent", "delete", "nora", "--yes")


def test_equal_failures_are_one_item_which_offers_what_can_be_done(terminal: Terminal) -> None:
    terminal.run("run", "failing")
    item = wait_for_item(terminal, "failure")
    assert item["answers"] == ["dismiss"], "its workflow has ended"
    assert terminal.says("inbox", "dismiss", item["id"][:20]).strip() == "done"
    file = terminal.daemon.project / ".agents" / "faulty.yaml"
    script = "[{ fail: permanent }, { fail: permanent }, { say: better }, { say: good }]"
    file.write_text(f"backend: mock\nscript: {script}\n")
    for text in ("one", "two"):
        assert terminal.run("ask", "faulty", text).returncode == 1
    (item,) = said_of(terminal, "faulty")
    assert (item["count"], item["answers"]) == (2, ["retry", "dismiss"])
    assert "2 times" in terminal.says("inbox")
    terminal.says("inbox", "retry", str(item["number"]))
    wait_until(lambda: "good" in terminal.says("peek", "faulty"))
    assert said_of(terminal, "faulty") == []


def test_a_failure_is_settled_when_the_same_was_asked_again_and_went_well(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".agents" / "moody.yaml"
    file.write_text("backend: mock\nscript: [{ fail: permanent }, { say: other }, { say: better }]\n")
    assert terminal.run("ask", "moody", "do it").returncode == 1
    terminal.says("ask", "moody", "something else")
    assert len(said_of(terminal, "moody")) == 1
    terminal.says("ask", "moody", "do it")
    assert said_of(terminal, "moody") == []


def said_of(terminal: Terminal, agent: str) -> list[dict[str, Any]]:
    return [item for item in terminal.json("inbox") if item["agent"] == agent]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("send", "nobody", "hi"), "there is no agent nobody"),
        (("send", "review", "hi"), "did you mean: agent-worker send @review hi"),
        (("send", "a b", "hi"), "alice@review"),
        (("send", "alice@nowhere", "hi"), "there is no workflow nowhere"),
        (("schedule", "set", "alice", "1s"), "10s"),
        (("explain", "r_x"), "there is no run"),
        (("doc", "read", "@review:talk", "../../etc/passwd"), "../"),
        (("inbox", "approve", "t_x"), "nothing is waiting"),
        (("ask", "@review", "hi"), "review"),
        (("export", "@nothing"), "there is no workflow nothing"),
    ],
)
def test_a_mistake_is_named_with_what_to_type_next(terminal: Terminal, command: tuple[str, ...], words: str) -> None:
    if "@review:talk" in command:
        terminal.run("start", "review", "--tag", "talk")
    done = terminal.run(*command)
    assert done.returncode == 2
    assert words in done.stderr
    assert "hint: " in done.stderr or "agent-worker " in done.stderr
    assert "Traceback" not in done.stderr


def test_X7_nothing_that_is_shown_can_move_the_cursor_or_hide(terminal: Terminal) -> None:
    nasty = "a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c\rd\x08e\u202ef"
    terminal.says("send", "bob", nasty)
    wait_until(lambda: "bob I have looked" in terminal.says("peek", "bob"))
    for command in (("peek", "bob"), ("agent", "info", "bob"), ("export", "bob"), ("runs",)):
        shown = terminal.says(*command)
        assert not set(shown) & set("\x1b\x07\r\x08\u202e"), command


def test_completion_knows_commands_agents_and_workflows(terminal: Terminal) -> None:
    assert "_AGENT_WORKER_COMPLETE" in terminal.says("completion", "bash")
    for line, expected in (("ask al", "alice"), ("run rev", "review"), ("sta", "status")):
        words = f"agent-worker {line}"
        env = {
            "_AGENT_WORKER_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        shown = subprocess.run(
            [str(Path(sys.executable).parent / "agent-worker")],
            cwd=terminal.daemon.project,
            env={"PATH": os.environ["PATH"], "AGENT_WORKER_HOME": str(terminal.daemon.home)} | env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert expected in shown.stdout, line


def test_everything_speaks_json(terminal: Terminal) -> None:
    for command in (
        *(("ls",), ("status",), ("runs",), ("stats",), ("inbox",), ("providers",), ("backends",)),
        *(("agent", "list"), ("agent", "memory", "alice"), ("schedule", "list"), ("daemon", "status")),
    ):
        assert terminal.json(*command) is not None


def test_what_a_project_could_execute_is_refused_without_a_terminal(terminal: Terminal) -> None:
    file = terminal.daemon.project / ".workflows" / "armed.yaml"
    file.write_text(
        "agents: { ann: { backend: mock } }\nworkspace: { provider: memory }\n"
        "setup: [{ shell: touch executed.txt }]\nkickoff: '@ann hello'\n"
    )
    refused = terminal.run("run", "armed")
    assert refused.returncode == 2
    assert "touch executed.txt" in refused.stderr
    assert "--trust" in refused.stderr
    assert not (terminal.daemon.project / "executed.txt").exists()
    assert terminal.run("run", "armed", "--trust").returncode == 0
    assert (terminal.daemon.project / "executed.txt").exists()
    assert terminal.run("run", "armed").returncode == 0  # it was approved, as it is
    file.write_text(file.read_text().replace("executed.txt", "other.txt"))
    assert terminal.run("run", "armed").returncode == 2


def test_status_tells_what_is_used_of_the_limits(terminal: Terminal) -> None:
    terminal.says("start", "review", "--tag", "spends")
    assert "I have looked at this" in terminal.says("ask", "alice@review:spends", "look")
    assert "its largest request  1 run   50 runs" in terminal.says("status")
    found = {(each["of"], each["unit"]): each for each in terminal.json("status")["limits"]}
    assert (found["project", "USD"]["limit"], found["alice", "USD"]["limit"]) == (50.0, 20.0)
    assert found["@review:spends", "USD"] == {
        "of": "@review:spends",
        "what": "its largest request",
        "unit": "USD",
        "used": 0.0,
        "limit": 5.0,
        "estimated": False,
        "waits": "",
    }
    assert "alice" in terminal.says("status", "@review:spends")
    assert "mock" in terminal.says("status", "alice")
    terminal.says("stop", "@review:spends")
