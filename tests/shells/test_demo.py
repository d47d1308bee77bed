"""The first five minutes, as a person has them: the real command in a real process."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE
from tests.shells import nursery

COMMAND = [sys.executable, "-m", "agent_worker.cli"]


def run(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {
        k: v for k, v in os.environ.items() if not k.endswith("_API_KEY") and not k.startswith(nursery.READ_AT_START)
    }
    return nursery.run("agent_worker.cli", *arguments, cwd=cwd, env=clean | {"TMPDIR": str(cwd)} | env)


def test_the_demo_shows_a_team_at_work_and_says_where_everything_is(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "user @ada Please lead the review" in done.stdout
    assert "@ben is the new loop" in done.stdout
    assert "↻" in done.stdout  # a failure that is retried
    assert "done: 8 messages; ada (3 runs), ben (2 runs), cleo (3 runs); 0 tokens, 0.00 USD" in done.stdout
    assert "[PROPOSAL] 1: How do we make totals() fast again?" in done.stdout
    assert "decided: How do we make totals() fast again? → build the index once" in done.stdout
    files = [line.split()[-1] for line in done.stdout.splitlines() if line.strip().startswith(("the ", "a memory"))]
    assert len(files) == 5
    assert all(Path(file).exists() for file in files)
    document = next(Path(file) for file in files if file.endswith("review.md"))
    assert "Outcome: build the index once" in document.read_text()
    assert "\x1b" not in done.stdout  # plain through a pipe


def test_the_demo_prints_its_events_as_json_lines(tmp_path: Path) -> None:
    done = run("demo", "--json", cwd=tmp_path)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = {"message", "started", "tool_call", "document", "resource", "vote", "retry", "ended"}
    assert kinds <= {e["event"] for e in events}
    assert [e["seq"] for e in events if e["event"] == "message"] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_on_a_terminal_the_demo_is_alive_unless_colours_are_unwanted(tmp_path: Path) -> None:
    assert "\x1b[36m" in on_terminal(tmp_path)
    plain = on_terminal(tmp_path, NO_COLOR="1")
    assert "\x1b[36m" not in plain
    assert "\x1b[2K" in plain  # the last line still lives


def on_terminal(cwd: Path, **env: str) -> str:
    reading, writing = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "demo"], cwd=cwd, env=os.environ | {"TMPDIR": str(cwd), "TERM": "xterm"} | env, stdout=writing
    )
    os.close(writing)
    shown = b""
    try:
        while piece := os.read(reading, 65536):
            shown += piece
    except OSError:  # the other side has closed
        pass
    os.close(reading)
    assert child.wait(timeout=PATIENCE) == 0
    return shown.decode()


def test_validate_shows_every_mistake_with_its_place(tmp_path: Path) -> None:
    (tmp_path / ".agents").mkdir()
    (tmp_path / ".agents" / "alice.yaml").write_text("backend: mock\nmax_stepps: 3\ntimeout: soon\n")
    done = run("validate", cwd=tmp_path)
    assert done.returncode == 2
    assert ".agents/alice.yaml:2:1: max_stepps" in done.stderr
    assert "did you mean" in done.stderr
    assert ".agents/alice.yaml:3:10: timeout" in done.stderr


def test_schemas_are_json(tmp_path: Path) -> None:
    for kind in ("agent", "workflow", "project"):
        assert json.loads(run("schema", kind, cwd=tmp_path).stdout)["type"] == "object"


def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = " ".join([*COMMAND, "schema", "agent"])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "{"
    assert done.stderr == ""
