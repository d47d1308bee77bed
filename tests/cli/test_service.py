"""`service` writes what the system reads, and starts the system's own programs; they are stood in for here."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_worker.cli.service import service
from agent_worker.core.errors import AgentWorkerError, BadInput, Refused
from agent_worker.offline.service_files import LABEL, agent, unit

COMMAND = ["/opt/my tools/agent-worker", "daemon", "run"]
ODD = {"PATH": '/a:/b c:/100%/$HOME/"q"/\\x', "AGENT_WORKER_HOME": "/data/é"}
STAND_IN = """#!/bin/sh
echo "$@" >> "$NOTES"
case "$2" in is-active) test -e "$NOTES.active";; enable) touch "$NOTES.active";; disable) rm -f "$NOTES.active";; esac
"""
Run = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(STAND_IN)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENT_WORKER_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for name in ("XDG_CONFIG_HOME", "AGENT_WORKER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(service, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return json.loads(done.output)


def asked(home: Path) -> list[str]:
    return (home / "notes").read_text().splitlines()


def test_it_is_installed_shown_and_removed(home: Path) -> None:
    file = home / ".config/systemd/user/agent-worker.service"
    assert run("status", code=1) == {"file": str(file), "installed": False, "running": False, "differs": False}
    assert run("install") == {"file": str(file), "running": True}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f'Environment="AGENT_WORKER_HOME={home / "state"}"' in file.read_text()
    assert asked(home)[:2] == ["--user daemon-reload", "--user enable --now agent-worker.service"]
    assert run("status")["running"]
    file.write_text(file.read_text() + "# mine\n")
    assert run("status")["differs"], "of an older version, or changed by hand"
    assert run("remove") == {"file": str(file), "removed": True}
    assert not file.exists()
    assert asked(home)[-2:] == ["--user disable --now agent-worker.service", "--user daemon-reload"]
    assert run("remove")["removed"] is False


def test_keys_are_in_no_file_of_a_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-in-a-unit")
    assert "sk-not-in-a-unit" not in run("install", "--show")["text"]
    assert not (home / ".config").exists(), "what is only shown is not written"
    monkeypatch.setenv("AGENT_WORKER_DATABASE_URL", "postgresql://me:secret@host/db")
    with pytest.raises(BadInput, match="password"):
        run("install")


def test_what_the_system_says_is_told(home: Path) -> None:
    (home / "bin" / "systemctl").write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
    with pytest.raises(AgentWorkerError, match="Failed to connect to bus"):
        run("install")


def test_without_systemd_it_says_what_to_run_instead(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "nothing"))
    with pytest.raises(Refused) as refused:
        run("status")
    assert "agent-worker daemon run" in refused.value.hint


def test_systemd_itself_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd on this system")
    program = tmp_path / "my %h tools$" / "agent-worker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    file = tmp_path / "agent-worker.service"
    file.write_text(unit([str(program), "daemon", "run"], ODD))
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run([analyze, "verify", "--user", file], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    file.write_text(unit([str(tmp_path / "nothing"), "daemon", "run"], {}))
    done = subprocess.run([analyze, "verify", "--user", file], env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0, "it does look"


def test_launchd_reads_what_was_meant() -> None:
    read = plistlib.loads(agent(COMMAND, ODD).encode())
    assert read["Label"] == LABEL
    assert read["ProgramArguments"] == COMMAND
    assert read["EnvironmentVariables"] == ODD
    assert read["KeepAlive"] == {"SuccessfulExit": False}, "stopped by hand, it stays stopped"


def test_a_line_break_ends_no_line_of_the_unit() -> None:
    with pytest.raises(BadInput, match="line break"):
        unit(COMMAND, {"PATH": "/a\nExecStartPre=/bin/evil"})
